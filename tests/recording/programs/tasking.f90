! Tasks of the host and of devices in Fortran, all ordered.
program tasking
  implicit none
  integer, parameter :: n = 1024
  real(8), save :: s(n)
  real(8), allocatable :: a(:)
  real(8) :: total
  integer :: i, k
  allocate (a(n))
  total = 0
  a = 1
  s = 2
  !$omp target map(tofrom: a, s) nowait
  do i = 1, n
    a(i) = a(i) + s(i)
    s(i) = 0
  end do
  !$omp end target
  !$omp taskwait
  total = total + sum(a) + sum(s)
  !$omp parallel
  !$omp single
  do k = 1, 4
    !$omp task shared(a) firstprivate(k) private(i) depend(inout: a)
    do i = 1, n
      a(i) = k
    end do
    !$omp end task
  end do
  !$omp taskwait
  total = total + sum(a)
  call up(1)
  !$omp end single
  !$omp end parallel
  !$omp target map(tofrom: s, total)
  do i = 1, n
    total = total + s(i)
  end do
  !$omp end target
  print *, total, s(1)
contains
  recursive subroutine up(k)
    integer, intent(in) :: k
    if (2 * k + 1 <= n) then
      !$omp task firstprivate(k)
      call up(2 * k)
      !$omp end task
      !$omp task firstprivate(k)
      call up(2 * k + 1)
      !$omp end task
    end if
    !$omp taskwait
    if (2 * k + 1 <= n) then
      s(k) = s(2 * k) + s(2 * k + 1)
    else
      s(k) = 1
    end if
  end subroutine up
end program tasking
