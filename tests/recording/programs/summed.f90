! The host reads, in a function of another file, what a kernel has changed since.
program summed
  use iso_c_binding
  implicit none
  interface
    real(c_double) function sum_of(a, n) bind(c)
      import
      real(c_double) :: a(*)
      integer(c_int), value :: n
    end function
  end interface
  integer, parameter :: n = 1000
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target data map(to: a)
  !$omp target teams distribute parallel do
  do i = 1, n
    a(i) = a(i) + 1
  end do
  if (sum_of(a, n) < 0) stop 1
  !$omp end target data
end program
