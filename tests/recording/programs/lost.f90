! Scalars that no clause names are copied to each launch: those of the marked lines were meant to come back.
program lost
  implicit none
  integer, parameter :: n = 1000
  integer :: a(n), b(n), i, j, total, found, last, right, mapped, everything, factor, used, counter
  double precision :: whole
  do i = 1, n
    a(i) = mod(i, 17)
  end do
  b = 0; total = 0; found = 0; last = 0; right = 0; mapped = 0; everything = 0; factor = 2; used = 1; whole = 0; counter = 0
  !$omp target teams distribute parallel do
  do i = 1, n
    total = total + a(i) ! lost
  end do
  !$omp target
  do i = 1, n
    if (a(i) == 3) found = 1 ! lost
  end do
  !$omp end target
  !$omp target
  do j = 1, n
    if (a(j) > last) last = a(j) ! lost
  end do
  !$omp end target
  !$omp target
  whole = a(3) * 1.5d0 ! lost
  !$omp end target
  !$omp target teams distribute parallel do reduction(+: right)
  do i = 1, n
    right = right + a(i)
  end do
  !$omp target map(tofrom: mapped)
  do i = 1, n
    mapped = mapped + a(i)
  end do
  !$omp end target
  !$omp target defaultmap(tofrom: scalar)
  do i = 1, n
    everything = everything + a(i)
  end do
  !$omp end target
  !$omp target teams distribute parallel do
  do i = 1, n
    b(i) = a(i) * factor
  end do
  !$omp target
  used = used + a(3)
  b(1) = used
  !$omp end target
  !$omp target map(tofrom: counter)
  do i = 1, n
    counter = counter + 1
  end do
  !$omp end target
  !$omp target
  do i = 1, n
    b(1) = b(1) + 1
  end do
  !$omp end target
  print *, total, found, last, right, mapped, everything, b(5), b(1), whole, counter
end program
