! Ranges of NVTX, of rocTX and of omp_control_tool, which has no text in Fortran.
program phases
  use omp_lib
  use iso_c_binding
  implicit none
  interface
    integer(c_int) function push(name) bind(c, name='nvtxRangePushA')
      import
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function pop() bind(c, name='nvtxRangePop')
      import
    end function
    integer(c_int) function roctx_push(name) bind(c, name='roctxRangePushA')
      import
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function roctx_pop() bind(c, name='roctxRangePop')
      import
    end function
  end interface
  real(8) :: x(1000)
  integer :: i, level
  x = 1
  level = push("first"//c_null_char)
  level = roctx_push("second"//c_null_char)
  level = omp_control_tool(64, 7)
  !$omp target teams distribute parallel do map(tofrom: x)
  do i = 1, 1000
    x(i) = x(i) + 1
  end do
  level = omp_control_tool(65, 0)
  level = roctx_pop()
  level = pop()
  print *, x(1)
end program
