! What orders threads and teams. Usage: teams CASE
program teams
  implicit none
  character(8) :: word
  integer :: number, counter, i, round, a(8), b(8), table(10, 6)
  call get_command_argument(1, word)
  read (word, *) number
  counter = 0
  a = 1
  b = 2
  table = 3
  select case (number)
  case (0) ! a critical section orders the threads of one team only
    !$omp target teams distribute parallel do map(tofrom: counter)
    do i = 1, 100
      !$omp critical
      counter = counter + 1
      !$omp end critical
    end do
  case (1)
    !$omp target teams distribute parallel do map(tofrom: counter) num_teams(1)
    do i = 1, 100
      !$omp critical
      counter = counter + 1
      !$omp end critical
    end do
  case (2) ! a loop ends with a barrier
    !$omp target map(tofrom: a, b)
    !$omp parallel private(round)
    do round = 1, 10
      !$omp do
      do i = 1, 8
        b(i) = a(i)
      end do
      !$omp end do
      !$omp do
      do i = 1, 8
        a(i) = b(9 - i)
      end do
      !$omp end do
    end do
    !$omp end parallel
    !$omp end target
  case (3) ! nothing orders teams
    !$omp target map(tofrom: a, b)
    !$omp teams
    !$omp distribute
    do i = 1, 8
      b(i) = a(i)
    end do
    !$omp end distribute
    !$omp distribute
    do i = 1, 8
      a(i) = b(9 - i)
    end do
    !$omp end distribute
    !$omp end teams
    !$omp end target
  case (4) ! a section with gaps
    !$omp target map(tofrom: table(2:5, 3:4))
    do i = 2, 5
      table(i, 4) = table(i, 3) + 1
    end do
    !$omp end target
  end select
  print *, counter, a(1), b(1), table(2, 4)
end program teams
