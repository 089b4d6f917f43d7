! A halo exchange of columns; the host's copies are brought up to date around it.
program halo
  implicit none
  include 'mpif.h'
  integer, parameter :: n = 64, m = 32, steps = 4
  double precision :: a(n, 0:m + 1), b(n, 0:m + 1), sums, total
  integer :: rank, ranks, left, right, ierr, i, j, step, status(MPI_STATUS_SIZE)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  left = mod(rank + ranks - 1, ranks)
  right = mod(rank + 1, ranks)
  a = rank
  b = 0
  !$omp target data map(tofrom: a) map(alloc: b)
  do step = 1, steps
    !$omp target update from(a)
    call MPI_Sendrecv(a(1, m), n, MPI_DOUBLE_PRECISION, right, 0, a(1, 0), n, MPI_DOUBLE_PRECISION, left, 0, &
                      MPI_COMM_WORLD, status, ierr)
    call MPI_Sendrecv(a(1, 1), n, MPI_DOUBLE_PRECISION, left, 1, a(1, m + 1), n, MPI_DOUBLE_PRECISION, right, 1, &
                      MPI_COMM_WORLD, status, ierr)
    !$omp target update to(a)
    !$omp target teams distribute parallel do collapse(2)
    do j = 1, m
      do i = 1, n
        b(i, j) = 0.5d0 * (a(i, j - 1) + a(i, j + 1))
      end do
    end do
    !$omp target teams distribute parallel do collapse(2)
    do j = 1, m
      do i = 1, n
        a(i, j) = b(i, j)
      end do
    end do
  end do
  !$omp end target data
  sums = sum(a(:, 1:m))
  call MPI_Allreduce(sums, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0) print '(F0.1)', total
  call MPI_Finalize(ierr)
end program
