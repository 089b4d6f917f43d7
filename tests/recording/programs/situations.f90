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
!$omp declare mapper(halves : pt :: v) map(v, v%d(1:300))
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
subroutine c_dt_array() ! ok
  type(pt), allocatable :: v(:)
  integer :: i, j
  allocate(v(4))
  do j = 1, 4
    allocate(v(j)%d(n)); v(j)%d = j
  end do
  do j = 1, 4
  !$omp target map(tofrom: v(j)%d)
  do i = 1, n
    v(j)%d(i) = v(j)%d(i) + 1
  end do
  !$omp end target
  end do
  sink = v(1)%d(1) + v(4)%d(n)
end subroutine
subroutine c_components_deleted() ! ok
  ! flang maps the components of `v` with it, and once more by their own names
  type(pt) :: v
  integer :: i
  allocate(v%d(n)); v%d = 1; v%k = n
  !$omp target enter data map(to: v)
  !$omp target enter data map(to: v%d)
  !$omp target teams distribute parallel do
  do i = 1, v%k
    v%d(i) = v%d(i) + 1
  end do
  !$omp target update from(v%d)
  sink = sum(v%d)
  !$omp target exit data map(delete: v%d)
  !$omp target exit data map(delete: v)
  deallocate(v%d)
end subroutine
subroutine class_enter(self)
  class(pt), intent(inout) :: self
  !$omp target enter data map(to: self%d)
end subroutine
subroutine class_exit(self)
  class(pt), intent(inout) :: self
  !$omp target exit data map(from: self%d)
end subroutine
subroutine c_class_components() ! ok
  ! the descriptor of a polymorphic dummy is another one in each procedure, and stays mapped
  type(pt) :: v
  integer :: i
  allocate(v%d(n)); v%d = 1; v%k = n
  call class_enter(v)
  !$omp target teams distribute parallel do
  do i = 1, v%k
    v%d(i) = v%d(i) + 1
  end do
  call class_exit(v)
  sink = sum(v%d)
  deallocate(v%d)
end subroutine
subroutine c_parts_ok() ! ok
  real(8), allocatable :: a(:)
  integer :: i, t, lo, hi
  allocate(a(8*n)); a = 1
  !$omp target data map(tofrom: a)
  !$omp parallel private(i, t, lo, hi) num_threads(4)
  t = omp_get_thread_num()
  lo = t*n + 1; hi = lo + n - 1
  !$omp target
  do i = lo, hi
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp end parallel
  !$omp end target data
  sink = sum(a)
end subroutine
subroutine c_one_descriptor() ! race
  real(8), allocatable :: a(:,:)
  integer, volatile :: turn ! orders nothing by OpenMP's rules
  integer :: i, j
  allocate(a(n,3)); a = 1; turn = 0
  !$omp target enter data map(to: a(:,3))
  !$omp parallel private(i, j) num_threads(2)
  j = omp_get_thread_num()
  do while (turn /= j)
  end do
  !$omp target map(tofrom: a(:,j+1))
  do i = 1, n
    a(i,j+1) = a(i,j+1) + 1
  end do
  !$omp end target
  turn = j + 1
  !$omp end parallel
  !$omp target exit data map(delete: a(:,3))
  sink = sum(a)
end subroutine
subroutine c_sections_ok() ! ok
  real(8), allocatable :: a(:)
  integer :: i, k
  allocate(a(n)); a = 1
  !$omp target enter data map(to: a)
  do k = 0, 2
  !$omp target nowait
  do i = 1 + 200*k, 200 + 200*k
    a(i) = a(i) + 1
  end do
  !$omp end target
  end do
  !$omp taskwait
  !$omp target exit data map(from: a)
  sink = sum(a)
end subroutine
subroutine c_move_alloc_mapped() ! ok
  real(8), allocatable :: a(:), b(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target enter data map(to: a)
  call move_alloc(a, b)
  !$omp target map(tofrom: b)
  do i = 1, n
    b(i) = b(i) + 1
  end do
  !$omp end target
  !$omp target exit data map(from: b)
  sink = sum(b)
end subroutine
subroutine c_move_alloc_leak() ! missing unmap
  real(8), allocatable :: a(:), b(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target enter data map(to: a)
  call move_alloc(a, b)
  !$omp target map(tofrom: b)
  do i = 1, n
    b(i) = b(i) + 1
  end do
  !$omp end target
  !$omp target update from(b)
  sink = sum(b)
  deallocate(b)
end subroutine
subroutine c_realloc_mapped() ! missing unmap+surplus unmap
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target enter data map(to: a)
  a = [(real(i,8), i = 1, 2*n)]
  !$omp target map(tofrom: a)
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp target exit data map(from: a)
  sink = a(1)
end subroutine
subroutine c_complex_part() ! stale data
  complex(8), allocatable :: z(:)
  integer :: i
  allocate(z(n)); z = (1d0, 2d0)
  !$omp target data map(to: z)
  !$omp target teams distribute parallel do
  do i = 1, n
    z(i)%im = z(i)%re + 1
  end do
  sink = sum(z%im)
  !$omp end target data
end subroutine
subroutine c_char_stale() ! stale data
  character(len=8) :: t(n)
  integer :: i, k
  t = 'abcdefgh'
  !$omp target data map(to: t)
  !$omp target
  do i = 1, n
    t(i)(2:2) = 'x'
  end do
  !$omp end target
  k = 0
  do i = 1, n
    k = k + ichar(t(i)(2:2))
  end do
  sink = k
  !$omp end target data
end subroutine
subroutine c_source_stale() ! stale data
  real(8), allocatable :: a(:), b(:)
  integer :: i
  allocate(a(n)); a = 1
  !$omp target data map(to: a)
  !$omp target
  do i = 1, n
    a(i) = a(i) + 1
  end do
  !$omp end target
  allocate(b, source=a)
  !$omp end target data
  sink = sum(b)
end subroutine
subroutine c_mapper_out() ! outside of what is mapped
  type(pt) :: v
  integer :: i
  allocate(v%d(n)); v%d = 1; v%k = 3
  !$omp target map(mapper(halves), tofrom: v)
  do i = 1, 301
    v%d(i) = v%d(i) + v%k
  end do
  !$omp end target
  sink = sum(v%d)
end subroutine
subroutine c_temporary() ! freed while mapped
  real(8), allocatable :: a(:,:)
  allocate(a(20,30)); a = 1
  call enter_it(a(3,:))
  a(5,:) = 3
  call exit_it(a(3,:))
  sink = sum(a)
end subroutine
subroutine c_each_second() ! uninitialised data
  logical :: l(n)
  integer :: i
  l = .false.
  !$omp target map(from: l)
  do i = 1, n, 2
    l(i) = .true.
  end do
  !$omp end target
  sink = count(l)
end subroutine
subroutine c_enter_by_threads_ok() ! ok
  real(8), allocatable :: a(:)
  integer :: i, t
  allocate(a(n)); a = 1
  !$omp parallel private(i, t) num_threads(4)
  t = omp_get_thread_num()
  !$omp target enter data map(to: a)
  !$omp target
  do i = 1 + t, n, 4
    a(i) = a(i) + 1
  end do
  !$omp end target
  !$omp barrier
  !$omp target exit data map(from: a)
  !$omp end parallel
  sink = sum(a)
end subroutine
subroutine c_new_part() ! uninitialised data
  real(8), allocatable :: a(:)
  real(8) :: s
  integer :: i
  allocate(a(0:n))
  a(1:) = 3
  s = 0
  !$omp target teams distribute parallel do map(to: a) reduction(+: s)
  do i = 0, n
    s = s + a(i)
  end do
  print *, s == 0
end subroutine
subroutine c_new_ok() ! ok
  real(8), allocatable :: a(:), b(:), c(:, :), d(:)
  real(8), pointer :: p(:)
  real(8) :: s
  integer :: i, u
  allocate(a(n), source=2d0)
  allocate(c(2, n), d(n), p(n))
  call random_number(c)
  b = a
  p(:) = b * a
  open(newunit=u, status='scratch', form='unformatted')
  write(u) b
  rewind(u)
  read(u) d
  close(u)
  s = 0
  !$omp target teams distribute parallel do map(to: a, b, c, d, p) reduction(+: s)
  do i = 1, n
    s = s + a(i) + b(i) + c(2, i) + d(i) + p(i)
  end do
  print *, s == 0
  deallocate(p)
end subroutine
subroutine c_swapped() ! stale data
  real(8), pointer :: p(:), q(:), r(:)
  integer :: i, k
  allocate(p(n), q(n)); p = 1; q = 2
  !$omp target enter data map(to: p, q)
  do k = 1, 3
    !$omp target map(p, q)
    do i = 1, n
      q(i) = p(i) + 1
    end do
    !$omp end target
    r => p; p => q; q => r
  end do
  ! LLVM brings the pointers back that it has attached
  !$omp target exit data map(from: p, q)
  sink = sum(p) + sum(q)
  deallocate(p, q)
end subroutine
subroutine enter_it(x)
  real(8), intent(inout) :: x(30)
  !$omp target enter data map(to: x)
end subroutine
subroutine exit_it(x)
  real(8), intent(inout) :: x(30)
  !$omp target exit data map(from: x)
end subroutine
subroutine c_random_stale() ! stale data
  real(8), allocatable :: a(:)
  integer :: i
  real(8) :: s
  allocate(a(n)); a = 0
  s = 0
  !$omp target data map(to: a)
  call random_number(a)
  !$omp target map(tofrom: s)
  do i = 1, n
    s = s + a(i)
  end do
  !$omp end target
  !$omp end target data
  sink = s
end subroutine
subroutine c_random_half() ! uninitialised data
  real(8), allocatable :: a(:)
  integer :: i
  real(8) :: s
  allocate(a(n))
  call random_number(a(1:n/2))
  s = 0
  !$omp target map(tofrom: s) map(to: a)
  do i = 1, n
    s = s + a(i)
  end do
  !$omp end target
  sink = s
end subroutine
subroutine c_write_stale() ! stale data
  real(8), allocatable :: a(:)
  integer :: i
  allocate(a(n)); a = 0
  open(10, status='scratch', form='unformatted')
  !$omp target data map(tofrom: a)
  !$omp target
  do i = 1, n
    a(i) = i
  end do
  !$omp end target
  write(10) a
  !$omp end target data
  close(10)
  sink = a(3)
end subroutine
subroutine c_read_stale() ! stale data
  real(8), allocatable :: a(:)
  integer :: i
  real(8) :: s
  allocate(a(n)); a = 1; s = 0
  open(10, status='scratch', form='unformatted')
  write(10) a
  rewind(10)
  a = 0
  !$omp target data map(tofrom: a)
  read(10) a
  !$omp target map(tofrom: s)
  do i = 1, n
    s = s + a(i)
  end do
  !$omp end target
  !$omp end target data
  close(10)
  sink = s
end subroutine
subroutine c_read_list_stale() ! stale data
  real(8) :: a(n), s
  character(len=8*n) :: line
  integer :: i
  a = 0; s = 0
  line = repeat('1.5 ', n)
  !$omp target data map(tofrom: a)
  read(line, *) (a(i), i = 1, n)
  !$omp target map(tofrom: s)
  do i = 1, n
    s = s + a(i)
  end do
  !$omp end target
  !$omp end target data
  sink = s
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
  case ('dt_array')
    call c_dt_array()
  case ('components_deleted')
    call c_components_deleted()
  case ('class_components')
    call c_class_components()
  case ('parts_ok')
    call c_parts_ok()
  case ('one_descriptor')
    call c_one_descriptor()
  case ('sections_ok')
    call c_sections_ok()
  case ('move_alloc_mapped')
    call c_move_alloc_mapped()
  case ('move_alloc_leak')
    call c_move_alloc_leak()
  case ('realloc_mapped')
    call c_realloc_mapped()
  case ('complex_part')
    call c_complex_part()
  case ('char_stale')
    call c_char_stale()
  case ('source_stale')
    call c_source_stale()
  case ('mapper_out')
    call c_mapper_out()
  case ('temporary')
    call c_temporary()
  case ('each_second')
    call c_each_second()
  case ('enter_by_threads_ok')
    call c_enter_by_threads_ok()
  case ('new_part')
    call c_new_part()
  case ('new_ok')
    call c_new_ok()
  case ('swapped')
    call c_swapped()
  case ('random_stale')
    call c_random_stale()
  case ('random_half')
    call c_random_half()
  case ('write_stale')
    call c_write_stale()
  case ('read_stale')
    call c_read_stale()
  case ('read_list_stale')
    call c_read_list_stale()
  end select
end program
