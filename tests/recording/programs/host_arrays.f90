! Arrays that no directive names: `right` orders what threads and tasks of the host do with them, `wrong` does not.
module m
  real(8), save :: s(2048), u(2048), total, counted
contains
  subroutine right(n)
    integer, intent(in) :: n
    real(8), allocatable :: a(:), b(:)
    real(8), pointer :: p(:)
    integer :: i, k
    allocate(a(n), b(n)); allocate(p(n))
    a = 1; b = 2; p = 3; s = 0; u = 1
    !$omp parallel private(k)
    !$omp do
    do i = 1, n
      a(i) = b(n + 1 - i) + p(i)
      s(i) = i
    end do
    !$omp do reduction(+: total)
    do i = 1, n
      total = total + a(n + 1 - i) + s(n + 1 - i)
    end do
    !$omp workshare
    b(:) = a(:) * 2
    !$omp end workshare
    !$omp sections
    !$omp section
    p(1) = b(4)
    !$omp section
    p(2) = b(5)
    !$omp end sections
    !$omp single
    u(:) = p(:)
    !$omp end single
    !$omp critical
    counted = counted + u(3)
    !$omp end critical
    !$omp barrier
    !$omp master
    counted = counted + 1
    !$omp end master
    !$omp barrier
    !$omp single
    do k = 1, 16
      !$omp task firstprivate(k)
      s(k) = k
      !$omp end task
    end do
    !$omp taskwait
    total = total + sum(s(1:16))
    do k = 1, 8
      !$omp task depend(inout: a)
      a(1) = a(1) + 1
      !$omp end task
    end do
    !$omp end single
    !$omp do ordered
    do i = 1, 32
      !$omp ordered
      u(1) = u(1) + s(i)
      !$omp end ordered
    end do
    !$omp end parallel
    total = total + a(1) + u(1) + counted + p(2)
    deallocate(a, b); deallocate(p)
  end subroutine
  subroutine wrong(n)
    integer, intent(in) :: n
    real(8), allocatable :: c(:)
    integer :: i
    allocate(c(n)); c = 1
    !$omp parallel
    c(3) = c(3) + 1
    u(5) = u(5) + 1
    !$omp end parallel
    total = total + c(3) + u(5)
  end subroutine
end module
program p
  use m
  real(8) :: d(2048)
  character(8) :: w
  integer :: i
  d = 1
  !$omp target map(tofrom: d)
  do i = 1, 2048
    d(i) = d(i) + 1
  end do
  !$omp end target
  call get_command_argument(1, w)
  if (w == 'right') call right(2048)
  if (w == 'wrong') call wrong(2048)
  print *, total + d(3) > 0
end program
