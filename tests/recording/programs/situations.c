/* Situations of programs that offload. Behind the name of each stands what a check has to say of it: `ok`, `lost` (a result that
 * nobody uses), or kinds of mistakes; `|` separates what may be said instead, where chance decides. */
#include <omp.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define N 600
#define NI __attribute__((noinline)) static
static double s1[N];
struct pt {
  double x[N];
  int n;
  double *p;
};
static struct pt g;
static volatile double sink;
NI double *mk(int n, double v){ double *a=malloc(n*8); for(int i=0;i<n;i++)a[i]=v; return a; }
NI void set(double*a,int n,double v){ for(int i=0;i<n;i++)a[i]=v; }
NI void inc(double*a,int n){ for(int i=0;i<n;i++)a[i]+=1; }
NI double sum(double*a,int n){ double s=0; for(int i=0;i<n;i++)s+=a[i]; return s; }
NI void c_mutexinout(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    for(int k=0;k<4;k++){
#pragma omp target map(tofrom:a[0:N]) nowait depend(mutexinoutset:a[0])
      for(int i=0;i<N;i++) a[i]+=1;
    }
#pragma omp task depend(in:a[0]) shared(a)
    sink=sum(a,N);
  }
  sink=a[0]; free(a);
}
NI double work(void) { double x=1; for(int i=0;i<5000000;i++) x=x*0.5+i; return x; }
NI void c_stack_race_early(void) { /* race */
  double a[N];
  set(a,N,1);
#pragma omp parallel num_threads(4)
  {
    if(omp_get_thread_num()==0){ /* the other thread has written long before the map */
      sink=work();
#pragma omp target map(tofrom:a)
      for(int i=0;i<N;i++) a[i]+=1;
    } else if(omp_get_thread_num()==1) a[7]=3;
  }
  sink=a[3];
}
NI void c_tasks_race_early(void) { /* race */
  double a[N];
  set(a,N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task shared(a)
    a[7]=3;
#pragma omp task shared(a)
    {
      sink=work();
#pragma omp target map(tofrom:a)
      for(int i=0;i<N;i++) a[i]+=1;
    }
  }
  sink=a[3];
}
NI void c_small_race_early(void) { /* race */
  double *a=mk(20,1);
#pragma omp parallel num_threads(4)
  {
    if(omp_get_thread_num()==0){
      sink=work();
#pragma omp target map(tofrom:a[0:20])
      for(int i=0;i<20;i++) a[i]+=1;
    } else if(omp_get_thread_num()==1) a[7]=3;
  }
  sink=a[3]; free(a);
}
NI void c_frames_apart_ok(void) { /* ok */
#pragma omp parallel num_threads(4)
  {
    double a[N];
    set(a,N,1);
#pragma omp barrier
    if(omp_get_thread_num()==0){
#pragma omp target map(tofrom:a)
      for(int i=0;i<N;i++) a[i]+=1;
    }
    sink=sum(a,N);
  }
}
NI void c_inoutset_race(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task depend(inoutset:a[0]) shared(a)
    set(a,N,2);
#pragma omp task depend(inoutset:a[0]) shared(a)
    set(a,N,3);
#pragma omp task depend(in:a[0]) shared(a)
    sink=sum(a,N);
  }
#pragma omp target map(tofrom:a[0:N])
  a[0]+=1;
  sink=a[0]; free(a);
}
NI void c_inoutset_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task depend(out:a[0]) shared(a)
    set(a,N,2);
#pragma omp task depend(inoutset:a[0]) shared(a)
    set(a,N/2,2);
#pragma omp task depend(inoutset:a[0]) shared(a)
    set(a+N/2,N/2,3);
#pragma omp target map(tofrom:a[0:N]) depend(in:a[0]) nowait
    a[0]+=1;
  }
  sink=a[0]; free(a);
}
NI void c_taskgroup_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp taskgroup
    {
#pragma omp task shared(a)
      {
#pragma omp target map(tofrom:a[0:N]) nowait
        for(int i=0;i<N;i++) a[i]+=1;
      }
    }
    sink=sum(a,N);
  }
  free(a);
}
NI void c_taskwait_grandchild(void) { /* race|race+fatal error */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task shared(a)
    {
#pragma omp target map(tofrom:a[0:N]) nowait
      for(int i=0;i<N;i++) a[i]+=1;
    }
#pragma omp taskwait
    sink=sum(a,N);
  }
  sink=a[0];
  free(a);
}
NI void c_implicit_barrier(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
  {
#pragma omp single nowait
    {
#pragma omp target map(tofrom:a[0:N]) nowait
    for(int i=0;i<N;i++) a[i]+=1;
    }
#pragma omp barrier
#pragma omp for
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_master_nobarrier(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
  {
#pragma omp master
    {
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
    }
#pragma omp for
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_single_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
  {
#pragma omp single
    {
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
    }
#pragma omp for
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_taskloop_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp taskloop grainsize(100) shared(a)
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_taskloop_nogroup(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp taskloop grainsize(100) nogroup shared(a)
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_detach_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    omp_event_handle_t ev;
#pragma omp task detach(ev) depend(out:a[0]) shared(a)
    { }
    set(a,N,3);
    omp_fulfill_event(ev);
#pragma omp target map(tofrom:a[0:N]) nowait depend(inout:a[0])
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_detach_race(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    omp_event_handle_t ev;
#pragma omp task detach(ev) shared(a)
    { }
#pragma omp target map(tofrom:a[0:N]) nowait depend(inout:a[0])
    for(int i=0;i<N;i++) a[i]+=1;
    omp_fulfill_event(ev);
    set(a,N,3);
#pragma omp taskwait
  }
  sink=sum(a,N); free(a);
}
NI void c_sections_race(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    {
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
    }
#pragma omp section
    set(a,N,2);
  }
  sink=sum(a,N); free(a);
}
NI void c_sections_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    {
#pragma omp target map(tofrom:a[0:N/2])
    for(int i=0;i<N/2;i++) a[i]+=1;
    }
#pragma omp section
    set(a+N/2,N/2,2);
  }
  sink=sum(a,N); free(a);
}
NI void c_critical_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
  {
#pragma omp critical
    {
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
    }
  }
  sink=sum(a,N); free(a);
}
NI void c_two_criticals(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
  {
    if(omp_get_thread_num()%2){
#pragma omp critical(one)
    {
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
    }
    } else {
#pragma omp critical(two)
    a[1]+=1;
    }
  }
  sink=sum(a,N); free(a);
}
NI void c_lock_ok(void) { /* ok */
  double *a=mk(N,1); omp_lock_t l; omp_init_lock(&l);
#pragma omp parallel num_threads(4)
  {
    omp_set_lock(&l);
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
    omp_unset_lock(&l);
  }
  sink=sum(a,N); free(a); omp_destroy_lock(&l);
}
NI void c_nestlock_ok(void) { /* ok */
  double *a=mk(N,1); omp_nest_lock_t l; omp_init_nest_lock(&l);
#pragma omp parallel num_threads(4)
  {
    omp_set_nest_lock(&l);
    omp_set_nest_lock(&l);
    a[0]+=1;
    omp_unset_nest_lock(&l);
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
    omp_unset_nest_lock(&l);
  }
  sink=sum(a,N); free(a); omp_destroy_nest_lock(&l);
}
NI void c_testlock_ok(void) { /* ok */
  double *a=mk(N,1); omp_lock_t l; omp_init_lock(&l);
#pragma omp parallel num_threads(4)
  {
    while(!omp_test_lock(&l)) {
#pragma omp taskyield
    }
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
    omp_unset_lock(&l);
  }
  sink=sum(a,N); free(a); omp_destroy_lock(&l);
}
NI void c_atomic_flag_ok(void) { /* ok */
  double *a=mk(N,1); int flag=0;
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target map(tofrom:a[0:N])
      for(int i=0;i<N;i++) a[i]+=1;
#pragma omp atomic write release
      flag=1;
    } else {
      int f=0;
      while(!f){
#pragma omp atomic read acquire
        f=flag;
      }
      sink=sum(a,N);
    }
  }
  free(a);
}
NI void c_ordered_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel for ordered num_threads(4) schedule(static,1)
  for(int k=0;k<8;k++){
#pragma omp ordered
    {
#pragma omp target map(tofrom:a[0:N])
      for(int i=0;i<N;i++) a[i]+=1;
    }
  }
  sink=sum(a,N); free(a);
}
NI void c_if0_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp target map(tofrom:a[0:N]) nowait depend(out:a[0])
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp task if(0) depend(inout:a[0]) shared(a)
    a[0]+=1;
    sink=sum(a,N);
  }
  free(a);
}
NI void c_if0_other(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp target map(tofrom:a[0:N]) nowait depend(out:a[0])
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp task if(0) depend(inout:a[1]) shared(a)
    a[0]+=1;
#pragma omp taskwait
    sink=sum(a,N);
  }
  free(a);
}
NI void c_depobj_ok(void) { /* ok */
  double *a=mk(N,1); omp_depend_t d;
#pragma omp depobj(d) depend(inout:a[0])
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp target map(tofrom:a[0:N]) nowait depend(depobj:d)
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp task depend(depobj:d) shared(a)
    a[0]+=1;
#pragma omp taskwait depend(depobj:d)
    sink=sum(a,N);
  }
#pragma omp depobj(d) destroy
  free(a);
}
NI void c_iterator_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    for(int b=0;b<4;b++){
#pragma omp target map(tofrom:a[b*150:150]) nowait depend(out:a[b*150])
      for(int i=0;i<150;i++) a[b*150+i]+=1;
    }
#pragma omp task depend(iterator(int b=0:4), in:a[b*150]) shared(a)
    sink=sum(a,N);
  }
  free(a);
}
NI void c_iterator_short(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    for(int b=0;b<4;b++){
#pragma omp target map(tofrom:a[b*150:150]) nowait depend(out:a[b*150])
      for(int i=0;i<150;i++) a[b*150+i]+=1;
    }
#pragma omp task depend(iterator(int b=0:3), in:a[b*150]) shared(a)
    sink=sum(a,N);
  }
  free(a);
}
NI void c_omp_all_memory(void) { /* ok */
  double *a=mk(N,1),*b=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp target map(tofrom:a[0:N]) nowait depend(out:a[0])
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target map(tofrom:b[0:N]) nowait depend(out:b[0])
    for(int i=0;i<N;i++) b[i]+=1;
#pragma omp task depend(out: omp_all_memory) shared(a,b)
    {sink=sum(a,N)+sum(b,N); a[0]=3;}
  }
  sink=a[0];
  free(a);free(b);
}
NI void c_firstprivate_ptr(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target nowait
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp taskwait
  }
  sink=sum(a,N); free(a);
}
NI void c_update_nowait_race(void) { /* race */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target update to(a[0:N]) nowait
  a[5]=7;
#pragma omp taskwait
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_update_from_nowait_read(void) { /* race */
  static double a[N];
  set(a,N,1);
#pragma omp target data map(tofrom:a)
  {
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target update from(a) nowait
  sink=sum(a,N);
#pragma omp taskwait
  }
}
NI void c_enter_nowait_race(void) { /* race */
  double a[N]; set(a,N,1);
#pragma omp target enter data map(to:a) nowait
  a[3]=5;
#pragma omp taskwait
#pragma omp target
  a[0]+=1;
#pragma omp target exit data map(from:a)
  sink=a[0];
}
NI void c_exit_nowait_race(void) { /* race */
  double a[N]; set(a,N,1);
#pragma omp target enter data map(to:a)
#pragma omp target
  a[0]+=1;
#pragma omp target exit data map(from:a) nowait
  sink=a[0];
#pragma omp taskwait
}
NI void c_enter_depend_ok(void) { /* ok */
  double a[N]; set(a,N,1);
#pragma omp target enter data map(to:a) nowait depend(out:a)
#pragma omp target nowait depend(inout:a)
  a[0]+=1;
#pragma omp target exit data map(from:a) nowait depend(inout:a)
#pragma omp taskwait depend(in:a)
  sink=a[0];
}
NI void c_enter_then_target_nodepend(void) { /* ok|race */
  double a[N]; set(a,N,1);
#pragma omp target enter data map(to:a) nowait
#pragma omp target nowait
  a[0]+=1;
#pragma omp taskwait
#pragma omp target exit data map(from:a)
  sink=a[0];
}
NI void c_two_targets_race(void) { /* race */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target nowait
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target nowait
  for(int i=0;i<N;i++) a[i]*=2;
#pragma omp taskwait
  }
  sink=sum(a,N); free(a);
}
NI void c_two_readers_ok(void) { /* ok */
  double *a=mk(N,1), *b=mk(N,0), *c=mk(N,0);
#pragma omp target data map(to:a[0:N]) map(from:b[0:N],c[0:N])
  {
#pragma omp target nowait
  for(int i=0;i<N;i++) b[i]=a[i];
#pragma omp target nowait
  for(int i=0;i<N;i++) c[i]=a[i];
#pragma omp taskwait
  }
  sink=sum(b,N)+sum(c,N); free(a);free(b);free(c);
}
NI void c_data_ends_early(void) { /* race|outside of what is mapped */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target nowait
  for(int i=0;i<N;i++) a[i]+=1;
  }
#pragma omp taskwait
  sink=sum(a,N); free(a);
}
NI void c_struct_member(void) { /* race */
  set(g.x,N,1);
#pragma omp target map(tofrom:g.x) nowait
  for(int i=0;i<N;i++) g.x[i]+=1;
  g.x[3]=1;
#pragma omp taskwait
  sink=sum(g.x,N);
}
NI void c_struct_other_member(void) { /* ok */
  set(g.x,N,1);
#pragma omp target map(tofrom:g.x) nowait
  for(int i=0;i<N;i++) g.x[i]+=1;
  g.n=1;
#pragma omp taskwait
  sink=sum(g.x,N)+g.n;
}
NI void c_priority_final(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task final(1) shared(a)
    {
#pragma omp task shared(a)
      {
#pragma omp target map(tofrom:a[0:N])
      for(int i=0;i<N;i++) a[i]+=1;
      }
      a[0]+=1;
    }
#pragma omp taskwait
    sink=sum(a,N);
  }
  free(a);
}
NI void c_nested_parallel(void) { /* ok */
  double *a=mk(N,1);
  omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
  {
    int t=omp_get_thread_num();
#pragma omp parallel num_threads(2)
    {
      int u=omp_get_thread_num(), k=t*2+u;
#pragma omp target map(tofrom:a[k*150:150])
      for(int i=0;i<150;i++) a[k*150+i]+=1;
    }
#pragma omp barrier
    if(t==0) sink=sum(a,N);
  }
  free(a);
}
NI void c_threadprivate_ok(void) { /* ok */
  static double tp[64];
#pragma omp threadprivate(tp)
#pragma omp parallel num_threads(4)
  {
    for(int i=0;i<64;i++) tp[i]=i;
    double *q=tp;
#pragma omp target map(tofrom:q[0:64])
    for(int i=0;i<64;i++) q[i]+=1;
    sink=tp[3];
  }
}
NI void c_reduction_task(void) { /* ok */
  double s=0, *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
#pragma omp taskgroup task_reduction(+:s)
  {
    for(int k=0;k<4;k++)
#pragma omp task in_reduction(+:s) shared(a)
    s+=sum(a+k*150,150);
  }
#pragma omp target map(tofrom:s)
  s+=1;
  sink=s; free(a);
}
NI void c_cancel_ok(void) { /* ok */
  double *a=mk(N,1); int done=0;
#pragma omp parallel num_threads(4)
  {
#pragma omp for
    for(int k=0;k<16;k++){
      if(k==3){
#pragma omp atomic write
        done=1;
#pragma omp cancel for
      }
#pragma omp cancellation point for
    }
  }
#pragma omp target map(tofrom:a[0:N])
  a[0]+=done;
  sink=a[0]; free(a);
}
NI void c_memcpy_rect_ok(void) { /* ok */
  int h=omp_get_initial_device(), d=omp_get_default_device(); size_t n=32*32;
  double *a=mk(n,1), *p=omp_target_alloc(n*8,d); 
  size_t vol[2]={16,32}, o[2]={0,0}, dim[2]={32,32}, o2[2]={16,0};
  omp_target_memcpy_rect(p,a,8,2,vol,o,o,dim,dim,d,h);
  omp_target_memcpy_rect(p,a,8,2,vol,o2,o2,dim,dim,d,h);
#pragma omp target is_device_ptr(p)
  for(int i=0;i<1024;i++) p[i]+=1;
  vol[0]=32;
  omp_target_memcpy_rect(a,p,8,2,vol,o,o,dim,dim,h,d);
  sink=sum(a,n); omp_target_free(p,d); free(a);
}
NI void c_memcpy_rect_half(void) { /* uninitialised data */
  int h=omp_get_initial_device(), d=omp_get_default_device(); size_t n=32*32;
  double *a=mk(n,1), *p=omp_target_alloc(n*8,d); 
  size_t vol[2]={16,32}, o[2]={0,0}, dim[2]={32,32};
  omp_target_memcpy_rect(p,a,8,2,vol,o,o,dim,dim,d,h);
#pragma omp target is_device_ptr(p)
  for(int i=0;i<1024;i++) p[i]+=1;
  vol[0]=32;
  omp_target_memcpy_rect(a,p,8,2,vol,o,o,dim,dim,h,d);
  sink=sum(a,n); omp_target_free(p,d); free(a);
}
NI void c_memcpy_rect_async_race(void) { /* race */
  int h=omp_get_initial_device(), d=omp_get_default_device(); size_t n=32*32;
  double *a=mk(n,1), *p=omp_target_alloc(n*8,d); omp_depend_t dep;
#pragma omp depobj(dep) depend(inout:p[0])
  size_t vol[2]={32,32}, o[2]={0,0}, dim[2]={32,32};
  omp_target_memcpy_rect_async(p,a,8,2,vol,o,o,dim,dim,d,h,1,&dep);
  a[40]=3;
#pragma omp taskwait
#pragma omp target is_device_ptr(p)
  for(int i=0;i<1024;i++) p[i]+=1;
  omp_target_memcpy(a,p,n*8,0,0,h,d);
  sink=sum(a,n); omp_target_free(p,d); free(a);
#pragma omp depobj(dep) destroy
}
NI void c_memcpy_rect_hostrace(void) { /* race */
  int h=omp_get_initial_device(), d=omp_get_default_device(); size_t n=32*32;
  double *a=mk(n,1), *p=omp_target_alloc(n*8,d);
  size_t vol[2]={32,8}, o[2]={0,0}, dim[2]={32,32};
#pragma omp parallel num_threads(2)
  { if(omp_get_thread_num()==0) omp_target_memcpy_rect(p,a,8,2,vol,o,o,dim,dim,d,h);
    else for(int i=0;i<32;i++) a[i*32+3]=2; }
  sink=sum(a,n); omp_target_free(p,d); free(a);
}
NI void c_memcpy_rect_hostok(void) { /* ok */
  int h=omp_get_initial_device(), d=omp_get_default_device(); size_t n=32*32;
  double *a=mk(n,1), *p=omp_target_alloc(n*8,d);
  size_t vol[2]={32,8}, o[2]={0,0}, dim[2]={32,32};
#pragma omp parallel num_threads(2)
  { if(omp_get_thread_num()==0) omp_target_memcpy_rect(p,a,8,2,vol,o,o,dim,dim,d,h);
    else for(int i=0;i<32;i++) for(int j=8;j<32;j++) a[i*32+j]=2; }
  sink=sum(a,n); omp_target_free(p,d); free(a);
}
NI void c_memcpy_rect_back_uninit(void) { /* uninitialised data */
  int h=omp_get_initial_device(), d=omp_get_default_device(); size_t n=32*32;
  double *a=malloc(n*8), *p=omp_target_alloc(n*8,d);
#pragma omp target is_device_ptr(p)
  for(int i=0;i<512;i++) p[i]=1;
  size_t vol[2]={32,32}, o[2]={0,0}, dim[2]={32,32};
  omp_target_memcpy_rect(a,p,8,2,vol,o,o,dim,dim,h,d);
  sink=sum(a,n); omp_target_free(p,d); free(a);
}
NI void c_memcpy_async_ok(void) { /* ok */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d); omp_depend_t dep;
#pragma omp depobj(dep) depend(inout:p[0])
  omp_target_memcpy_async(p,a,N*8,0,0,d,h,1,&dep);
#pragma omp target is_device_ptr(p) nowait depend(inout:p[0])
  for(int i=0;i<N;i++) p[i]+=1;
  omp_target_memcpy_async(a,p,N*8,0,0,h,d,1,&dep);
#pragma omp taskwait
  sink=sum(a,N); omp_target_free(p,d); free(a);
#pragma omp depobj(dep) destroy
}
NI void c_memcpy_async_nodep(void) { /* race */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d);
  omp_target_memcpy_async(p,a,N*8,0,0,d,h,0,NULL);
#pragma omp target is_device_ptr(p)
  for(int i=0;i<N;i++) p[i]+=1;
#pragma omp taskwait
  omp_target_memcpy(a,p,N*8,0,0,h,d);
  sink=sum(a,N); omp_target_free(p,d); free(a);
}
NI void c_memset_ok(void) { /* ok */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d);
  omp_target_memset(p,0,N*8,d);
#pragma omp target is_device_ptr(p)
  for(int i=0;i<N;i++) p[i]+=1;
  omp_target_memcpy(a,p,N*8,0,0,h,d);
  sink=sum(a,N); omp_target_free(p,d); free(a);
}
NI void c_memset_async_race(void) { /* race|race+uninitialised data */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d);
  omp_target_memset_async(p,0,N*8,d,0,NULL);
#pragma omp target is_device_ptr(p)
  for(int i=0;i<N;i++) p[i]+=1;
#pragma omp taskwait
  omp_target_memcpy(a,p,N*8,0,0,h,d);
  sink=sum(a,N); omp_target_free(p,d); free(a);
}
NI void c_memset_uninit(void) { /* uninitialised data */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d);
  omp_target_memset(p,0,N*4,d);
#pragma omp target is_device_ptr(p)
  for(int i=0;i<N;i++) p[i]+=1;
  omp_target_memcpy(a,p,N*8,0,0,h,d);
  sink=sum(a,N); omp_target_free(p,d); free(a);
}
NI void c_associate_ok(void) { /* ok */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d);
  omp_target_associate_ptr(a,p,N*8,0,d);
#pragma omp target update to(a[0:N])
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target update from(a[0:N])
  omp_target_disassociate_ptr(a,d);
  sink=sum(a,N); omp_target_free(p,d); free(a);
}
NI void c_associate_stale(void) { /* stale data */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d);
  omp_target_associate_ptr(a,p,N*8,0,d);
#pragma omp target update to(a[0:N])
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
  sink=sum(a,N);
  omp_target_disassociate_ptr(a,d);
  omp_target_free(p,d); free(a);
}
NI void c_associate_uninit(void) { /* uninitialised data */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d);
  omp_target_associate_ptr(a,p,N*8,0,d);
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target update from(a[0:N])
  sink=sum(a,N);
  omp_target_disassociate_ptr(a,d);
  omp_target_free(p,d); free(a);
}
NI void c_associate_freed(void) { /* use after free */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *p=omp_target_alloc(N*8,d);
  omp_target_associate_ptr(a,p,N*8,0,d);
#pragma omp target update to(a[0:N])
  omp_target_free(p,d);
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
  omp_target_disassociate_ptr(a,d);
  free(a);
}
NI void c_udp_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target data use_device_ptr(a)
    {
#pragma omp target is_device_ptr(a)
      for(int i=0;i<N;i++) a[i]+=1;
    }
  }
  sink=sum(a,N); free(a);
}
NI void c_uda_ok(void) { /* ok */
  set(s1,N,1);
#pragma omp target data map(tofrom:s1)
  {
#pragma omp target data use_device_addr(s1)
    {
      double *p=s1;
#pragma omp target is_device_ptr(p)
      for(int i=0;i<N;i++) p[i]+=1;
    }
  }
  sink=sum(s1,N);
}
NI void c_hasdevaddr_ok(void) { /* ok */
  set(s1,N,1);
#pragma omp target data map(tofrom:s1) use_device_addr(s1)
    {
#pragma omp target has_device_addr(s1)
      for(int i=0;i<N;i++) s1[i]+=1;
    }
  sink=sum(s1,N);
}
NI void c_udp_outside(void) { /* use after free */
  double *a=mk(N,1), *q=0;
#pragma omp target data map(tofrom:a[0:N]) use_device_ptr(a)
  q=a;
#pragma omp target is_device_ptr(q)
  for(int i=0;i<N;i++) q[i]+=1;
  free(a);
}
NI void c_udp_stale(void) { /* stale data */
  double *a=mk(N,1), *b=a;
#pragma omp target data map(to:a[0:N])
  {
#pragma omp target data use_device_ptr(a)
    {
#pragma omp target is_device_ptr(a)
      for(int i=0;i<N;i++) a[i]+=1;
    }
    sink=sum(b,N);
  }
  free(b);
}
NI void c_strided_update_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target data map(to:a[0:N])
  {
#pragma omp target
    for(int i=0;i<N;i+=2) a[i]+=1;
#pragma omp target update from(a[0:N/2:2])
    double s=0; for(int i=0;i<N;i+=2) s+=a[i]; sink=s;
    for(int i=1;i<N;i+=2) a[i]=9;
#pragma omp target update to(a[1:N/2:2])
#pragma omp target
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target update from(a[0:N])
  }
  sink=sum(a,N); free(a);
}
NI void c_strided_update_wrong(void) { /* stale data */
  double *a=mk(N,1);
#pragma omp target data map(to:a[0:N])
  {
#pragma omp target
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target update from(a[0:N/2:2])
    sink=sum(a,N);
  }
  free(a);
}
NI void c_section_offset_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[100:50])
  for(int i=100;i<150;i++) a[i]+=1;
  sink=sum(a,N); free(a);
}
NI void c_section_offset_beyond(void) { /* outside of what is mapped */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[100:50])
  for(int i=100;i<=150;i++) a[i]+=1;
  sink=sum(a,N); free(a);
}
NI void c_section_2d_ok(void) { /* ok */
  static double m[20][30]; for(int i=0;i<20;i++)for(int j=0;j<30;j++)m[i][j]=1;
#pragma omp target map(tofrom:m[5:10][0:30])
  for(int i=5;i<15;i++)for(int j=0;j<30;j++)m[i][j]+=1;
  sink=sum(&m[0][0],600);
}
NI void c_teams_on_host_ok(void) { /* ok */
  double *a=mk(N,1); volatile int device=0;
#pragma omp target data map(tofrom:a[0:N]) if(device)
  {
#pragma omp target teams distribute parallel for if(device)
  for(int i=0;i<N;i++) a[i]+=1;
  }
#pragma omp target teams distribute parallel for map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
  sink=sum(a,N); free(a);
}
NI void c_teams_on_host_stale(void) { /* stale data */
  double *a=mk(N,1); volatile int device=0;
#pragma omp target data map(to:a[0:N])
  {
#pragma omp target teams distribute parallel for if(device)
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) if(a[i]<0) a[i]=1;
  }
  free(a);
}
NI void c_section_in_bytes(void) { /* map beyond the array+stale data */
  // what lies behind is another array, and the program goes on
  int *a=malloc(N*sizeof*a),*b=malloc(N*sizeof*b);
  for(int i=0;i<N;i++){ a[i]=i; b[i]=1; }
#pragma omp target teams distribute parallel for map(to:a[0:N*sizeof*a])
  for(int i=0;i<N;i++) a[i]+=1;
  sink=a[7]+b[7]; free(a); free(b);
}
NI void c_section_2d_stack_beyond(void) { /* outside of what is mapped */
  double m[20][30]; for(int i=0;i<20;i++)for(int j=0;j<30;j++)m[i][j]=1;
#pragma omp target map(tofrom:m[5:10][0:30])
  for(int i=5;i<16;i++)for(int j=0;j<30;j++)m[i][j]+=1;
  sink=sum(&m[0][0],600);
}
typedef struct {int n; double *d; double c[16];} V;
NI void c_struct_ptr_member_ok(void) { /* ok */
  V v; v.n=N; v.d=mk(N,1); set(v.c,16,2);
#pragma omp target map(tofrom:v.d[0:v.n]) map(to:v.n,v.c)
  for(int i=0;i<v.n;i++) v.d[i]+=v.c[i%16];
  sink=sum(v.d,N); free(v.d);
}
NI void c_struct_ptr_member_stale(void) { /* stale data */
  V v; v.n=N; v.d=mk(N,1); set(v.c,16,2);
#pragma omp target data map(to:v, v.d[0:v.n])
  {
#pragma omp target
  for(int i=0;i<v.n;i++) v.d[i]+=v.c[i%16];
  sink=sum(v.d,N); 
  }
  free(v.d);
}
NI void c_struct_unmapped_member(void) { /* outside of what is mapped|outside of what is mapped+fatal error */
  V v; v.n=N; v.d=mk(N,1); set(v.c,16,2);
#pragma omp target map(tofrom:v)
  for(int i=0;i<v.n;i++) v.d[i]+=v.c[i%16];
  sink=sum(v.d,N); free(v.d);
}
NI void c_struct_array_members(void) { /* ok */
  V *v=malloc(4*sizeof(V)); for(int k=0;k<4;k++){v[k].n=150;v[k].d=mk(150,k);set(v[k].c,16,1);}
#pragma omp target enter data map(to:v[0:4])
  for(int k=0;k<4;k++){
#pragma omp target enter data map(to:v[k].d[0:150])
  }
#pragma omp target
  for(int k=0;k<4;k++) for(int i=0;i<v[k].n;i++) v[k].d[i]+=v[k].c[3];
  for(int k=0;k<4;k++){
#pragma omp target exit data map(from:v[k].d[0:150])
    sink=sum(v[k].d,150); 
  }
#pragma omp target exit data map(release:v[0:4])
  for(int k=0;k<4;k++) free(v[k].d); free(v);
}
NI void c_struct_array_members_forgot(void) { /* stale data+missing unmap|stale data */
  V *v=malloc(4*sizeof(V)); for(int k=0;k<4;k++){v[k].n=150;v[k].d=mk(150,k);set(v[k].c,16,1);}
#pragma omp target enter data map(to:v[0:4])
  for(int k=0;k<4;k++){
#pragma omp target enter data map(to:v[k].d[0:150])
  }
#pragma omp target
  for(int k=0;k<4;k++) for(int i=0;i<v[k].n;i++) v[k].d[i]+=v[k].c[3];
  for(int k=0;k<4;k++){
#pragma omp target exit data map(release:v[k].d[0:150])
    sink=sum(v[k].d,150); 
  }
#pragma omp target exit data map(release:v[0:4])
}
#pragma omp declare target
double dt1[300]; int dts;
#pragma omp end declare target
double lk[300];
#pragma omp declare target link(lk)
NI void c_dt_ok(void) { /* ok */
  set(dt1,300,1); dts=2;
#pragma omp target update to(dt1,dts)
#pragma omp target
  for(int i=0;i<300;i++) dt1[i]+=dts;
#pragma omp target update from(dt1)
  sink=sum(dt1,300);
}
NI void c_dt_stale_kernel(void) { /* stale data */
  set(dt1,300,1); dts=2;
#pragma omp target update to(dt1)
#pragma omp target
  for(int i=0;i<300;i++) dt1[i]+=dts;
#pragma omp target update from(dt1)
  sink=sum(dt1,300);
}
NI void c_dt_map_is_no_copy(void) { /* stale data */
  set(dt1,300,1);
#pragma omp target map(tofrom:dt1)
  for(int i=0;i<300;i++) dt1[i]+=1;
  sink=sum(dt1,300);
}
NI void c_dt_map_always(void) { /* ok */
  set(dt1,300,1);
#pragma omp target map(always,tofrom:dt1)
  for(int i=0;i<300;i++) dt1[i]+=1;
  sink=sum(dt1,300);
}
NI void c_link_ok(void) { /* ok */
  set(lk,300,1);
#pragma omp target map(tofrom:lk)
  for(int i=0;i<300;i++) lk[i]+=1;
  sink=sum(lk,300);
}
NI void c_link_stale(void) { /* stale data */
  set(lk,300,1);
#pragma omp target data map(to:lk)
  {
#pragma omp target
  for(int i=0;i<300;i++) lk[i]+=1;
  sink=sum(lk,300);
  }
}
NI void c_implicit_scalar_lost(void) { /* lost */
  int found=0; double *a=mk(N,1);
#pragma omp target map(to:a[0:N])
  for(int i=0;i<N;i++) if(a[i]>0) found=1;
  sink=found; free(a);
}
NI void c_implicit_scalar_count(void) { /* lost */
  int cnt=0; double *a=mk(N,1);
#pragma omp target teams distribute parallel for map(to:a[0:N])
  for(int i=0;i<N;i++) if(a[i]>0) {
#pragma omp atomic
  cnt++; }
  sink=cnt; free(a);
}
NI void c_defaultmap_ok(void) { /* ok */
  double s=0, *a=mk(N,1);
#pragma omp target map(to:a[0:N]) defaultmap(tofrom:scalar)
  for(int i=0;i<N;i++) s+=a[i];
  sink=s; free(a);
}
NI void c_defaultmap_none_struct(void) { /* ok */
  struct {double s; int k;} r={0,0}; double *a=mk(N,1);
#pragma omp target map(to:a[0:N])
  for(int i=0;i<N;i++) {r.s+=a[i]; r.k++;}
  sink=r.s+r.k; free(a);
}
NI void c_private_array(void) { /* ok */
  double w[32], *a=mk(N,1); set(w,32,1);
#pragma omp target map(tofrom:a[0:N]) firstprivate(w)
  for(int i=0;i<N;i++) {w[i%32]+=1; a[i]+=w[i%32];}
  sink=sum(a,N)+sum(w,32); free(a);
}
NI void c_reduction_map(void) { /* ok */
  double s=0, *a=mk(N,1);
#pragma omp target teams distribute parallel for reduction(+:s) map(to:a[0:N])
  for(int i=0;i<N;i++) s+=a[i];
  sink=s; free(a);
}
NI void c_array_reduction(void) { /* ok */
  double h[16], *a=mk(N,1); set(h,16,0);
#pragma omp target teams distribute parallel for reduction(+:h[0:16]) map(to:a[0:N]) map(tofrom:h)
  for(int i=0;i<N;i++) h[i%16]+=a[i];
  sink=sum(h,16); free(a);
}
NI void c_device_race_hist(void) { /* race */
  double h[16], *a=mk(N,1); set(h,16,0);
#pragma omp target teams distribute parallel for map(to:a[0:N]) map(tofrom:h)
  for(int i=0;i<N;i++) h[i%16]+=a[i];
  sink=sum(h,16); free(a);
}
NI void c_simd_collapse(void) { /* ok */
  static double m[20][30]; 
#pragma omp target teams distribute parallel for collapse(2) map(from:m)
  for(int i=0;i<20;i++)for(int j=0;j<30;j++)m[i][j]=i*j;
  sink=sum(&m[0][0],600);
}
NI void c_present_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
#pragma omp target map(present,tofrom:a[10:20])
  for(int i=10;i<30;i++) a[i]+=1;
  sink=sum(a,N); free(a);
}
NI void c_extension(void) { /* fatal error */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[100:100])
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
  sink=sum(a,N); free(a);
}
NI void c_always_from(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target data map(to:a[0:N])
  {
#pragma omp target map(always,from:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
  sink=sum(a,N);
  }
  free(a);
}
NI void c_alloc_then_update(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target data map(alloc:a[0:N])
  {
#pragma omp target update to(a[0:N])
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target update from(a[0:N])
  }
  sink=sum(a,N);
  free(a);
}
NI void c_calloc_from_ok(void) { /* ok */
  double *a=calloc(N,8);
#pragma omp target map(from:a[0:N])
  for(int i=0;i<N;i++) a[i]=1;
  sink=sum(a,N);
  free(a);
}
NI void c_memcpy_mapped_ptr(void) { /* ok */
  int h=omp_get_initial_device(), d=omp_get_default_device();
  double *a=mk(N,1), *b=mk(N,0);
#pragma omp target enter data map(to:a[0:N])
  double *p=omp_get_mapped_ptr(a,d);
#pragma omp target is_device_ptr(p)
  for(int i=0;i<N;i++) p[i]+=1;
  omp_target_memcpy(b,p,N*8,0,0,h,d);
#pragma omp target exit data map(delete:a[0:N])
  sink=sum(b,N); free(a);free(b);
}
NI void c_host_fallback_mapped(void) { /* stale data */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target if(0)
  for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_memmove_host(void) { /* stale data */
  double *a=mk(N,1), *b=mk(N,0);
#pragma omp target data map(to:a[0:N])
  {
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
  memcpy(b,a,N*8);
  }
  sink=sum(b,N); free(a);free(b);
}
NI void c_small_heap_enter(void) { /* race */
  double *a=mk(20,1);
#pragma omp target enter data map(to:a[0:20]) nowait
  a[3]=5;
#pragma omp taskwait
#pragma omp target
  a[0]+=1;
#pragma omp target exit data map(from:a[0:20])
  sink=a[0]; free(a);
}
NI void c_scalar_nowait(void) { /* race */
  double x=1;
#pragma omp target map(tofrom:x) nowait
  x+=1;
  x+=2;
#pragma omp taskwait
  sink=x;
}
NI void c_scalar_nowait_ok(void) { /* ok */
  double x=1, y=2;
#pragma omp target map(tofrom:x) nowait
  x+=1;
  y+=2;
#pragma omp taskwait
  sink=x+y;
}
NI void c_vla_nowait(void) { /* race */
  int n=N; double x[n]; set(x,n,1);
#pragma omp target map(tofrom:x[0:n]) nowait
  x[3]+=1;
  x[4]+=2;
#pragma omp taskwait
  sink=x[4];
}
NI void c_struct_stack_nowait(void) { /* race */
  struct {double d[50]; int k;} v; for(int i=0;i<50;i++)v.d[i]=1; v.k=1;
#pragma omp target map(tofrom:v) nowait
  v.d[3]+=v.k;
  v.k=3;
#pragma omp taskwait
  sink=v.d[3];
}
NI void c_param_ptr_nowait(void) { /* ok */
  double x[N]; set(x,N,1);
#pragma omp target map(tofrom:x) nowait depend(inout:x[0])
  x[3]+=1;
#pragma omp task depend(inout:x[0]) shared(x)
  x[3]+=1;
#pragma omp taskwait
  sink=x[3];
}
NI void c_seqcst_handoff(void) { /* ok */
  double *a=mk(N,1); int turn=0;
#pragma omp parallel num_threads(3)
  {
    int me=omp_get_thread_num();
    for(int r=0;r<2;r++){
      int t;
      do {
#pragma omp atomic read seq_cst
        t=turn;
      } while(t!=r*3+me);
#pragma omp target map(tofrom:a[0:N])
      for(int i=0;i<N;i++) a[i]+=1;
#pragma omp atomic write seq_cst
      turn=r*3+me+1;
    }
  }
  sink=a[3]; free(a);
}
NI void c_relaxed_handoff(void) { /* race */
  double *a=mk(N,1); int flag=0;
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target map(tofrom:a[0:N])
      for(int i=0;i<N;i++) a[i]+=1;
#pragma omp atomic write
      flag=1;
    } else {
      int f=0;
      while(!f){
#pragma omp atomic read
        f=flag;
      }
      sink=sum(a,N);
    }
  }
  free(a);
}
NI void c_flush_handoff(void) { /* ok */
  double *a=mk(N,1); int flag=0;
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target map(tofrom:a[0:N])
      for(int i=0;i<N;i++) a[i]+=1;
#pragma omp flush
#pragma omp atomic write
      flag=1;
    } else {
      int f=0;
      while(!f){
#pragma omp atomic read
        f=flag;
      }
#pragma omp flush
      sink=sum(a,N);
    }
  }
  free(a);
}
NI void c_capture_ticket(void) { /* ok */
  double *a=mk(N,1); int next=0, serving=0;
#pragma omp parallel num_threads(4)
  {
    int mine, s;
#pragma omp atomic capture seq_cst
    mine=next++;
    do {
#pragma omp atomic read acquire
      s=serving;
    } while(s!=mine);
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp atomic update release
    serving+=1;
  }
  sink=a[3]; free(a);
}
NI void c_counter_race(void) { /* race */
  double *a=mk(N,1); int cnt=0;
#pragma omp parallel num_threads(4)
  {
#pragma omp atomic
    cnt++;
    a[omp_get_thread_num()%2]=1;
#pragma omp atomic
    cnt++;
  }
#pragma omp target map(tofrom:a[0:N])
  a[0]+=cnt;
  sink=a[0]; free(a);
}
NI void c_last_counter_ok(void) { /* ok */
  double *a=mk(N,1); int cnt=0;
#pragma omp parallel num_threads(4)
  {
    int k=omp_get_thread_num(), mine;
#pragma omp target map(tofrom:a[k*150:150])
    for(int i=0;i<150;i++) a[k*150+i]+=1;
#pragma omp atomic capture acq_rel
    mine=++cnt;
    if(mine==4) sink=sum(a,N);
  }
  free(a);
}
static jmp_buf jb;
NI void inner(void) { double w[64]; for(int i=0;i<64;i++)w[i]=1;
#pragma omp target map(tofrom:w)
  for(int i=0;i<64;i++)w[i]+=1;
  if(w[3]>1) longjmp(jb,1);
}
NI double deep(double s){ double q[64]; for(int i=0;i<64;i++)q[i]=s; 
#pragma omp target map(tofrom:q)
  for(int i=0;i<64;i++)q[i]+=1;
 return q[5]; }
NI void run_inner(void){ if(!setjmp(jb)) inner(); }
NI void c_longjmp_ok(void) { /* ok */
  run_inner(); run_inner(); sink=deep(2);
}
NI void enterlocal(void) { double w[64]; for(int i=0;i<64;i++)w[i]=1;
#pragma omp target enter data map(to:w)
#pragma omp target
  for(int i=0;i<64;i++)w[i]+=1;
  longjmp(jb,1);
}
NI void run_enterlocal(void){ if(!setjmp(jb)) enterlocal(); }
NI void c_loop_scalar_lost(void) { /* lost */
  int it=0; double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  for(int k=0;k<3;k++){
#pragma omp target
    { for(int i=0;i<N;i++) a[i]+=1; it++; }
  }
  sink=it+a[3]; free(a);
}
NI void c_scalar_max_lost(void) { /* lost */
  double mx=0; double *a=mk(N,1);
#pragma omp target teams distribute parallel for map(to:a[0:N])
  for(int i=0;i<N;i++) if(a[i]>mx) mx=a[i];
  sink=mx; free(a);
}
NI void c_scalar_lastprivate_ok(void) { /* ok */
  double last=0; double *a=mk(N,1);
#pragma omp target parallel for map(to:a[0:N]) lastprivate(last) map(tofrom:last)
  for(int i=0;i<N;i++) last=a[i];
  sink=last; free(a);
}
NI void c_scalar_private_ok(void) { /* ok */
  double t=0; double *a=mk(N,1);
#pragma omp target teams distribute parallel for private(t) map(tofrom:a[0:N])
  for(int i=0;i<N;i++) { t=a[i]*2; a[i]=t; }
  sink=a[3]; free(a);
}
NI void c_global_scalar_lost(void) { /* lost */
  static int cnt; double *a=mk(N,1);
#pragma omp target map(to:a[0:N])
  for(int i=0;i<N;i++) if(a[i]>0) cnt++;
  sink=cnt; free(a);
}
NI void c_taskloop_target(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
#pragma omp taskloop num_tasks(4) shared(a)
  for(int b=0;b<4;b++){
#pragma omp target map(tofrom:a[b*150:150])
    for(int i=0;i<150;i++) a[b*150+i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_taskloop_target_overlap(void) { /* race */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
#pragma omp parallel num_threads(4)
#pragma omp single
#pragma omp taskloop num_tasks(4) shared(a)
  for(int b=0;b<4;b++){
#pragma omp target
    for(int i=0;i<150;i++) a[b*100+i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_parallel_reduction_target(void) { /* ok */
  double s=0,*a=mk(N,1);
#pragma omp parallel for reduction(+:s) num_threads(4)
  for(int b=0;b<4;b++){
    double p=0;
#pragma omp target map(to:a[b*150:150]) map(tofrom:p)
    for(int i=0;i<150;i++) p+=a[b*150+i];
    s+=p;
  }
  sink=s; free(a);
}
NI void c_lock_wrong(void) { /* race */
  double *a=mk(N,1); omp_lock_t l[2]; omp_init_lock(&l[0]); omp_init_lock(&l[1]);
#pragma omp parallel num_threads(2)
  {
    omp_set_lock(&l[omp_get_thread_num()]);
    a[3]+=1;
    omp_unset_lock(&l[omp_get_thread_num()]);
  }
#pragma omp target map(tofrom:a[0:N])
  a[0]+=1;
  sink=a[0]; free(a); omp_destroy_lock(&l[0]); omp_destroy_lock(&l[1]);
}
NI void c_doacross_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel for ordered(1) num_threads(4) schedule(static,1)
  for(int k=1;k<8;k++){
#pragma omp ordered depend(sink:k-1)
    a[k]=a[k-1]+1;
#pragma omp ordered depend(source)
  }
#pragma omp target map(tofrom:a[0:N])
  a[0]+=1;
  sink=a[0]; free(a);
}
NI void c_target_in_task_firstprivate(void) { /* ok */
  double x[64]; set(x,64,1); double *r=mk(64,0);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task firstprivate(x) shared(r)
    {
#pragma omp target map(to:x) map(from:r[0:64])
      for(int i=0;i<64;i++) r[i]=x[i];
    }
    x[3]=9;
  }
  sink=r[3]; free(r);
}
NI void c_target_depend_sync(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N]) depend(inout:a[0]) nowait
  a[0]+=1;
#pragma omp target map(tofrom:a[0:N]) depend(inout:a[0])
  a[0]+=1;
  sink=a[0]; free(a);
}
NI void c_two_devices_data(void) { /* ok */
  double *a=mk(N,1); int nd=omp_get_num_devices();
  for(int d=0;d<nd;d++){
#pragma omp target device(d) map(tofrom:a[0:N])
    for(int i=0;i<N;i++)a[i]+=1;
  }
  sink=a[0]; free(a);
}
NI void c_delete_then_enter(void) { /* ok */
  double *a=mk(N,1);
  for(int k=0;k<3;k++){
#pragma omp target enter data map(to:a[0:N])
#pragma omp target
    a[k]+=1;
#pragma omp target update from(a[k:1])
#pragma omp target exit data map(delete:a[0:N])
  }
  sink=a[0]+a[1]; free(a);
}
NI void c_close_ompx(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target data map(ompx_hold,tofrom:a[0:N])
  {
#pragma omp target exit data map(delete:a[0:N])
#pragma omp target
   a[0]+=1;
  }
  sink=a[0]; free(a);
}
NI void c_interchange_ptrs(void) { /* ok */
  double *a=mk(N,1),*b=mk(N,0);
#pragma omp target data map(tofrom:a[0:N],b[0:N])
  for(int k=0;k<4;k++){
#pragma omp target
    for(int i=0;i<N;i++) b[i]=a[i]+1;
    double *t=a;a=b;b=t;
  }
  sink=a[3]+b[3]; free(a);free(b);
}
NI void c_interchange_forgot(void) { /* stale data */
  double *a=mk(N,1),*b=mk(N,0);
#pragma omp target data map(tofrom:a[0:N]) map(to:b[0:N])
  for(int k=0;k<3;k++){
#pragma omp target
    for(int i=0;i<N;i++) b[i]=a[i]+1;
    double *t=a;a=b;b=t;
  }
  sink=a[3]+b[3]; free(a);free(b);
}
NI void c_atomic_kernel_ok(void) { /* ok */
  double h[8]; set(h,8,0); double *a=mk(N,1);
#pragma omp target teams distribute parallel for map(to:a[0:N]) map(tofrom:h)
  for(int i=0;i<N;i++){
#pragma omp atomic
    h[i%8]+=a[i]; }
  sink=h[0]; free(a);
}
NI void c_kernel_nobarrier(void) { /* race */
  double h[64]; set(h,64,0);
#pragma omp target parallel num_threads(64) map(tofrom:h)
  { int t=omp_get_thread_num(); h[t]=t; h[(t+1)%64]+=1; }
  sink=h[0];
}
NI void c_kernel_barrier(void) { /* ok */
  double h[64]; set(h,64,0);
#pragma omp target parallel num_threads(64) map(tofrom:h)
  { int t=omp_get_thread_num(); h[t]=t;
#pragma omp barrier
 h[(t+1)%64]+=1; }
  sink=h[0];
}
NI void c_kernel_single_nowait(void) { /* race */
  double h[64]; set(h,64,0);
#pragma omp target parallel num_threads(8) map(tofrom:h)
  {
#pragma omp single nowait
   h[0]=5;
   h[omp_get_thread_num()+8]=h[0]; }
  sink=h[0];
}
NI void c_doacross_race(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel for ordered(1) num_threads(4) schedule(static,1)
  for(int k=2;k<9;k++){
#pragma omp ordered depend(sink:k-2)
    a[k]=a[k-1]+1;
#pragma omp ordered depend(source)
  }
#pragma omp target map(tofrom:a[0:N])
  a[0]+=1;
  sink=a[0]; free(a);
}
NI void c_two_d(void) { /* ok */
  static double m[20][30]; for(int i=0;i<20;i++)for(int j=0;j<30;j++)m[i][j]=1;
#pragma omp target data map(to:m)
  {
  for(int i=3;i<8;i++)for(int j=4;j<9;j++)m[i][j]=2;
#pragma omp target update to(m[3:5][4:5])
#pragma omp target
  for(int i=0;i<20;i++)for(int j=0;j<30;j++)m[i][j]+=1;
#pragma omp target update from(m[3:5][4:5])
  double s=0; for(int i=3;i<8;i++)for(int j=4;j<9;j++)s+=m[i][j];
  sink=s;
  }
}
NI void c_two_d_short(void) { /* stale data */
  static double m[20][30]; for(int i=0;i<20;i++)for(int j=0;j<30;j++)m[i][j]=1;
#pragma omp target data map(to:m)
  {
#pragma omp target
  for(int i=0;i<20;i++)for(int j=0;j<30;j++)m[i][j]+=1;
#pragma omp target update from(m[3:5][4:5])
  double s=0; for(int i=3;i<9;i++)for(int j=4;j<9;j++)s+=m[i][j];
  sink=s;
  }
}
NI void c_strided_off(void) { /* ok */
  double a[100]; for(int i=0;i<100;i++)a[i]=1;
#pragma omp target data map(to:a)
  {
  for(int i=5;i<80;i+=3) a[i]=2;
#pragma omp target update to(a[5:25:3])
#pragma omp target
  for(int i=0;i<100;i++)a[i]+=1;
#pragma omp target update from(a[5:25:3])
  double s=0; for(int i=5;i<80;i+=3) s+=a[i];
  sink=s;
  }
}
NI void c_strided_off_short(void) { /* stale data */
  double a[100]; for(int i=0;i<100;i++)a[i]=1;
#pragma omp target data map(to:a)
  {
#pragma omp target
  for(int i=0;i<100;i++)a[i]+=1;
#pragma omp target update from(a[5:25:3])
  double s=0; for(int i=5;i<84;i+=3) s+=a[i];
  sink=s;
  }
}
NI void c_nested_struct(void) { /* ok */
  struct { int n; struct { double d[40]; } in; } v; v.n=40; for(int i=0;i<40;i++)v.in.d[i]=1;
#pragma omp target map(tofrom:v.in.d[10:20]) map(to:v.n)
  for(int i=10;i<30;i++) v.in.d[i]+=v.n;
  sink=v.in.d[11];
}
typedef struct { int n; double *v; } held;
#pragma omp declare mapper(held h) map(h, h.v[0:h.n])
NI void c_mapper_leaves(void) { /* missing unmap by the runtime */
  held h={N,mk(N,1)};
#pragma omp target map(tofrom:h)
  for(int i=0;i<h.n;i++) h.v[i]+=1;
  sink=sum(h.v,N); free(h.v);
}
NI void c_mapper_entered(void) { /* missing unmap by the runtime */
  held *h=malloc(sizeof *h); h->n=N; h->v=mk(N,1);
#pragma omp target enter data map(to:h[0:1])
#pragma omp target
  for(int i=0;i<h->n;i++) h->v[i]+=1;
#pragma omp target update from(h->v[0:N])
  sink=sum(h->v,N);
#pragma omp target exit data map(delete:h->v[0:N]) map(delete:h[0:1])
  free(h->v); free(h);
}
NI void c_mapper_not_ended(void) { /* missing unmap */
  held *h=malloc(sizeof *h); h->n=N; h->v=mk(N,1);
#pragma omp target enter data map(to:h[0:1])
#pragma omp target
  for(int i=0;i<h->n;i++) h->v[i]+=1;
#pragma omp target update from(h->v[0:N])
  sink=sum(h->v,N);
}
typedef struct { int a, b, c; } tri;
#pragma omp declare mapper(tri t) map(to: t.a) map(from: t.c)
NI void tri_ten(void) {
  tri x[10];
  for(int i=0;i<10;i++){ x[i].a=1; x[i].c=0; }
#pragma omp target map(tofrom:x)
  for(int i=0;i<10;i++) x[i].c=x[i].a;
  for(int i=0;i<10;i++) sink+=x[i].c;
}
NI void tri_five(void) {
  tri y[5];
  for(int i=0;i<5;i++){ y[i].a=2; y[i].c=0; }
#pragma omp target map(tofrom:y)
  for(int i=0;i<5;i++) y[i].c=y[i].a;
  for(int i=0;i<5;i++) sink+=y[i].c;
}
NI void c_mapper_frames(void) { /* missing unmap by the runtime|fatal error by the runtime */ tri_ten(); tri_five(); }
NI void plain(void) {
  int z[40];
  for(int i=0;i<40;i++) z[i]=i;
#pragma omp target map(tofrom:z)
  for(int i=0;i<40;i++) z[i]+=1;
  for(int i=0;i<40;i++) sink+=z[i];
}
NI void c_mapper_frame_plain(void) { /* missing unmap by the runtime|fatal error by the runtime */ tri_ten(); plain(); }
NI void c_mapper_heap_again(void) { /* missing unmap by the runtime|fatal error by the runtime */
  for(int k=0;k<3;k++){
    tri *x=malloc(20*sizeof *x);
    for(int i=0;i<20;i++){ x[i].a=k; x[i].c=0; }
#pragma omp target map(tofrom:x[0:20])
    for(int i=0;i<20;i++) x[i].c=x[i].a;
    for(int i=0;i<20;i++) sink+=x[i].c;
    free(x);
  }
}
NI void c_mapper_heap_parts(void) { /* missing unmap by the runtime */
  tri *x=malloc(20*sizeof *x);
  for(int i=0;i<20;i++){ x[i].a=1; x[i].c=0; }
#pragma omp target map(tofrom:x[0:20])
  for(int i=0;i<20;i++) x[i].c=x[i].a;
#pragma omp target map(tofrom:x[5:10])
  for(int i=5;i<15;i++) x[i].c+=x[i].a;
  for(int i=0;i<20;i++) sink+=x[i].c;
  free(x);
}
static tri st[10];
NI void c_mapper_static_again(void) { /* missing unmap by the runtime */
  for(int k=0;k<3;k++){
    for(int i=0;i<10;i++){ st[i].a=k; st[i].c=0; }
#pragma omp target map(tofrom:st)
    for(int i=0;i<10;i++) st[i].c=st[i].a;
    for(int i=0;i<10;i++) sink+=st[i].c;
  }
}
NI void held_at(int n) {
  held h={n,mk(n,1)};
#pragma omp target map(tofrom:h)
  for(int i=0;i<h.n;i++) h.v[i]+=1;
  sink=sum(h.v,n); free(h.v);
}
NI void c_mapper_held_again(void) { /* missing unmap by the runtime|fatal error by the runtime */ held_at(100); held_at(50); held_at(200); }
NI void c_mapper_two(void) { /* missing unmap by the runtime|fatal error by the runtime */ tri_ten(); held_at(60); tri_five(); held_at(30); }
NI void c_mapper_data(void) { /* missing unmap by the runtime */
  held h={80,mk(80,1)};
  for(int k=0;k<2;k++){
#pragma omp target data map(tofrom:h)
    {
#pragma omp target
      for(int i=0;i<h.n;i++) h.v[i]+=1;
    }
    sink=sum(h.v,80);
  }
  free(h.v);
}
NI void c_mapper_enter_exit(void) { /* missing unmap by the runtime|fatal error by the runtime */
  for(int k=0;k<2;k++){
    tri *x=malloc(20*sizeof *x);
    for(int i=0;i<20;i++){ x[i].a=k; x[i].c=0; }
#pragma omp target enter data map(to:x[0:20])
#pragma omp target map(tofrom:x[0:20])
    for(int i=0;i<20;i++) x[i].c=x[i].a;
#pragma omp target exit data map(from:x[0:20])
    for(int i=0;i<20;i++) sink+=x[i].c;
    free(x);
  }
}
NI void c_mapper_nowait(void) { /* missing unmap by the runtime|fatal error by the runtime */
  for(int k=0;k<2;k++){
    tri x[10];
    for(int i=0;i<10;i++){ x[i].a=k; x[i].c=0; }
#pragma omp target map(tofrom:x) nowait
    for(int i=0;i<10;i++) x[i].c=x[i].a;
#pragma omp taskwait
    for(int i=0;i<10;i++) sink+=x[i].c;
  }
}
NI void c_mapper_freed_early(void) { /* freed while mapped */
  tri *x=malloc(20*sizeof *x);
  for(int i=0;i<20;i++){ x[i].a=1; x[i].c=0; }
#pragma omp target enter data map(to:x[0:20])
  free(x);
#pragma omp target exit data map(release:x[0:20])
}
NI void c_mapper_stale(void) { /* stale data */
  held h={80,mk(80,1)};
#pragma omp target data map(to:h)
  {
#pragma omp target
    for(int i=0;i<h.n;i++) h.v[i]+=1;
    sink=sum(h.v,80);
  }
  free(h.v);
}
NI void c_mapper_race(void) { /* race */
  tri x[10];
  for(int i=0;i<10;i++){ x[i].a=1; x[i].c=0; }
#pragma omp target map(tofrom:x) nowait
  for(int i=0;i<10;i++) x[i].c=x[i].a;
#pragma omp target map(tofrom:x) nowait
  for(int i=0;i<10;i++) x[i].c+=x[i].a;
#pragma omp taskwait
  for(int i=0;i<10;i++) sink+=x[i].c;
}
NI void c_stack_regions_nowait(void) { /* race */
  double a[N]; set(a,N,1);
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target map(tofrom:a) nowait
      for(int i=0;i<N;i++) a[i]+=1;
#pragma omp taskwait
    } else {
      sink=work();
#pragma omp target map(tofrom:a)
      for(int i=0;i<N;i++) a[i]*=2;
    }
  }
  sink=a[3];
}
NI void c_stack_regions(void) { /* race */
  double a[N]; set(a,N,1);
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()) sink=work();
#pragma omp target map(tofrom:a)
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=a[3];
}
NI void c_stack_scalar_regions(void) { /* race */
  double s=0;
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()) sink=work();
#pragma omp target map(tofrom:s)
    s+=1;
  }
  sink=s;
}
NI void c_stack_tasks(void) { /* race */
  double a[N]; set(a,N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task shared(a)
    {
#pragma omp target map(tofrom:a)
    for(int i=0;i<N;i++) a[i]+=1;
    }
#pragma omp task shared(a)
    {
    sink=work();
#pragma omp target map(tofrom:a)
    for(int i=0;i<N;i++) a[i]*=2;
    }
  }
  sink=a[3];
}
NI void c_stack_two_nowait(void) { /* race */
  double a[N]; set(a,N,1);
#pragma omp target map(tofrom:a) nowait
  for(int i=0;i<N;i++) a[i]+=1;
  sink=work();
#pragma omp target map(tofrom:a) nowait
  for(int i=0;i<N;i++) a[i]*=2;
#pragma omp taskwait
  sink=a[3];
}
NI void c_stack_regions_ordered(void) { /* ok */
  double a[N]; set(a,N,1);
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target map(tofrom:a)
      for(int i=0;i<N;i++) a[i]+=1;
    }
#pragma omp barrier
    if(omp_get_thread_num()==1){
#pragma omp target map(tofrom:a)
      for(int i=0;i<N;i++) a[i]*=2;
    }
  }
  sink=a[3];
}
NI void c_stack_regions_depend(void) { /* ok */
  double a[N]; set(a,N,1);
#pragma omp target map(tofrom:a) nowait depend(inout:a)
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target map(tofrom:a) nowait depend(inout:a)
  for(int i=0;i<N;i++) a[i]*=2;
#pragma omp taskwait
  sink=a[3];
}
NI void c_stack_regions_read(void) { /* ok */
  double a[N]; set(a,N,1);
#pragma omp parallel num_threads(2)
  {
    double s=0;
    if(omp_get_thread_num()) sink=work();
#pragma omp target map(to:a) map(tofrom:s)
    for(int i=0;i<N;i++) s+=a[i];
    #pragma omp critical
    sink+=s;
  }
}
NI void own(double v){ double a[N]; set(a,N,v);
#pragma omp target map(tofrom:a)
  for(int i=0;i<N;i++) a[i]+=1;
  sink=a[3];
}
NI void other(double v){ double b[N]; int k; set(b,N,v);
#pragma omp target map(tofrom:b,k)
  {k=1; for(int i=0;i<N;i++) b[i]+=1;}
  sink=b[3]+k;
}
NI void c_stack_tasks_own(void) { /* ok */
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<12;k++){
#pragma omp task
    { if (k%3) own(k); else other(k); }
  }
}
NI void c_stack_tasks_body(void) { /* ok */
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<12;k++){
#pragma omp task
    { double a[N]; set(a,N,k);
#pragma omp target map(tofrom:a) nowait
      for(int i=0;i<N;i++) a[i]+=1;
#pragma omp taskwait
      sink=a[3]; }
  }
}
NI void c_stack_threads_own(void) { /* ok */
  for(int k=0;k<3;k++){
#pragma omp parallel num_threads(4)
  { own(k); other(k); }
  }
}
NI void c_stack_firstprivate_task(void) { /* ok */
  double a[64]; set(a,64,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<12;k++){
#pragma omp task firstprivate(a)
    {
#pragma omp target map(tofrom:a)
      for(int i=0;i<64;i++) a[i]+=1;
      sink=a[3]; }
  }
}
NI void c_stack_private_for(void) { /* ok */
  double a[64];
#pragma omp parallel for num_threads(4) private(a)
  for(int k=0;k<12;k++){
    set(a,64,k);
#pragma omp target map(tofrom:a)
      for(int i=0;i<64;i++) a[i]+=1;
      sink=a[3]; }
}
NI void vla(int n){ double a[n]; set(a,n,1);
#pragma omp target map(tofrom:a)
  for(int i=0;i<n;i++) a[i]+=1;
  sink=a[3];
}
NI void c_stack_vla_own(void) { /* ok */
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<12;k++){
#pragma omp task
    { volatile double local[700]; for(int i=0;i<700;i++) local[i]=k; vla(100+k*10+(int)(local[3]-k)); }
  }
}
NI void c_stack_task_stale(void) { /* stale data */
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<6;k++){
#pragma omp task
    { double a[N]; set(a,N,k);
#pragma omp target data map(to:a)
      {
#pragma omp target
        for(int i=0;i<N;i++) a[i]+=1;
        sink=sum(a,N);
      } }
  }
}
NI void c_stack_task_race(void) { /* race|race+fatal error|fatal error */
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<6;k++){
#pragma omp task
    { double a[N]; set(a,N,k);
#pragma omp target map(tofrom:a) nowait
      for(int i=0;i<N;i++) a[i]+=1;
      a[7]=3;
#pragma omp taskwait
      sink=sum(a,N); }
  }
}
NI void c_stack_task_mapped(void) { /* missing unmap */
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task
    { double a[N], *p=a; set(a,N,1);
#pragma omp target enter data map(to:p[0:N])
#pragma omp target
      p[0]+=1;
#pragma omp target exit data map(from:p[0:N])
#pragma omp target enter data map(to:p[0:N])
    }
#pragma omp taskwait
  }
}
NI void c_stack_task_memcpy(void) { /* ok */
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<8;k++){
#pragma omp task
    { double a[N], b[N]; set(a,N,k); set(b,N,0);
      double *d=omp_target_alloc(N*8,0);
      int h=omp_get_initial_device();
      omp_target_memcpy(d,a,N*8,0,0,0,h);
#pragma omp target is_device_ptr(d) map(tofrom:b)
      for(int i=0;i<N;i++){ d[i]+=1; b[i]+=d[i]; }
      omp_target_memcpy(a,d,N*8,0,0,h,0);
      omp_target_free(d,0);
      if(sum(a,N)!=N*(k+1.)||sum(b,N)!=N*(k+1.)) abort(); }
  }
}
NI void c_stack_task_shared(void) { /* ok */
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<6;k++){
#pragma omp task
    { double a[N], s=0; set(a,N,k);
#pragma omp task shared(a,s)
      {
#pragma omp target map(tofrom:a,s)
        for(int i=0;i<N;i++){ a[i]+=1; s+=a[i]; }
      }
#pragma omp taskwait
      struct { double *p; int n; } v={a,N};
#pragma omp target map(tofrom:v.p[0:v.n]) map(to:v.n)
      for(int i=0;i<v.n;i++) v.p[i]+=1;
      if(sum(a,N)!=N*(k+2.)||s!=N*(k+1.)) abort(); }
  }
}
NI void c_kernel_copyprivate(void) { /* ok */
  int r[48];
#pragma omp target teams num_teams(4) map(from:r)
#pragma omp parallel num_threads(4)
  {
    int v, w[2], at=omp_get_team_num()*4+omp_get_thread_num();
#pragma omp single copyprivate(v,w)
    { v=omp_get_team_num(); w[0]=w[1]=10*v; }
    r[at]=v+w[1];
#pragma omp barrier
#pragma omp single copyprivate(v)
    v+=100;
    r[16+at]=v;
#pragma omp parallel num_threads(2)
    {
      int u;
#pragma omp single copyprivate(u)
      u=omp_get_ancestor_thread_num(1);
      if(omp_get_thread_num()==0) r[32+at]=u;
    }
  }
  for(int i=0;i<16;i++) if(r[i]!=11*(i/4)||r[16+i]!=100+i/4||r[32+i]!=i%4) abort();
}
NI void c_kernel_cancel(void) { /* ok */
  int s=0;
  omp_lock_t lock;
#pragma omp target map(tofrom:s) private(lock)
  {
    omp_init_lock_with_hint(&lock,omp_sync_hint_contended);
#pragma omp parallel num_threads(8)
    {
#pragma omp for
      for(int i=0;i<64;i++){
        if(i>100) {
#pragma omp cancel for
        }
#pragma omp cancellation point for
        omp_set_lock(&lock); s+=1; omp_unset_lock(&lock);
      }
    }
    omp_destroy_lock(&lock);
  }
  if(s!=64) abort();
}
NI void c_host_address_of_mapped(void) { /* outside of what is mapped */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target is_device_ptr(a)
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_host_address_nowait(void) { /* outside of what is mapped */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target is_device_ptr(a) nowait
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp taskwait
  }
  sink=sum(a,N); free(a);
}
static double buffers[2][N];
static pthread_barrier_t filled;
static void *fill(void *each) {
  for(int r=0;r<4;r++) { set(buffers[each ? r%2 : 0],N,r); pthread_barrier_wait(&filled); }
  return 0;
}
NI void drain(void *each) {
  pthread_t filling; pthread_barrier_init(&filled,0,2); pthread_create(&filling,0,fill,each);
  for(int r=0;r<4;r++) {
    pthread_barrier_wait(&filled);
    double *full=buffers[each ? r%2 : 0], s=0;
#pragma omp target map(to:full[0:N]) map(tofrom:s)
    for(int i=0;i<N;i++) s+=full[i];
    sink=s;
  }
  pthread_join(filling,0); pthread_barrier_destroy(&filled);
}
NI void c_barrier_before_two_buffers(void) { /* ok */
  drain(&filled);
}
NI void c_barrier_before_one_buffer(void) { /* race */
  drain(0); /* it is filled again while the region may still copy it */
}
NI void c_host_reads_device_copy(void) { /* host use of device memory */
  double *a=mk(N,1);
#pragma omp target data map(tofrom:a[0:N]) use_device_ptr(a)
  sink=sum(a,N);
  free(a);
}
NI void c_host_beside_device_copy(void) { /* ok */
  double *a=mk(N,1), *own=a;
#pragma omp target data map(to:a[0:N]) use_device_ptr(a)
  {
    sink=sum(own,N);
#pragma omp target is_device_ptr(a)
    for(int i=0;i<N;i++) a[i]+=1;
  }
  set(a,N,1); free(a);
}
NI void c_host_writes_device_memory(void) { /* host use of device memory+uninitialised data */
  double *d=omp_target_alloc(N*8,0);
  set(d,N,1);
#pragma omp target is_device_ptr(d)
  for(int i=0;i<N;i++) d[i]+=1;
  omp_target_free(d,0);
}
NI void c_memory_of_the_initial_device(void) { /* ok */
  double *h=omp_target_alloc(N*8,omp_get_initial_device());
  set(h,N,1);
#pragma omp target map(tofrom:h[0:N])
  for(int i=0;i<N;i++) h[i]+=1;
  sink=sum(h,N); omp_target_free(h,omp_get_initial_device());
}
NI void c_address_in_a_struct(void) { /* outside of what is mapped */
  double *a=mk(N,1); /* the region maps it, and uses the host's address in the structure */
  struct pt s={.n=N,.p=a};
#pragma omp target firstprivate(s) map(tofrom:a[0:N])
  for(int i=0;i<s.n;i++) s.p[i]+=1;
  sink=sum(a,N); free(a);
}
NI void c_memcpy_swapped(void) { /* fatal error */
  double *a=mk(N,1), *d=omp_target_alloc(N*8,0);
  omp_target_memcpy(d,a,N*8,0,0,omp_get_initial_device(),0);
  omp_target_memcpy(a,d,N*8,0,0,omp_get_initial_device(),0);
  omp_target_free(d,0);
  sink=sum(a,N); free(a);
}
NI void c_memcpy_swapped_before_a_map(void) { /* fatal error */
  double *a=mk(N,1), *b=mk(N,1);
#pragma omp target data map(to:a[0:N]) use_device_ptr(a)
  omp_target_memcpy(b,a,N*8,0,0,omp_get_initial_device(),omp_get_initial_device());
  sink=sum(b,N); free(a); free(b);
}
NI void put(double *d, int at) { double four[4]={at,at,at,at}; omp_target_memcpy(d,four,32,at*32,0,0,omp_get_initial_device()); }
NI void c_memcpy_of_scopes(void) { /* ok */
  double *d=omp_target_alloc(320,0);
  for(int i=0;i<10;i++) put(d,i);
#pragma omp target is_device_ptr(d)
  for(int i=0;i<40;i++) d[i]+=1;
  omp_target_free(d,0);
}
NI void c_memcpy_too_long(void) { /* map beyond the array */
  double *a=mk(N,1), *b=mk(N,1), *d=omp_target_alloc(N*64,0);
  omp_target_memcpy(d,a,N*64,0,0,0,omp_get_initial_device());
  omp_target_free(d,0);
  sink=sum(b,N); free(a); free(b);
}
NI void c_freed_before_it_is_mapped(void) { /* race|fatal error|fatal error+race */
  double *a=mk(N,1); /* the region may come before the free or behind it */
#pragma omp target map(tofrom:a[0:N]) nowait
  for(int i=0;i<N;i++) a[i]+=1;
  free(a);
#pragma omp taskwait
}
NI void c_depend_on_the_pointer(void) { /* race */
  double *a=mk(N,1); /* one names the pointer and one the element: no order */
#pragma omp target map(tofrom:a[0:N]) nowait depend(out:a)
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target map(tofrom:a[0:N]) nowait depend(inout:a[0])
  for(int i=0;i<N;i++) a[i]*=2;
#pragma omp taskwait
  sink=a[3]; free(a);
}
NI void dev(double*a,int n){
#pragma omp target map(tofrom:a[0:n])
  for(int i=0;i<n;i++) a[i]+=1;
}
NI void nested_own(int o){
#pragma omp parallel num_threads(2)
  { double x[N]; set(x,N,o);
#pragma omp target map(tofrom:x)
    for(int i=0;i<N;i++) x[i]+=1;
    inc(x,N); sink=sum(x,N); }
}
NI void c_detach_other_thread_ok(void) { /* ok */
  double *a=mk(N,1); static omp_event_handle_t shown; static int f; f=0;
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
      omp_event_handle_t ev;
#pragma omp task detach(ev) shared(a)
      { }
      shown=ev;
#pragma omp atomic write release
      f=1;
#pragma omp taskwait
      dev(a,N);
    } else { int s;
      do {
#pragma omp atomic read acquire
        s=f;
      } while(!s);
      inc(a,N);
      omp_fulfill_event(shown);
    }
  }
  sink=sum(a,N); free(a);
}
NI void c_detach_writes_before_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    omp_event_handle_t ev;
#pragma omp task detach(ev) depend(out:a[0]) shared(a)
    { }
#pragma omp task shared(a) firstprivate(ev)
    { inc(a,N); omp_fulfill_event(ev); }
#pragma omp target map(tofrom:a[0:N]) nowait depend(inout:a[0])
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_detach_writes_behind(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
    omp_event_handle_t ev;
#pragma omp task detach(ev) depend(out:a[0]) shared(a)
    { }
#pragma omp task shared(a) firstprivate(ev)
    { omp_fulfill_event(ev); inc(a,N); }
#pragma omp target map(tofrom:a[0:N]) nowait depend(inout:a[0])
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_copyprivate_ok(void) { /* ok */
  double *p;
#pragma omp parallel private(p) num_threads(4)
  {
#pragma omp single copyprivate(p)
    { p=mk(N,1); dev(p,N); }
#pragma omp critical
    p[0]+=1;
#pragma omp barrier
#pragma omp master
    { sink=sum(p,N); free(p); }
  }
}
NI void c_sync_lock_ok(void) { /* ok */
  double *a=mk(N,1); int l=0;
#pragma omp parallel num_threads(4)
  {
    while(!__sync_bool_compare_and_swap(&l,0,1)) ;
    dev(a,N); a[0]+=1;
    __sync_lock_release(&l);
  }
  sink=sum(a,N); free(a);
}
NI void c_nested_frames_ok(void) { /* ok */
  omp_set_max_active_levels(2);
#pragma omp parallel num_threads(3)
  { nested_own(omp_get_thread_num()); nested_own(5); }
#pragma omp parallel num_threads(4)
  { nested_own(omp_get_thread_num()); }
}
NI void c_nested_frames_race(void) { /* race */
  omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
  { double x[N]; set(x,N,1);
#pragma omp parallel num_threads(2) shared(x)
    { int k=omp_get_thread_num();
      double *h=x+k*300;
#pragma omp target map(tofrom:h[0:300])
      for(int i=0;i<300;i++) h[i]+=1;
      inc(x+(1-k)*300,300);
    }
    sink=sum(x,N); }
}
static pthread_mutex_t mu=PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cv=PTHREAD_COND_INITIALIZER;
static pthread_barrier_t bar;
static int ready;
static void *body_mutex(void*p){ double*a=p; for(int k=0;k<5;k++){ pthread_mutex_lock(&mu); dev(a,N); a[0]+=1; pthread_mutex_unlock(&mu); } return 0; }
static void *body_cond(void*p){ pthread_mutex_lock(&mu); while(!ready) pthread_cond_wait(&cv,&mu); pthread_mutex_unlock(&mu); dev(p,N); return 0; }
NI void c_pthread_mutex_ok(void) { /* ok */
  double *a=mk(N,1); pthread_t t[3]; for(int i=0;i<3;i++) pthread_create(&t[i],0,body_mutex,a); body_mutex(a); for(int i=0;i<3;i++) pthread_join(t[i],0); sink=sum(a,N); free(a);
}
NI void c_pthread_cond_ok(void) { /* ok */
  double *a=mk(N,1); pthread_t t; ready=0; pthread_create(&t,0,body_cond,a); inc(a,N); pthread_mutex_lock(&mu); ready=1; pthread_cond_signal(&cv); pthread_mutex_unlock(&mu); pthread_join(t,0); sink=sum(a,N); free(a);
}
NI void c_mutex_in_parallel_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
  { pthread_mutex_lock(&mu); dev(a,N); a[0]+=1; pthread_mutex_unlock(&mu); }
  sink=sum(a,N); free(a);
}
NI void c_mutex_in_parallel_race(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
  { pthread_mutex_lock(&mu); dev(a,N); pthread_mutex_unlock(&mu); a[0]+=1; }
  sink=sum(a,N); free(a);
}
NI void c_rwlock_ok(void) { /* ok */
  double *a=mk(N,1); pthread_rwlock_t l; pthread_rwlock_init(&l,0);
#pragma omp parallel num_threads(4)
  { if(omp_get_thread_num()==0){ pthread_rwlock_wrlock(&l); dev(a,N); pthread_rwlock_unlock(&l); } else { pthread_rwlock_rdlock(&l); sink=sum(a,N); pthread_rwlock_unlock(&l);} }
  sink=sum(a,N); free(a);
}
NI void c_rwlock_race(void) { /* race */
  double *a=mk(N,1); pthread_rwlock_t l; pthread_rwlock_init(&l,0);
#pragma omp parallel num_threads(4)
  { pthread_rwlock_rdlock(&l); a[0]+=1; pthread_rwlock_unlock(&l); }
  dev(a,N); sink=sum(a,N); free(a);
}
NI void c_cond_in_parallel_ok(void) { /* ok */
  double *a=mk(N,1); ready=0;
#pragma omp parallel num_threads(2)
  { if(omp_get_thread_num()==0){ inc(a,N); pthread_mutex_lock(&mu); ready=1; pthread_cond_broadcast(&cv); pthread_mutex_unlock(&mu);} else body_cond(a); }
  sink=sum(a,N); free(a);
}
NI void c_pbarrier_in_parallel_ok(void) { /* ok */
  double *a=mk(N,1); pthread_barrier_init(&bar,0,2);
#pragma omp parallel num_threads(2)
  { if(omp_get_thread_num()==0) dev(a,N); pthread_barrier_wait(&bar); if(omp_get_thread_num()==1) inc(a,N); }
  sink=sum(a,N); free(a);
}
NI void c_poll_critical_ok(void) { /* ok */
  double *a=mk(N,1); int f=0;
#pragma omp parallel num_threads(2)
  { if(omp_get_thread_num()==1){ sink=work(); inc(a,N);
#pragma omp critical
      f=1;
    } else { int s;
      do {
#pragma omp critical
        s=f;
      } while(!s);
      dev(a,N); } }
  sink=sum(a,N); free(a);
}
NI void c_mutex_in_tasks_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<8;k++){
#pragma omp task shared(a)
    { pthread_mutex_lock(&mu); a[0]+=1; dev(a,N); pthread_mutex_unlock(&mu); }
  }
  sink=sum(a,N); free(a);
}
NI void c_recursive_mutex_ok(void) { /* ok */
  double *a=mk(N,1); pthread_mutexattr_t at; pthread_mutexattr_init(&at); pthread_mutexattr_settype(&at,PTHREAD_MUTEX_RECURSIVE); pthread_mutex_t m; pthread_mutex_init(&m,&at);
#pragma omp parallel num_threads(4)
  { pthread_mutex_lock(&m); pthread_mutex_lock(&m); dev(a,N); pthread_mutex_unlock(&m); a[0]+=1; pthread_mutex_unlock(&m); }
  sink=sum(a,N); free(a);
}
NI void c_fetch_or_lock_ok(void) { /* ok */
  double *a=mk(N,1); int l=0;
#pragma omp parallel num_threads(4)
  { while(__atomic_fetch_or(&l,1,__ATOMIC_ACQ_REL)&1) { } sink=work(); dev(a,N); a[0]+=1; __atomic_fetch_and(&l,~1,__ATOMIC_RELEASE); }
  sink=sum(a,N); free(a);
}
NI void c_semaphore_ok(void) { /* ok */
  double *a=mk(N,1); sem_t s; sem_init(&s,0,0);
#pragma omp parallel num_threads(2)
  { if(omp_get_thread_num()==1){ sink=work(); inc(a,N); sem_post(&s); } else { sem_wait(&s); dev(a,N); } }
  sink=sum(a,N); free(a);
}
#pragma omp declare target
static omp_nest_lock_t nl;
static void deeper(double*h,int k){ omp_set_nest_lock(&nl); if(k) deeper(h,k-1); h[k]+=1; omp_unset_nest_lock(&nl); }
#pragma omp end declare target
NI void c_k_nest_ok(void) { /* ok */
  double h[64]; set(h,64,0);
#pragma omp target parallel num_threads(8) map(tofrom:h)
  {
#pragma omp single
    omp_init_nest_lock(&nl);
    deeper(h,3);
  }
  sink=h[0];
}
NI void c_k_nest_outside(void) { /* race */
  double h[64]; set(h,64,0);
#pragma omp target parallel num_threads(8) map(tofrom:h)
  {
#pragma omp single
    omp_init_nest_lock(&nl);
    deeper(h,3);
    h[0]+=1;
  }
  sink=h[0];
}
NI void c_k_taskloop_ok(void) { /* ok */
  double h[64]; set(h,64,0);
#pragma omp target map(tofrom:h)
#pragma omp parallel num_threads(8)
#pragma omp single
#pragma omp taskloop grainsize(strict:10)
  for(int i=0;i<64;i++) h[i]+=1;
  sink=h[0];
}
NI void c_turns_outside_lock_ok(void) { /* ok */
  double *a=mk(N,1); omp_lock_t l; omp_init_lock(&l); int turn=0;
#pragma omp parallel num_threads(2)
  { int me=omp_get_thread_num();
    for(int r=0;r<4;r++){ int go=0;
      while(!go){ omp_set_lock(&l); go=turn%2==me; omp_unset_lock(&l); }
      dev(a,N); a[0]+=1;
      omp_set_lock(&l); turn++; omp_unset_lock(&l); } }
  sink=sum(a,N); free(a);
}
NI void c_turns_forgotten(void) { /* race|race+stale data */
  double *a=mk(N,1); omp_lock_t l; omp_init_lock(&l); int turn=0;
#pragma omp parallel num_threads(2)
  { int me=omp_get_thread_num();
    for(int r=0;r<4;r++){ omp_set_lock(&l); turn++; omp_unset_lock(&l);
      dev(a,N); a[me]+=1; } }
  sink=sum(a,N); free(a);
}
NI void c_taskloop_strict_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp taskloop grainsize(strict:70) shared(a)
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp taskloop num_tasks(strict:7) shared(a)
    for(int i=0;i<N;i++) a[i]+=1;
    dev(a,N);
  }
  sink=sum(a,N); free(a);
}
NI void c_doacross_target_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel for ordered(1) num_threads(4) schedule(static,1)
  for(int k=1;k<9;k++){
#pragma omp ordered depend(sink:k-1)
    dev(a,N);
#pragma omp ordered depend(source)
  }
  sink=a[0]; free(a);
}
NI void c_nested_in_task_critical(void) { /* ok */
  double *a=mk(N,1); omp_set_max_active_levels(3);
#pragma omp parallel num_threads(2)
  {
#pragma omp single nowait
    {
#pragma omp task shared(a)
      {
#pragma omp parallel num_threads(2)
        {
#pragma omp critical
          dev(a,N);
        }
      }
      sink=work();
    }
#pragma omp critical
    { sink=work(); a[0]+=1; }
  }
  sink=sum(a,N); free(a);
}
NI void c_nested_spin_task(void) { /* ok */
  double *a=mk(N,1); int f=0; omp_set_max_active_levels(3);
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp task shared(a,f)
      {
#pragma omp parallel num_threads(2)
        { int s;
          do {
#pragma omp atomic read acquire
            s=f;
          } while(s<2);
#pragma omp critical
          a[0]+=1;
        }
      }
      sink=work();
#pragma omp atomic update release
      f++;
    } else { int s;
      do {
#pragma omp atomic read acquire
        s=f;
      } while(s<1);
      dev(a,N);
#pragma omp atomic update release
      f++;
    }
  }
  sink=sum(a,N); free(a);
}
NI void c_tasks_spin_ok(void) { /* ok */
  double *a=mk(N,1); int f=0;
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task shared(a,f)
    { int s; do {
#pragma omp atomic read acquire
        s=f;
      } while(!s); inc(a,N); }
#pragma omp task shared(a,f)
    { sink=work(); dev(a,N);
#pragma omp atomic write release
      f=1; }
  }
  sink=sum(a,N); free(a);
}
NI void c_tasks_cond_ok(void) { /* ok */
  double *a=mk(N,1); ready=0;
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task shared(a)
    { pthread_mutex_lock(&mu); while(!ready) pthread_cond_wait(&cv,&mu); pthread_mutex_unlock(&mu); inc(a,N); }
#pragma omp task shared(a)
    { sink=work(); dev(a,N); pthread_mutex_lock(&mu); ready=1; pthread_cond_signal(&cv); pthread_mutex_unlock(&mu); }
  }
  sink=sum(a,N); free(a);
}
NI void c_tasks_sem_ok(void) { /* ok */
  double *a=mk(N,1); sem_t s; sem_init(&s,0,0);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task shared(a,s)
    { sem_wait(&s); inc(a,N); sem_post(&s); }
#pragma omp task shared(a,s)
    { sem_wait(&s); inc(a,N); sem_post(&s); }
#pragma omp task shared(a,s)
    { sink=work(); dev(a,N); sem_post(&s); }
  }
  sink=sum(a,N); free(a);
}
NI void c_tasks_barrier_ok(void) { /* ok */
  double *a=mk(N,1); pthread_barrier_t b; pthread_barrier_init(&b,0,2);
#pragma omp parallel num_threads(4)
#pragma omp single
  {
#pragma omp task shared(a,b)
    { pthread_barrier_wait(&b); inc(a,N); pthread_barrier_wait(&b); }
#pragma omp task shared(a,b)
    { sink=work(); dev(a,N); pthread_barrier_wait(&b); pthread_barrier_wait(&b); a[3]=2; }
  }
  sink=sum(a,N); free(a);
}
static void *pt_inc(void*p){ inc(p,N); return 0; }
NI void c_pt_main_race_host(void) { /* race */
  double *a=mk(N,1); dev(a,N); pthread_t t; pthread_create(&t,0,pt_inc,a); sink=work(); a[3]+=1; pthread_join(t,0); sink=sum(a,N); dev(a,N); free(a);
}
NI void c_pt_main_ok(void) { /* ok */
  double *a=mk(N,1), *b=mk(N,2); pthread_t t; pthread_create(&t,0,pt_inc,a); sink=work(); dev(b,N); pthread_join(t,0); dev(a,N); sink=sum(a,N)+sum(b,N); free(a); free(b);
}
static int pfd[2];
static void *pt_pipe(void*p){ char c; if(read(pfd[0],&c,1)==1) dev(p,N); return 0; }
NI void c_pt_pipe_ok(void) { /* ok */
  double *a=mk(N,1); pthread_t t; if(pipe(pfd)) abort(); pthread_create(&t,0,pt_pipe,a); inc(a,N); char c=1; if(write(pfd[1],&c,1)!=1) abort(); pthread_join(t,0); sink=sum(a,N); free(a);
}
static int passed=1; /* orders nothing, but has a task lock the mutex before the thread does, where it is 0 at first */
static void *pt_region(void*p){ double *a=p;
#pragma omp parallel num_threads(2)
  { int k=omp_get_thread_num(); inc(a+k*300,300); }
  for(int f=0;!f;usleep(100)){
#pragma omp atomic read relaxed
    f=passed;
  }
  pthread_mutex_lock(&mu); ready=1; pthread_cond_broadcast(&cv); pthread_mutex_unlock(&mu);
  return 0; }
NI void c_pt_region_cond_ok(void) { /* ok */
  double *a=mk(N,1); pthread_t t; ready=0; pthread_create(&t,0,pt_region,a);
#pragma omp parallel num_threads(2)
  { 
#pragma omp single
    {
#pragma omp task shared(a)
  { pthread_mutex_lock(&mu); while(!ready) pthread_cond_wait(&cv,&mu); pthread_mutex_unlock(&mu); dev(a,N); }
    }
  }
  pthread_join(t,0); sink=sum(a,N); free(a);
}
NI void c_pt_region_race(void) { /* race */
  double *a=mk(N,1); pthread_t t; ready=passed=0; pthread_create(&t,0,pt_region,a);
#pragma omp parallel num_threads(2)
  { 
#pragma omp single
    {
#pragma omp task shared(a)
  { pthread_mutex_lock(&mu); pthread_mutex_unlock(&mu);
#pragma omp atomic write relaxed
    passed=1;
    sink=work(); a[0]+=1; dev(a,N); }
    }
  }
  pthread_join(t,0); sink=sum(a,N); free(a);
}
NI void c_mutexinout_locks_ok(void) { /* ok */
  double *a=mk(N,1), *b=mk(N,1); omp_lock_t l; omp_init_lock(&l);
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<6;k++){
#pragma omp task depend(mutexinoutset:a[0]) shared(a,b,l)
    { dev(a,N); omp_set_lock(&l); inc(b,N); omp_unset_lock(&l); }
#pragma omp task shared(b,l)
    { omp_set_lock(&l); dev(b,N); omp_unset_lock(&l); }
#pragma omp target map(tofrom:a[0:N]) nowait depend(mutexinoutset:a[0])
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N)+sum(b,N); free(a); free(b); omp_destroy_lock(&l);
}
NI void c_mutexinout_apart_race(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<3;k++){
#pragma omp task depend(mutexinoutset:a[k]) shared(a)
    inc(a,N);
#pragma omp target map(tofrom:a[0:N]) nowait depend(mutexinoutset:a[k])
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=sum(a,N); free(a);
}
NI void c_k_doacross_ok(void) { /* ok */
  double a[64]; for(int i=0;i<64;i++) a[i]=1;
#pragma omp target map(tofrom:a)
#pragma omp parallel for ordered(1) num_threads(8) schedule(static,1)
  for(int k=1;k<60;k++){
#pragma omp ordered depend(sink:k-1)
    a[k]=a[k-1]+1;
#pragma omp ordered depend(source)
  }
  if(a[59]!=60) abort();
}
NI void c_k_doacross_race(void) { /* race */
  double a[64]; for(int i=0;i<64;i++) a[i]=1;
#pragma omp target map(tofrom:a)
#pragma omp parallel for ordered(1) num_threads(8) schedule(static,1)
  for(int k=2;k<60;k++){
#pragma omp ordered depend(sink:k-2)
    a[k]=a[k-1]+1;
#pragma omp ordered depend(source)
  }
  sink=a[3];
}
NI void c_k_doacross_2d_ok(void) { /* ok */
  static double m[20][20]; for(int i=0;i<20;i++) for(int j=0;j<20;j++) m[i][j]=1;
#pragma omp target map(tofrom:m)
#pragma omp parallel num_threads(4)
  {
#pragma omp for ordered(2) schedule(dynamic) nowait
  for(int i=1;i<20;i++) for(int j=1;j<20;j++){
#pragma omp ordered depend(sink:i-1,j) depend(sink:i,j-1)
    m[i][j]=m[i-1][j]+m[i][j-1];
#pragma omp ordered depend(source)
  }
#pragma omp barrier
#pragma omp for ordered(1) schedule(dynamic,2)
  for(int i=18;i>=0;i-=3){
#pragma omp ordered depend(sink:i+3)
    m[i][0]=m[i+1][0]+i;
#pragma omp ordered depend(source)
  }
  }
  if(m[3][3]!=20) abort();
}

NI void c_default_device_changed(void) { /* outside of what is mapped */
  double *a=mk(N,1); omp_set_default_device(0);
#pragma omp target enter data map(to:a[0:N])
  omp_set_default_device(1);
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
  omp_set_default_device(0);
#pragma omp target exit data map(from:a[0:N])
  sink=a[3]; free(a);
}
NI void c_deleted_too_early(void) { /* outside of what is mapped+delete under other users */
  double *a=mk(N,1);
#pragma omp target enter data map(to:a[0:N])
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(delete:a[0:N])
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
  sink=1; free(a);
}
NI void c_release_then_enter(void) { /* race */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait
  set(a,N,2);
#pragma omp target enter data map(to:a[0:N])
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp target exit data map(release:a[0:N])
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_release_then_enter_wait(void) { /* ok */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait
  set(a,N,2);
#pragma omp taskwait
#pragma omp target enter data map(to:a[0:N])
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp target exit data map(release:a[0:N])
  sink=s; free(a);
}
NI void c_release_then_enter_depend(void) { /* ok */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait depend(out:a[0])
  set(a,N,2);
#pragma omp target enter data map(to:a[0:N]) depend(inout:a[0])
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp target exit data map(release:a[0:N])
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_release_then_enter_same(void) { /* ok */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait
#pragma omp target enter data map(to:a[0:N])
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp target exit data map(release:a[0:N])
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_release_then_device_written(void) { /* race */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target
  for(int i=0;i<N;i++) a[i]=5;
#pragma omp target exit data map(release:a[0:N]) nowait
#pragma omp target map(to:a[0:N]) map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_release_then_alloc(void) { /* race */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(alloc:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait
#pragma omp target map(to:a[0:N]) map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_release_then_update(void) { /* ok */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait
  set(a,N,2);
#pragma omp target enter data map(alloc:a[0:N])
#pragma omp target update to(a[0:N])
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp target exit data map(release:a[0:N])
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_release_then_always(void) { /* ok */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait
  set(a,N,2);
#pragma omp target enter data map(always,to:a[0:N])
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp target exit data map(release:a[0:N])
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_from_then_enter(void) { /* ok */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target
  for(int i=0;i<N;i++) a[i]=5;
#pragma omp target exit data map(from:a[0:N]) nowait
#pragma omp target enter data map(to:a[0:N])
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp target exit data map(release:a[0:N])
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_from_then_enter_written(void) { /* race */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(from:a[0:N]) nowait
  set(a,N,2);
#pragma omp target enter data map(to:a[0:N])
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp target exit data map(release:a[0:N])
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_release_then_tofrom(void) { /* race */
  double *a=mk(N,1);
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp taskwait
  sink=sum(a,N); free(a);
}
NI void c_release_then_threads(void) { /* race */
  double *a=mk(N,1);
#pragma omp target enter data map(to:a[0:N])
  set(a,N,2);
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target exit data map(release:a[0:N])
    } else {
      double s=0;
#pragma omp target map(to:a[0:N]) map(tofrom:s)
      for(int i=0;i<N;i++) s+=a[i];
      sink=s;
    }
  }
  free(a);
}
NI void c_release_then_nomap(void) { /* race */
  double *a=mk(N,1), s=0;
#pragma omp target enter data map(to:a[0:N])
#pragma omp target exit data map(release:a[0:N]) nowait
#pragma omp target map(tofrom:s)
  for(int i=0;i<N;i++) s+=a[i];
#pragma omp taskwait
  sink=s; free(a);
}
NI void c_two_regions_halves(void) { /* race */
  double *a=mk(N,1), s=0;
#pragma omp target map(to:a[0:N]) map(tofrom:s) nowait
  for(int i=0;i<N/2;i++) s+=a[i];
#pragma omp target map(tofrom:a[0:N]) nowait
  for(int i=N/2;i<N;i++) a[i]+=1;
#pragma omp taskwait
  sink=s+a[N-1]; free(a);
}
NI void c_taskwait_depend_of_worker(void) { /* ok */
  double *a=mk(N,1), *b=mk(N,1), *c=mk(N,1);
  for(int k=0;k<3;k++){ /* the second thread has waited at the end of a region before */
#pragma omp parallel num_threads(2)
    if(omp_get_thread_num()==1){
#pragma omp target map(tofrom:a[0:N]) nowait depend(out:a[0])
      for(int i=0;i<N;i++) a[i]+=1;
#pragma omp taskwait depend(in:a[0])
      sink=sum(a,N);
#pragma omp task shared(b) /* it runs while a thread waits at the end of the region */
      {
#pragma omp task depend(out:b[0]) shared(b)
        inc(b,N);
#pragma omp task if(0) depend(in:b[0]) shared(b)
        sink=sum(b,N);
      }
    }
  }
  int waits=0;
#pragma omp parallel num_threads(2)
  {
    int w=0;
    if(omp_get_thread_num()==1){
#pragma omp task depend(out:c[0]) shared(c,waits)
      {
#pragma omp task depend(out:c[1]) shared(c)
        inc(c,N);
#pragma omp taskwait depend(in:c[1])
        c[0]+=1;
#pragma omp atomic write release
        waits=1;
      }
#pragma omp taskwait depend(in:c[0])
      sink=sum(c,N);
    } else while(!w){ /* so that the other thread runs the task while it waits for it */
      usleep(100);
#pragma omp atomic read acquire
      w=waits;
    }
  }
  free(a); free(b); free(c);
}
NI void c_freed_beside_task(void) { /* race */
  double *a=mk(N,1); double s=0;
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp task shared(s)
    s=sum(a,N);
    free(a);
  }
  sink=s;
}
NI void c_freed_behind_task(void) { /* ok */
  double *a=mk(N,1); double s=0;
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp task shared(s)
    s=sum(a,N);
#pragma omp taskwait
    free(a);
  }
  sink=s;
}
NI void c_freed_beside_thread(void) { /* race */
  double *a=mk(N,1); double s=0;
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==1) s=sum(a,N);
    else free(a);
  }
  sink=s;
}
NI void c_freed_unnamed(void) { /* race */
  double *a=mk(N,1); double s=0;
#pragma omp target map(tofrom:s)
  s+=1;
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==1) s=sum(a,N);
    else free(a);
  }
  sink=s;
}
NI void c_update_beside(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target data map(to:a[0:N])
#pragma omp target
      for(int i=0;i<N;i++) a[i]+=1;
    } else {
#pragma omp target data map(alloc:a[0:N])
      {
#pragma omp target update to(a[0:N])
      }
    }
  }
  free(a);
}
NI void c_update_from_beside(void) { /* race */
  double *a=mk(N,1);
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target map(to:a[0:N])
      for(int i=0;i<N;i++) a[i]+=1;
    } else {
#pragma omp target data map(to:a[0:N])
      {
#pragma omp target update from(a[0:N])
      }
    }
  }
  free(a);
}
NI void c_update_halves(void) { /* ok */
  double *a=mk(N,1);
#pragma omp parallel num_threads(2)
  {
    int lo=omp_get_thread_num()*N/2;
#pragma omp target data map(alloc:a[0:N])
    {
#pragma omp target update to(a[lo:N/2])
#pragma omp target
      for(int i=lo;i<lo+N/2;i++) a[i]+=1;
#pragma omp target update from(a[lo:N/2])
    }
  }
  sink=a[3]; free(a);
}
NI void c_update_unheld(void) { /* race */
  double *a=mk(N,1);
#pragma omp target enter data map(to:a[0:N])
#pragma omp parallel num_threads(2)
  {
    if(omp_get_thread_num()==0){
#pragma omp target update to(a[0:N])
    } else {
#pragma omp target exit data map(release:a[0:N])
    }
  }
  sink=a[3]; free(a);
}
NI void c_part_then_whole(void) { /* race */
  double a[N]; set(a,N,1);
#pragma omp parallel num_threads(2)
  if(omp_get_thread_num()==0){
#pragma omp target enter data map(to:a[N/2:N/2])
#pragma omp target exit data map(release:a[N/2:N/2])
#pragma omp target map(tofrom:a) nowait
    for(int i=0;i<N;i++) a[i]+=1;
    set(a,N/2,8); /* of what no map has named before */
  }
  sink=a[3];
}
NI void c_part_then_whole_ok(void) { /* ok */
  double a[N]; set(a,N,1);
#pragma omp parallel num_threads(2)
  if(omp_get_thread_num()==0){
#pragma omp target enter data map(to:a[N/2:N/2])
#pragma omp target
    for(int i=N/2;i<N;i++) sink=a[i];
#pragma omp target exit data map(release:a[N/2:N/2])
#pragma omp target map(tofrom:a) nowait
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp taskwait
    set(a,N/2,8);
  }
  sink=a[3];
}
NI void c_parts_then_whole(void) { /* race */
  double a[N]; set(a,N,1);
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp target enter data map(to:a[0:N/4])
#pragma omp target enter data map(to:a[N-N/4:N/4])
#pragma omp target exit data map(release:a[0:N/4],a[N-N/4:N/4])
#pragma omp task shared(a)
    set(a,N,8);
#pragma omp target map(tofrom:a)
    for(int i=N/4;i<N/2;i++) a[i]+=1;
  }
  sink=a[3];
}
NI void c_neighbours_mapped(void) { /* race */
  struct { double a[N], b[N]; } v; set(v.a,2*N,1);
  double *a=v.a, *b=v.b; /* both written at a stretch, and the first one mapped behind the second one */
#pragma omp parallel num_threads(2)
  if(omp_get_thread_num()==0){
#pragma omp target map(tofrom:b[0:N]) nowait
    for(int i=0;i<N;i++) b[i]+=1;
    set(a,2*N,3);
#pragma omp taskwait
#pragma omp target map(tofrom:a[0:N])
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=a[3]+b[3];
}
#define CASE(name) {#name, c_##name}
static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
    CASE(mutexinout),
    CASE(stack_race_early),
    CASE(tasks_race_early),
    CASE(small_race_early),
    CASE(frames_apart_ok),
    CASE(inoutset_race),
    CASE(inoutset_ok),
    CASE(taskgroup_ok),
    CASE(taskwait_grandchild),
    CASE(implicit_barrier),
    CASE(master_nobarrier),
    CASE(single_ok),
    CASE(taskloop_ok),
    CASE(taskloop_nogroup),
    CASE(detach_ok),
    CASE(detach_race),
    CASE(sections_race),
    CASE(sections_ok),
    CASE(critical_ok),
    CASE(two_criticals),
    CASE(lock_ok),
    CASE(nestlock_ok),
    CASE(testlock_ok),
    CASE(atomic_flag_ok),
    CASE(ordered_ok),
    CASE(if0_ok),
    CASE(if0_other),
    CASE(depobj_ok),
    CASE(iterator_ok),
    CASE(iterator_short),
    CASE(omp_all_memory),
    CASE(firstprivate_ptr),
    CASE(update_nowait_race),
    CASE(update_from_nowait_read),
    CASE(enter_nowait_race),
    CASE(exit_nowait_race),
    CASE(enter_depend_ok),
    CASE(enter_then_target_nodepend),
    CASE(two_targets_race),
    CASE(two_readers_ok),
    CASE(data_ends_early),
    CASE(struct_member),
    CASE(struct_other_member),
    CASE(priority_final),
    CASE(nested_parallel),
    CASE(threadprivate_ok),
    CASE(reduction_task),
    CASE(cancel_ok),
    CASE(memcpy_rect_ok),
    CASE(memcpy_rect_half),
    CASE(memcpy_rect_async_race),
    CASE(memcpy_rect_hostrace),
    CASE(memcpy_rect_hostok),
    CASE(memcpy_rect_back_uninit),
    CASE(memcpy_async_ok),
    CASE(memcpy_async_nodep),
    CASE(memset_ok),
    CASE(memset_async_race),
    CASE(memset_uninit),
    CASE(associate_ok),
    CASE(associate_stale),
    CASE(associate_uninit),
    CASE(associate_freed),
    CASE(udp_ok),
    CASE(uda_ok),
    CASE(hasdevaddr_ok),
    CASE(udp_outside),
    CASE(udp_stale),
    CASE(strided_update_ok),
    CASE(strided_update_wrong),
    CASE(section_offset_ok),
    CASE(section_offset_beyond),
    CASE(section_2d_ok),
    CASE(teams_on_host_ok),
    CASE(teams_on_host_stale),
    CASE(section_in_bytes),
    CASE(section_2d_stack_beyond),
    CASE(struct_ptr_member_ok),
    CASE(struct_ptr_member_stale),
    CASE(struct_unmapped_member),
    CASE(struct_array_members),
    CASE(struct_array_members_forgot),
    CASE(dt_ok),
    CASE(dt_stale_kernel),
    CASE(dt_map_is_no_copy),
    CASE(dt_map_always),
    CASE(link_ok),
    CASE(link_stale),
    CASE(implicit_scalar_lost),
    CASE(implicit_scalar_count),
    CASE(defaultmap_ok),
    CASE(defaultmap_none_struct),
    CASE(private_array),
    CASE(reduction_map),
    CASE(array_reduction),
    CASE(device_race_hist),
    CASE(simd_collapse),
    CASE(present_ok),
    CASE(extension),
    CASE(always_from),
    CASE(alloc_then_update),
    CASE(calloc_from_ok),
    CASE(memcpy_mapped_ptr),
    CASE(host_fallback_mapped),
    CASE(memmove_host),
    CASE(small_heap_enter),
    CASE(scalar_nowait),
    CASE(scalar_nowait_ok),
    CASE(vla_nowait),
    CASE(struct_stack_nowait),
    CASE(param_ptr_nowait),
    CASE(seqcst_handoff),
    CASE(relaxed_handoff),
    CASE(flush_handoff),
    CASE(capture_ticket),
    CASE(counter_race),
    CASE(last_counter_ok),
    CASE(longjmp_ok),
    CASE(loop_scalar_lost),
    CASE(scalar_max_lost),
    CASE(scalar_lastprivate_ok),
    CASE(scalar_private_ok),
    CASE(global_scalar_lost),
    CASE(taskloop_target),
    CASE(taskloop_target_overlap),
    CASE(parallel_reduction_target),
    CASE(lock_wrong),
    CASE(doacross_ok),
    CASE(target_in_task_firstprivate),
    CASE(target_depend_sync),
    CASE(two_devices_data),
    CASE(delete_then_enter),
    CASE(close_ompx),
    CASE(interchange_ptrs),
    CASE(interchange_forgot),
    CASE(atomic_kernel_ok),
    CASE(kernel_nobarrier),
    CASE(kernel_barrier),
    CASE(kernel_single_nowait),
    CASE(doacross_race),
    CASE(two_d),
    CASE(two_d_short),
    CASE(strided_off),
    CASE(strided_off_short),
    CASE(nested_struct),
    CASE(mapper_leaves),
    CASE(mapper_entered),
    CASE(mapper_not_ended),
    CASE(mapper_frames),
    CASE(mapper_frame_plain),
    CASE(mapper_heap_again),
    CASE(mapper_heap_parts),
    CASE(mapper_static_again),
    CASE(mapper_held_again),
    CASE(mapper_two),
    CASE(mapper_data),
    CASE(mapper_enter_exit),
    CASE(mapper_nowait),
    CASE(mapper_freed_early),
    CASE(mapper_stale),
    CASE(mapper_race),
    CASE(stack_regions_nowait),
    CASE(stack_regions),
    CASE(stack_scalar_regions),
    CASE(stack_tasks),
    CASE(stack_two_nowait),
    CASE(stack_regions_ordered),
    CASE(stack_regions_depend),
    CASE(stack_regions_read),
    CASE(stack_tasks_own),
    CASE(stack_tasks_body),
    CASE(stack_threads_own),
    CASE(stack_firstprivate_task),
    CASE(stack_private_for),
    CASE(stack_vla_own),
    CASE(stack_task_stale),
    CASE(stack_task_race),
    CASE(stack_task_mapped),
    CASE(stack_task_memcpy),
    CASE(stack_task_shared),
    CASE(kernel_copyprivate),
    CASE(kernel_cancel),
    CASE(host_address_of_mapped),
    CASE(host_address_nowait),
    CASE(barrier_before_two_buffers),
    CASE(barrier_before_one_buffer),
    CASE(host_reads_device_copy),
    CASE(host_beside_device_copy),
    CASE(host_writes_device_memory),
    CASE(memory_of_the_initial_device),
    CASE(address_in_a_struct),
    CASE(memcpy_swapped),
    CASE(memcpy_swapped_before_a_map),
    CASE(memcpy_of_scopes),
    CASE(memcpy_too_long),
    CASE(freed_before_it_is_mapped),
    CASE(depend_on_the_pointer),
    CASE(detach_other_thread_ok),
    CASE(detach_writes_before_ok),
    CASE(detach_writes_behind),
    CASE(copyprivate_ok),
    CASE(sync_lock_ok),
    CASE(nested_frames_ok),
    CASE(nested_frames_race),
    CASE(pthread_mutex_ok),
    CASE(pthread_cond_ok),
    CASE(mutex_in_parallel_ok),
    CASE(mutex_in_parallel_race),
    CASE(rwlock_ok),
    CASE(rwlock_race),
    CASE(cond_in_parallel_ok),
    CASE(pbarrier_in_parallel_ok),
    CASE(poll_critical_ok),
    CASE(mutex_in_tasks_ok),
    CASE(recursive_mutex_ok),
    CASE(fetch_or_lock_ok),
    CASE(semaphore_ok),
    CASE(k_nest_ok),
    CASE(k_nest_outside),
    CASE(k_taskloop_ok),
    CASE(turns_outside_lock_ok),
    CASE(turns_forgotten),
    CASE(taskloop_strict_ok),
    CASE(doacross_target_ok),
    CASE(nested_in_task_critical),
    CASE(nested_spin_task),
    CASE(tasks_spin_ok),
    CASE(tasks_cond_ok),
    CASE(tasks_sem_ok),
    CASE(tasks_barrier_ok),
    CASE(pt_main_race_host),
    CASE(pt_main_ok),
    CASE(pt_pipe_ok),
    CASE(pt_region_cond_ok),
    CASE(pt_region_race),
    CASE(mutexinout_locks_ok),
    CASE(mutexinout_apart_race),
    CASE(k_doacross_ok),
    CASE(k_doacross_race),
    CASE(k_doacross_2d_ok),
    CASE(default_device_changed),
    CASE(deleted_too_early),
    CASE(release_then_enter),
    CASE(release_then_enter_wait),
    CASE(release_then_enter_depend),
    CASE(release_then_enter_same),
    CASE(release_then_device_written),
    CASE(release_then_alloc),
    CASE(release_then_update),
    CASE(release_then_always),
    CASE(from_then_enter),
    CASE(from_then_enter_written),
    CASE(release_then_tofrom),
    CASE(release_then_threads),
    CASE(release_then_nomap),
    CASE(two_regions_halves),
    CASE(taskwait_depend_of_worker),
    CASE(freed_beside_task),
    CASE(freed_behind_task),
    CASE(freed_beside_thread),
    CASE(freed_unnamed),
    CASE(update_beside),
    CASE(update_from_beside),
    CASE(update_halves),
    CASE(update_unheld),
    CASE(part_then_whole),
    CASE(part_then_whole_ok),
    CASE(parts_then_whole),
    CASE(neighbours_mapped),
};

int main(int count, char **arguments) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (count > 1 && !strcmp(cases[i].name, arguments[1]))
      cases[i].run();
}
