! Makes calls of MPI of each kind, and writes to FILE.RANK what it called, on which line, and the bytes that it gave and got.
#ifdef F08
#define REQUEST type(MPI_Request)
#define COMMUNICATOR type(MPI_Comm)
#define STATUS_OF(name) type(MPI_Status) :: name
#else
#define REQUEST integer
#define COMMUNICATOR integer
#define STATUS_OF(name) integer :: name(MPI_STATUS_SIZE)
#endif
#define SAID(name, sent, got) write(9, '(A,1X,I0,1X,I0,1X,I0)') name, __LINE__, sent, got
program calls_of_mpi
#if defined(F08)
  use mpi_f08
#elif !defined(OLD)
  use mpi
#endif
  implicit none
#if defined(OLD)
  include 'mpif.h'
#endif
  integer, parameter :: n = 100
  double precision :: a(n, 10), b(n, 10)
  integer :: rank, ranks, next, last, ierr, level, place, i, done
  logical :: flag
  REQUEST :: requests(2), one
  COMMUNICATOR :: half, grid
  STATUS_OF(status)
  character(len=200) :: file, name
  call MPI_Init_thread(MPI_THREAD_SERIALIZED, level, ierr); i = __LINE__
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, file)
  write(name, '(A,A,I0)') trim(file), '.', rank
  open(9, file=trim(name))
  write(9, '(A,1X,I0,A)') 'MPI_Init_thread', i, ' 0 0'
  next = mod(rank + 1, ranks)
  last = mod(rank + ranks - 1, ranks)
  a = rank
  if (mod(rank, 2) == 0) then
    call MPI_Send(a, n, MPI_DOUBLE_PRECISION, next, 1, MPI_COMM_WORLD, ierr); SAID('MPI_Send', 8 * n, 0)
    call MPI_Recv(b, n, MPI_INTEGER, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr); SAID('MPI_Recv', 0, 4 * n)
  else
    call MPI_Probe(last, 1, MPI_COMM_WORLD, status, ierr); SAID('MPI_Probe', 0, 8 * n)
    call MPI_Recv(b, 5 * n, MPI_DOUBLE_PRECISION, last, 1, MPI_COMM_WORLD, status, ierr); SAID('MPI_Recv', 0, 8 * n)
    call MPI_Ssend(a, n, MPI_INTEGER, last, 2, MPI_COMM_WORLD, ierr); SAID('MPI_Ssend', 4 * n, 0)
  end if
  call MPI_Sendrecv(a, n, MPI_DOUBLE_PRECISION, next, 3, b, n, MPI_DOUBLE_PRECISION, last, 3, MPI_COMM_WORLD, status, ierr); SAID('MPI_Sendrecv', 8 * n, 8 * n)
  call MPI_Sendrecv_replace(b, 4, MPI_REAL, next, 4, last, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr); SAID('MPI_Sendrecv_replace', 16, 16)
  call MPI_Irecv(b, n, MPI_DOUBLE_PRECISION, last, 5, MPI_COMM_WORLD, requests(1), ierr); SAID('MPI_Irecv', 0, 0)
  call MPI_Isend(a(:, 3), n, MPI_DOUBLE_PRECISION, next, 5, MPI_COMM_WORLD, requests(2), ierr); SAID('MPI_Isend', 8 * n, 0)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr); SAID('MPI_Waitall', 0, 8 * n)
  call MPI_Recv_init(b, n, MPI_DOUBLE_PRECISION, last, 6, MPI_COMM_WORLD, requests(1), ierr); SAID('MPI_Recv_init', 0, 0)
  call MPI_Send_init(a, n, MPI_DOUBLE_PRECISION, next, 6, MPI_COMM_WORLD, requests(2), ierr); SAID('MPI_Send_init', 0, 0)
  do i = 1, 2
    call MPI_Startall(2, requests, ierr); SAID('MPI_Startall', 8 * n, 0)
#ifdef F08
    call MPI_Wait(requests(1), status, ierr); SAID('MPI_Wait', 0, 8 * n) ! the place that MPICH 4.0 gives to Waitany is wrong here
    call MPI_Wait(requests(2), status, ierr); SAID('MPI_Wait', 0, 0)
#else
    do done = 1, 2
      call MPI_Waitany(2, requests, place, status, ierr); SAID('MPI_Waitany', 0, merge(8 * n, 0, place == 1))
    end do
#endif
  end do
  call MPI_Request_free(requests(1), ierr); SAID('MPI_Request_free', 0, 0)
  call MPI_Request_free(requests(2), ierr); SAID('MPI_Request_free', 0, 0)
  call MPI_Barrier(MPI_COMM_WORLD, ierr); SAID('MPI_Barrier', 0, 0)
  call MPI_Bcast(a, n, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, ierr); SAID('MPI_Bcast', merge(8 * n, 0, rank == 0), merge(0, 8 * n, rank == 0))
  call MPI_Reduce(a, b, n, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD, ierr); SAID('MPI_Reduce', 8 * n, merge(8 * n, 0, rank == 0))
  call MPI_Allreduce(MPI_IN_PLACE, b, n, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr); SAID('MPI_Allreduce', 8 * n, 8 * n)
  call MPI_Allgather(a, 1, MPI_INTEGER, b, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr); SAID('MPI_Allgather', 4, 4 * ranks)
  call MPI_Alltoall(a, 1, MPI_INTEGER, b, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr); SAID('MPI_Alltoall', 4 * ranks, 4 * ranks)
  call MPI_Iallreduce(a, b, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, one, ierr); SAID('MPI_Iallreduce', 8 * n, 8 * n)
  flag = .false.
  do while (.not. flag)
    call MPI_Test(one, flag, status, ierr); SAID('MPI_Test', 0, 0)
  end do
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, ierr); SAID('MPI_Comm_split', 0, 0)
  call MPI_Barrier(half, ierr); SAID('MPI_Barrier', 0, 0)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., grid, ierr); SAID('MPI_Cart_create', 0, 0)
  call MPI_Gather(a, 1, MPI_INTEGER, b, 1, MPI_INTEGER, 0, grid, ierr); SAID('MPI_Gather', 4, merge(4 * ranks, 0, rank == 0))
  call MPI_Comm_free(half, ierr); SAID('MPI_Comm_free', 0, 0)
  close(9)
  call MPI_Finalize(ierr)
end program
