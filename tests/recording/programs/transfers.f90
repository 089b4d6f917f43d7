! Transfers and allocations that are for nothing, and such that are needed though their bytes are equal; one case a run.
! test_waste_beside_peer.py has what each wastes.
module transfers
  implicit none
  integer, parameter :: n = 1024
  real(8) :: total = 0
contains
  subroutine fill(array, value)
    real(8), intent(out) :: array(:)
    real(8), intent(in) :: value
    integer :: i
    do i = 1, size(array)
      array(i) = value + i
    end do
  end subroutine

  subroutine map_around_each_kernel()
    real(8), allocatable :: sent(:), result(:)
    integer :: i, k
    allocate (sent(n), result(n))
    call fill(sent, 1d0)
    do k = 1, 3
      !$omp target teams distribute parallel do map(to: sent) map(from: result)
      do i = 1, n
        result(i) = sent(i)*k
      end do
      total = total + result(k)
    end do
  end subroutine

  subroutine only_read()
    real(8) :: given(n), result(n)
    integer :: i
    call fill(given, 1d0)
    !$omp target teams distribute parallel do map(tofrom: given) map(from: result)
    do i = 1, n
      result(i) = given(i) + i
    end do
    total = total + result(1)
  end subroutine

  subroutine kept_by_the_host()
    real(8), allocatable :: field(:)
    integer :: i, k
    allocate (field(n))
    call fill(field, 1d0)
    do k = 1, 3
      !$omp target teams distribute parallel do map(tofrom: field)
      do i = 1, n
        field(i) = field(i) + i
      end do
    end do
    total = total + field(7)
  end subroutine

  subroutine two_before_a_kernel()
    real(8), allocatable :: field(:), result(:)
    integer :: i
    allocate (field(n), result(n))
    !$omp target data map(alloc: field) map(from: result)
    call fill(field, 1d0)
    !$omp target update to(field)
    call fill(field, 2d0)
    !$omp target update to(field)
    !$omp target teams distribute parallel do
    do i = 1, n
      result(i) = field(i) + i
    end do
    !$omp end target data
    total = total + result(1)
  end subroutine

  subroutine no_kernel()
    real(8), allocatable :: scratch(:)
    allocate (scratch(n))
    !$omp target data map(alloc: scratch)
    total = total + 1
    !$omp end target data
  end subroutine

  subroutine equal_arrays()
    real(8) :: one(n), other(n), result(n)
    integer :: i
    one = 0
    other = 0
    !$omp target teams distribute parallel do map(to: one, other) map(from: result)
    do i = 1, n
      result(i) = one(i) - other(i) + i
    end do
    total = total + result(1)
  end subroutine

  subroutine fresh_copies()
    real(8), allocatable :: copy(:), result(:)
    integer :: i, k
    allocate (copy(n), result(n))
    call fill(copy, 1d0)
    do k = 1, 3
      !$omp target teams distribute parallel do map(to: copy) map(from: result)
      do i = 1, n
        copy(i) = copy(i) + k
        result(i) = copy(i)
      end do
      total = total + result(1)
    end do
  end subroutine

  subroutine of_an_argument(given, result)
    real(8), intent(in) :: given(:)
    real(8), intent(out) :: result(:)
    integer :: i
    !$omp target teams distribute parallel do map(to: given) map(from: result)
    do i = 1, n
      result(i) = given(i) + 1
    end do
  end subroutine

  subroutine by_assumed_shape()
    real(8), allocatable :: sent(:), result(:)
    integer :: k
    allocate (sent(n), result(n))
    call fill(sent, 1d0)
    do k = 1, 3
      call of_an_argument(sent, result)
      total = total + result(k)
    end do
  end subroutine
end module

program main
  use transfers
  character(32) :: name
  call get_command_argument(1, name)
  select case (name)
  case ('map_around_each_kernel'); call map_around_each_kernel()
  case ('only_read'); call only_read()
  case ('kept_by_the_host'); call kept_by_the_host()
  case ('two_before_a_kernel'); call two_before_a_kernel()
  case ('no_kernel'); call no_kernel()
  case ('equal_arrays'); call equal_arrays()
  case ('fresh_copies'); call fresh_copies()
  case ('by_assumed_shape'); call by_assumed_shape()
  case default; error stop 'no such case'
  end select
  print *, total
end program
