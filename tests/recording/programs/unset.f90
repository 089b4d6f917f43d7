! Variables of threads' own, and reductions of the host, which threads combine one after the other.
program unset
  implicit none
  integer :: i, k
  real(8) :: a(100), x, s, w(4)
  a = 1; x = 2; s = 0
  !$omp target teams distribute parallel do private(x) map(tofrom: a)
  do i = 1, 100
    a(i) = a(i) + x ! unset
    x = a(i)
  end do
  !$omp target teams distribute parallel do private(w) reduction(+:s) map(tofrom: a, s)
  do i = 1, 100
    w(1) = a(i)
    do k = 2, 4
      w(k) = w(k - 1) + 1
    end do
    s = s + w(4)
  end do
  !$omp parallel do private(x) reduction(+:s)
  do i = 1, 100
    s = s + x ! unset
    x = i
  end do
  print *, a(3) == 0, s == 0
end program
