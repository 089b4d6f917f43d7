! Situations of programs that offload; behind the name of each stands what a check has to say of it, as in situations.c.
module cases
use omp_lib
implicit none
integer, parameter :: n = 600
real(8), save :: g(n)
real(8), volatile :: sink
type pt
  integer :: k
  real(8), allocatable :: d(:)
  real(8) :: c(16)
end type
type ptr
  real(8), pointer :: p(:)
end type
contains
subroutine c_sum_ok() ! ok
  real(8), allocatable :: a(:)
  allocate(a(n)); a = 1
  !$omp target map(tofrom: a)
  a = a + 1
  !$omp end target
  sink = sum(a)
  deallocate(a)
end subroutine
subroutine c_sum_stale() ! stale data
  integer :: i
  real(8), allocatable :: a(:)
  allocate(a(n)); a = 1
  !$omp target data map(to: a)
  !$omp target
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  sink = sum(a)
  !$omp end target data
  deallocate(a)
end subroutine
subroutine c_maxval_stale() ! stale data
  integer :: i
  real(8) :: a(n)
  a = 1
  !$omp target data map(to: a)
  !$omp target
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  sink = maxval(a)
  !$omp end target data
end subroutine
subroutine c_loop_race() ! race
  real(8) :: a(n)
  integer :: i
  a = 1
  !$omp target map(tofrom: a) nowait
  do i = 1, n
   a(i) = a(i) + 1
  end do
  !$omp end target
  a(5) = 3
  !$omp taskwait
  sink = a(1)
end subroutine
subroutine c_loop_race_alloc() ! race
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target map(tofrom: a) nowait
  do i = 1, n
   a(i) = a(i) + 1
  end do
  !$omp end target
  a(5) = 3
  !$omp taskwait
  sink = a(1)
end subroutine
subroutine c_nowait_ok() ! ok
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n))
  a = 1
  !$omp target enter data map(to: a)
  !$omp target nowait depend(inout: a)
  do i = 1, n
   a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp taskwait
  !$omp target exit data map(from: a)
  sink = sum(a)
end subroutine
subroutine c_global_ok() ! ok
  integer :: i
  g = 1
  !$omp target map(tofrom: g) nowait
  do i = 1, n
   g(i) = g(i) + 1
  end do
  !$omp end target
  !$omp taskwait
  sink = g(1)
end subroutine
subroutine c_global_race() ! race
  integer :: i
  real(8) :: s
  g = 1
  !$omp target map(tofrom: g) nowait
  do i = 1, n
   g(i) = g(i) + 1
  end do
  !$omp end target
  s = 0
  do i = 1, n
   s = s + g(i)
  end do
  !$omp taskwait
  sink = s
end subroutine
subroutine c_derived_tofrom() ! ok
  type(pt) :: v
  integer :: i
  v%k = 5
  allocate(v%d(n)); v%d = 1; v%c = 2
  !$omp target map(tofrom: v%d) map(to: v%c)
  do i = 1, n
   v%d(i) = v%d(i) + v%c(3)
  end do
  !$omp end target
  sink = v%d(4)
end subroutine
subroutine c_derived_stale() ! stale data
  type(pt) :: v
  integer :: i
  v%k = 5
  allocate(v%d(n)); v%d = 1; v%c = 2
  !$omp target map(to: v%d) map(to: v%c)
  do i = 1, n
   v%d(i) = v%d(i) + v%c(3)
  end do
  !$omp end target
  sink = v%d(4)
end subroutine
subroutine c_pointer_ok() ! ok
  real(8), pointer :: p(:)
  integer :: i
  allocate(p(n)); p = 1
  !$omp target map(tofrom: p)
  do i = 1, n
   p(i) = p(i) + 1
  end do
  !$omp end target
  sink = p(4)
  deallocate(p)
end subroutine
subroutine c_section_ok() ! ok
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target map(tofrom: a(101:200))
  do i = 101, 200
   a(i) = a(i) + 1
  end do
  !$omp end target
  sink = a(150)+a(5)
end subroutine
subroutine c_section_beyond() ! outside of what is mapped
  real(8) :: a(n)
  integer :: i
  a = 1
  !$omp target map(tofrom: a(101:200))
  do i = 101, 201
   a(i) = a(i) + 1
  end do
  !$omp end target
  sink = a(150)+a(5)
end subroutine
subroutine assumed(a)
  real(8) :: a(:)
  integer :: i
  !$omp target map(tofrom: a)
  do i = 1, size(a)
   a(i) = a(i) + 1
  end do
  !$omp end target
end subroutine
subroutine c_assumed_ok() ! ok
  real(8), allocatable :: a(:)
  allocate(a(n)); a = 1
  call assumed(a)
  call assumed(a(1:100))
  sink = a(3)
end subroutine
subroutine c_implicit_scalar() ! lost
  integer :: i, cnt
  real(8) :: a(n)
  a = 1; cnt = 0
  !$omp target map(to: a)
  do i = 1, n
    if (a(i) > 0) cnt = cnt + 1
  end do
  !$omp end target
  sink = cnt
end subroutine
subroutine c_reduction() ! ok
  integer :: i
  real(8) :: a(n), s
  a = 1; s = 0
  !$omp target teams distribute parallel do map(to: a) reduction(+: s)
  do i = 1, n
    s = s + a(i)
  end do
  sink = s
end subroutine
subroutine c_update_ok() ! ok
  integer :: i
  real(8) :: a(n)
  a = 1
  !$omp target data map(alloc: a)
  a = 2
  !$omp target update to(a)
  !$omp target
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp target update from(a)
  sink = sum(a)
  !$omp end target data
end subroutine
subroutine c_update_missing() ! stale data
  integer :: i
  real(8) :: a(n)
  a = 1
  !$omp target data map(tofrom: a)
  a = 2
  !$omp target
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp end target data
  sink = a(3)
end subroutine
subroutine c_critical_ok() ! ok
  integer :: i
  real(8) :: a(n)
  a = 1
  !$omp parallel num_threads(4) private(i)
  !$omp critical
  !$omp target map(tofrom: a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp end critical
  !$omp end parallel
  sink = a(3)
end subroutine
subroutine c_parallel_race() ! race
  integer :: i
  real(8) :: a(n)
  a = 1
  !$omp parallel num_threads(4) private(i)
  if (omp_get_thread_num() == 0) then
  !$omp target map(tofrom: a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  else if (omp_get_thread_num() == 1) then
   a(7) = 3
  end if
  !$omp end parallel
  sink = a(3)
end subroutine
subroutine c_parallel_race_early() ! race
  integer :: i
  real(8) :: a(n), x
  a = 1
  !$omp parallel num_threads(4) private(i, x)
  if (omp_get_thread_num() == 0) then ! the other thread has written long before the map
  x = 1
  do i = 1, 5000000
    x = sqrt(x + i)
  end do
  sink = x
  !$omp target map(tofrom: a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  else if (omp_get_thread_num() == 1) then
   a(7) = 3
  end if
  !$omp end parallel
  sink = a(3)
end subroutine
subroutine c_workshare_ok() ! ok
  real(8) :: a(n)
  integer :: i
  !$omp parallel num_threads(4)
  !$omp workshare
  a = 1
  !$omp end workshare
  !$omp single
  !$omp target map(tofrom: a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp end single
  !$omp end parallel
  sink = a(3)
end subroutine
subroutine c_print_stale() ! stale data
  real(8) :: a(4)
  character(200) :: t
  a = 1
  !$omp target data map(to: a)
  !$omp target
  a(1) = a(1) + 1
  !$omp end target
  write(t,*) a(1)
  sink = ichar(t(5:5))
  !$omp end target data
end subroutine
subroutine c_matmul_stale() ! stale data
  real(8) :: a(20,20), b(20,20)
  a = 1
  b = 1
  !$omp target data map(to: a)
  !$omp target
  a(1,1) = a(1,1) + 1
  !$omp end target
  b = matmul(a, b)
  !$omp end target data
  sink = b(1,1)
end subroutine
subroutine c_dot_ok() ! ok
  real(8) :: a(n), b(n)
  integer :: i
  a = 1; b = 2
  !$omp target map(tofrom: a) map(to: b)
  do i = 1, n
    a(i) = a(i) + b(i)
  end do
  !$omp end target
  sink = dot_product(a, b)
end subroutine
subroutine c_realloc() ! ok
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target map(tofrom: a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  a = [a, a]
  !$omp target map(tofrom: a)
  do i = 1, 2*n
    a(i) = a(i) + 1
  end do
  !$omp end target
  sink = a(2*n)
end subroutine
subroutine c_kernel_assign_ok() ! ok
  real(8), allocatable :: a(:), b(:), c(:,:)
  allocate(a(n), b(n), c(20, 30)); b = 2; c = 1
  !$omp target map(from: a) map(to: b) map(tofrom: c)
  a = b
  c(:, 7) = b(1:20)
  !$omp end target
  sink = sum(a) + sum(c)
end subroutine
subroutine c_kernel_assign_unset() ! uninitialised data
  real(8), allocatable :: a(:), b(:)
  allocate(a(n), b(n)); b = 2
  !$omp target map(from: a) map(alloc: b)
  a = b
  !$omp end target
  sink = sum(a)
end subroutine
subroutine c_kernel_assign_stale() ! stale data
  real(8), allocatable :: a(:), b(:)
  allocate(a(n), b(n)); a = 1; b = 2
  !$omp target data map(to: a, b)
  !$omp target
  a = b
  !$omp end target
  b = a
  !$omp end target data
  sink = b(3)
end subroutine
subroutine c_kernel_assign_race() ! race
  real(8), allocatable :: a(:), b(:)
  allocate(a(n), b(n)); a = 1; b = 2
  !$omp target map(tofrom: a) map(to: b) nowait
  a = b
  !$omp end target
  b = a
  !$omp taskwait
  sink = b(3)
end subroutine
subroutine c_assign_missed() ! stale data
  real(8), allocatable :: a(:), b(:)
  real(8) :: r
  integer :: i
  allocate(a(n), b(n)); a = 1; b = 5; r = 0
  !$omp target data map(to: a)
  a = b
  !$omp target map(tofrom: r)
  do i = 1, n
    r = r + a(i)
  end do
  !$omp end target
  !$omp end target data
  sink = r
end subroutine
subroutine c_section_assign() ! ok
  real(8), allocatable :: a(:), b(:)
  integer :: i
  allocate(a(n), b(n/2)); a = 1
  !$omp target data map(to: a)
  !$omp target
  do i = 2, n, 2
    a(i) = a(i) + 1
  end do
  !$omp end target
  b = a(1:n:2)
  !$omp end target data
  sink = b(3)
end subroutine
subroutine c_depend_ok() ! ok
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target map(tofrom: a) nowait depend(out: a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp target map(tofrom: a) nowait depend(inout: a)
  do i = 1, n
    a(i) = a(i) * 2
  end do
  !$omp end target
  !$omp taskwait
  sink = sum(a)
end subroutine
subroutine c_depend_none() ! race
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target map(tofrom: a) nowait
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp target map(tofrom: a) nowait
  do i = 1, n
    a(i) = a(i) * 2
  end do
  !$omp end target
  !$omp taskwait
  sink = sum(a)
end subroutine
subroutine c_stack_regions() ! race
  real(8) :: a(64)
  integer :: i
  a = 1
  !$omp parallel num_threads(2) private(i)
  if (omp_get_thread_num() == 1) sink = sum([(sqrt(real(i, 8)), i = 1, 300000)])
  !$omp target map(tofrom: a)
  do i = 1, 64
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp end parallel
  sink = sum(a)
end subroutine
subroutine c_stack_tasks_own() ! ok
  integer :: k
  !$omp parallel num_threads(4) private(k)
  !$omp single
  do k = 1, 12
    !$omp task firstprivate(k)
    call own(k)
    !$omp end task
  end do
  !$omp end single
  !$omp end parallel
end subroutine
subroutine own(k)
  integer, intent(in) :: k
  real(8) :: a(64)
  integer :: i
  a = k
  !$omp target map(tofrom: a)
  do i = 1, 64
    a(i) = a(i) + 1
  end do
  !$omp end target
  if (sum(a) /= 64 * (k + 1)) stop 1
end subroutine
end module

program main
  use cases
  character(len=64) :: asked
  call get_command_argument(1, asked)
  select case (trim(asked))
  case ('sum_ok')
    call c_sum_ok()
  case ('sum_stale')
    call c_sum_stale()
  case ('maxval_stale')
    call c_maxval_stale()
  case ('loop_race')
    call c_loop_race()
  case ('loop_race_alloc')
    call c_loop_race_alloc()
  case ('nowait_ok')
    call c_nowait_ok()
  case ('global_ok')
    call c_global_ok()
  case ('global_race')
    call c_global_race()
  case ('derived_tofrom')
    call c_derived_tofrom()
  case ('derived_stale')
    call c_derived_stale()
  case ('pointer_ok')
    call c_pointer_ok()
  case ('section_ok')
    call c_section_ok()
  case ('section_beyond')
    call c_section_beyond()
  case ('assumed_ok')
    call c_assumed_ok()
  case ('implicit_scalar')
    call c_implicit_scalar()
  case ('reduction')
    call c_reduction()
  case ('update_ok')
    call c_update_ok()
  case ('update_missing')
    call c_update_missing()
  case ('critical_ok')
    call c_critical_ok()
  case ('parallel_race')
    call c_parallel_race()
  case ('parallel_race_early')
    call c_parallel_race_early()
  case ('workshare_ok')
    call c_workshare_ok()
  case ('print_stale')
    call c_print_stale()
  case ('matmul_stale')
    call c_matmul_stale()
  case ('dot_ok')
    call c_dot_ok()
  case ('realloc')
    call c_realloc()
  case ('kernel_assign_ok')
    call c_kernel_assign_ok()
  case ('kernel_assign_unset')
    call c_kernel_assign_unset()
  case ('kernel_assign_stale')
    call c_kernel_assign_stale()
  case ('kernel_assign_race')
    call c_kernel_assign_race()
  case ('assign_missed')
    call c_assign_missed()
  case ('section_assign')
    call c_section_assign()
  case ('depend_ok')
    call c_depend_ok()
  case ('depend_none')
    call c_depend_none()
  case ('stack_regions')
    call c_stack_regions()
  case ('stack_tasks_own')
    call c_stack_tasks_own()
  end select
end program
