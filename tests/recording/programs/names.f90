module stuff
  implicit none
  real(8) :: fields(4096)
  real(8), allocatable :: cells(:)
  type box
    real(8), allocatable :: values(:)
    real(8) :: weights(2048)
  end type
contains
  subroutine work(n, given, pointed, passed, error)
    integer, intent(in) :: n
    real(8) :: given(n), local(1024)
    real(8), pointer :: pointed(:)
    real(8), allocatable :: passed(:), own(:)
    type(box) :: b, boxes(2)
    real(8) :: first(4096), second(100), error
    common /shared/ first, second
    integer :: i
    allocate (own(n), b%values(n), boxes(2)%values(n))
    boxes(2)%values = 7; own = 1; local = 2; b%values = 3; b%weights = 4; first = 5; second = 6
    error = 0
    !$omp target enter data map(to: own, b%values, boxes(2)%values, cells, pointed)
    !$omp target teams distribute parallel do
    do i = 1, n
      passed(i) = given(i) + local(1 + mod(i, 1024)) + first(i) + second(1 + mod(i, 100)) + fields(i)
      own(i) = pointed(i) + cells(i) + b%values(i)
    end do
    error = own(3) + b%values(3)
  end subroutine
end module
program main
  use stuff
  real(8), allocatable :: x(:), y(:)
  real(8), pointer :: z(:)
  real(8) :: error
  allocate (x(4096), y(4096), z(4096), cells(4096))
  x = 1; y = 2; z = 3; cells = 4; fields = 5
  call work(4096, x, z, y, error)
  print *, error
end program
