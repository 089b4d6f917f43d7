! y = y + 2 x and a dot product, on the device
program axpy
  implicit none
  integer, parameter :: n = 10000
  real(8), allocatable :: x(:), y(:)
  real(8) :: dot
  integer :: i, k
  allocate (x(n), y(n))
  x = 1d0
  y = 2d0
  dot = 0d0
  !$omp target data map(to: x) map(tofrom: y)
  do k = 1, 3
    !$omp target teams distribute parallel do
    do i = 1, n
      y(i) = y(i) + 2d0*x(i)
    end do
  end do
  !$omp target teams distribute parallel do reduction(+: dot) map(tofrom: dot)
  do i = 1, n
    dot = dot + x(i)*y(i)
  end do
  !$omp end target data
  print '(f0.1,1x,f0.1)', y(n), dot
end program
