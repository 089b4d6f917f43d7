! Right: tasks and kernels get copies of variables that nobody has written, and nobody uses the copies.
program right
  use omp_lib
  integer, parameter :: n = 1000
  integer :: i, j
  real(8) :: a(n), t, w(4)
  a = 1
  !$omp parallel num_threads(4) private(i, t)
  !$omp single
  !$omp task
  do i = 1, n
    a(i) = a(i) + 1
  end do
  t = 3
  a(1) = a(1) + t
  !$omp end task
  !$omp taskwait
  !$omp end single
  !$omp end parallel
  !$omp parallel num_threads(4) private(j)
  !$omp single
  !$omp target map(tofrom: a) nowait
  do j = 1, n
    a(j) = a(j) + 1
  end do
  !$omp end target
  !$omp taskwait
  !$omp end single
  !$omp end parallel
  !$omp parallel do private(w, t) num_threads(3)
  do i = 1, n
    w = i
    t = sum(w)
    a(i) = a(i) + t
  end do
  !$omp target teams distribute parallel do map(tofrom: a) private(w, t)
  do i = 1, n
    do j = 1, 4
      w(j) = j
    end do
    t = w(1) + w(4)
    a(i) = a(i) + t
  end do
  !$omp parallel do lastprivate(t) firstprivate(w)
  do i = 1, n
    t = a(i)
  end do
  print *, a(1), a(n), t
end program
