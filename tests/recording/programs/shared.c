/* Variables that the threads of a team share in a kernel; behind each name stands what a check has to say, as in situations.c. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define N 600
#define NI __attribute__((noinline)) static
static volatile double sink;
NI double *mk(int n, double v){ double *a=malloc(n*8); for(int i=0;i<n;i++)a[i]=v; return a; }
NI void c_team_sum_ok(void) { /* ok */
  double *a=mk(N,1),out[6]={0};
#pragma omp target teams distribute map(to:a[0:N]) map(from:out)
  for(int b=0;b<6;b++) {
    double s=0;
#pragma omp parallel for reduction(+:s)
    for(int i=0;i<100;i++) s+=a[b*100+i];
    out[b]=s;
  }
  sink=out[3]; free(a);
}
NI void c_team_sum_race(void) { /* race */
  double *a=mk(N,1),out[6]={0};
#pragma omp target teams distribute map(to:a[0:N]) map(from:out)
  for(int b=0;b<6;b++) {
    double s=0;
#pragma omp parallel for
    for(int i=0;i<100;i++) s+=a[b*100+i];
    out[b]=s;
  }
  sink=out[3]; free(a);
}
NI void c_team_sum_atomic_ok(void) { /* ok */
  double *a=mk(N,1),out[6]={0};
#pragma omp target teams distribute map(to:a[0:N]) map(from:out)
  for(int b=0;b<6;b++) {
    double s=0;
#pragma omp parallel for
    for(int i=0;i<100;i++) {
#pragma omp atomic
      s+=a[b*100+i];
    }
    out[b]=s;
  }
  sink=out[3]; free(a);
}
NI void c_team_tile_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target teams num_teams(6) thread_limit(32) map(tofrom:a[0:N])
  {
    double tile[100];
    int b=omp_get_team_num();
#pragma omp parallel num_threads(32)
    {
#pragma omp for
      for(int i=0;i<100;i++) tile[i]=a[b*100+i];
#pragma omp for
      for(int i=0;i<100;i++) a[b*100+i]=tile[99-i];
    }
  }
  sink=a[5]; free(a);
}
NI void c_team_tile_two_regions_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target teams num_teams(6) thread_limit(32) map(tofrom:a[0:N])
  {
    int b=omp_get_team_num();
    { double tile[100];
#pragma omp parallel for num_threads(32)
    for(int i=0;i<100;i++) tile[i]=a[b*100+i];
#pragma omp parallel for num_threads(16)
    for(int i=0;i<100;i++) a[b*100+i]=tile[99-i]; }
    { double other[100];
#pragma omp parallel for num_threads(8)
    for(int i=0;i<100;i++) other[i]=a[b*100+i];
#pragma omp parallel for num_threads(32)
    for(int i=0;i<100;i++) a[b*100+i]=other[99-i]; }
  }
  sink=a[5]; free(a);
}
NI void c_team_tile_nowait(void) { /* race */
  double *a=mk(N,1);
#pragma omp target teams num_teams(6) thread_limit(32) map(tofrom:a[0:N])
  {
    double tile[100];
    int b=omp_get_team_num();
#pragma omp parallel num_threads(32)
    {
#pragma omp for nowait
      for(int i=0;i<100;i++) tile[i]=a[b*100+i]*2;
#pragma omp for
      for(int i=0;i<100;i++) a[b*100+i]+=tile[99-i];
    }
  }
  sink=a[5]; free(a);
}
static inline void add_next(double *in,int i) { in[i]+=in[(i+1)%32]; }
NI void c_team_tile_in_place(void) { /* race */
  double *a=mk(N,1);
#pragma omp target teams num_teams(6) thread_limit(32) map(tofrom:a[0:N])
  {
    double tile[100];
#pragma omp parallel num_threads(32)
    {
      double *half=tile;
      int t=omp_get_thread_num();
      half[t]=t;
#pragma omp barrier
      add_next(half,t);
#pragma omp barrier
      a[omp_get_team_num()*100+t]=tile[t];
    }
  }
  sink=a[5]; free(a);
}
NI void c_team_many_races(void) { /* race */
  double *a=mk(N,1);
#pragma omp target teams num_teams(2) thread_limit(32) map(tofrom:a[0:N])
  {
    double tile[40]={0};
#pragma omp parallel num_threads(32)
    {
      int t=omp_get_thread_num();
#define FOUR(k) tile[k]+=t; tile[k+1]+=t; tile[k+2]+=t; tile[k+3]+=t;
      FOUR(0) FOUR(4) FOUR(8) FOUR(12) FOUR(16) FOUR(20) FOUR(24) FOUR(28) FOUR(32) FOUR(36)
      a[t/2]+=tile[t];
    }
  }
  sink=a[5]; free(a);
}
NI void c_team_critical_ok(void) { /* ok */
  double *a=mk(N,1),out[6]={0};
#pragma omp target teams num_teams(6) map(to:a[0:N]) map(from:out)
  {
    double best=-1; int b=omp_get_team_num();
#pragma omp parallel for num_threads(16)
    for(int i=0;i<100;i++) {
#pragma omp critical
      if(a[b*100+i]>best) best=a[b*100+i];
    }
    out[b]=best;
  }
  sink=out[3]; free(a);
}
NI void c_team_critical_half(void) { /* race */
  double *a=mk(N,1),out[6]={0};
#pragma omp target teams num_teams(6) map(to:a[0:N]) map(from:out)
  {
    double best=-1; int b=omp_get_team_num();
#pragma omp parallel for num_threads(16)
    for(int i=0;i<100;i++) {
      if(a[b*100+i]>best) {
#pragma omp critical
        best=a[b*100+i];
      }
    }
    out[b]=best;
  }
  sink=out[3]; free(a);
}
NI void c_region_private_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N])
  {
    double t; int k=0;
#pragma omp parallel for num_threads(16) firstprivate(k) lastprivate(t)
    for(int i=0;i<N;i++) { t=a[i]; k++; a[i]=t+k*0; }
    a[0]+=t;
  }
  sink=a[3]; free(a);
}
NI void c_region_shared_race(void) { /* race|ok */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N])
  {
    double t; /* an optimizer leaves it out */
#pragma omp parallel for num_threads(16)
    for(int i=0;i<N;i++) { t=a[i]; a[i]=t*2; }
  }
  sink=a[3]; free(a);
}
NI void c_region_single_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N])
  {
    double t=0; int n=0;
#pragma omp parallel num_threads(16)
    {
#pragma omp single
      t=a[7];
#pragma omp for
      for(int i=0;i<N;i++) a[i]+=t;
#pragma omp masked
      n=omp_get_num_threads();
#pragma omp barrier
      a[omp_get_thread_num()]=n;
    }
  }
  sink=a[3]; free(a);
}
NI void c_region_single_nowait(void) { /* race */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N])
  {
    double t=0;
#pragma omp parallel num_threads(16)
    {
#pragma omp single nowait
      t=3;
#pragma omp for
      for(int i=0;i<N;i++) a[i]+=t;
    }
  }
  sink=a[3]; free(a);
}
#pragma omp begin declare target
NI double part(double*p,int n){ double s=0; for(int i=0;i<n;i++) s+=p[i]; return s; }
#pragma omp end declare target
NI void c_private_addresses_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target teams distribute parallel for map(tofrom:a[0:N])
  for(int i=0;i<N;i++) { double t[4]={a[i],1,2,3}; t[i&3]+=1; a[i]=part(t,4); }
#pragma omp target map(tofrom:a[0:N])
#pragma omp parallel for num_threads(8)
  for(int i=0;i<N;i++) { double t[4]={a[i],1,2,3}; t[i&3]+=1; a[i]=part(t,4); }
  sink=a[3]; free(a);
}
NI void c_tasks_in_team_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N])
  { double x=0,y=0;
#pragma omp parallel num_threads(4)
#pragma omp single
    {
#pragma omp task shared(x)
      x=a[1];
#pragma omp task shared(y)
      y=a[2];
#pragma omp taskwait
      a[0]=x+y;
    } }
  sink=a[3]; free(a);
}
NI void c_sections_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N])
  { double x=0,y=0;
#pragma omp parallel sections num_threads(4)
    {
#pragma omp section
      x=a[1];
#pragma omp section
      y=a[2];
    }
    a[0]=x+y; }
  sink=a[3]; free(a);
}
NI void c_sections_same(void) { /* race */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N])
  { double x=0;
#pragma omp parallel sections num_threads(4)
    {
#pragma omp section
      x+=a[1];
#pragma omp section
      x+=a[2];
    }
    a[0]=x; }
  sink=a[3]; free(a);
}
NI void c_arrays_reduced_ok(void) { /* ok */
  int *k=malloc(4*N); for(int i=0;i<N;i++)k[i]=i%8; int out[8]={0};
#pragma omp target map(to:k[0:N]) map(from:out)
  { int h[8]={0};
#pragma omp parallel for num_threads(8) reduction(+:h)
    for(int i=0;i<N;i++) h[k[i]]++;
    for(int j=0;j<8;j++) out[j]=h[j]; }
  sink=out[3]; free(k);
}
NI void c_histogram_race(void) { /* race */
  int *k=malloc(4*N); for(int i=0;i<N;i++)k[i]=i%8; int out[8]={0};
#pragma omp target map(to:k[0:N]) map(from:out)
  { int h[8]={0};
#pragma omp parallel for num_threads(8)
    for(int i=0;i<N;i++) h[k[i]]++;
    for(int j=0;j<8;j++) out[j]=h[j]; }
  sink=out[3]; free(k);
}
NI void c_copyprivate_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target map(tofrom:a[0:N])
  {
#pragma omp parallel num_threads(8)
    { double t;
#pragma omp single copyprivate(t)
      t=a[5];
      a[omp_get_thread_num()]+=t; } }
  sink=a[3]; free(a);
}
NI void c_dynamic_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target teams num_teams(3) map(tofrom:a[0:N])
  { int n=0, b=omp_get_team_num();
#pragma omp parallel num_threads(8)
    {
#pragma omp for schedule(dynamic,3) reduction(+:n)
    for(int i=0;i<200;i++) { a[b*200+i]+=1; n++; }
#pragma omp for ordered
    for(int i=0;i<20;i++) {
#pragma omp ordered
      n+=i; }
    }
    a[b*200]=n; }
  sink=a[3]; free(a);
}
#define CASE(name) {#name, c_##name}
static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
    CASE(team_sum_ok),
    CASE(team_sum_race),
    CASE(team_sum_atomic_ok),
    CASE(team_tile_ok),
    CASE(team_tile_two_regions_ok),
    CASE(team_tile_nowait),
    CASE(team_tile_in_place),
    CASE(team_many_races),
    CASE(team_critical_ok),
    CASE(team_critical_half),
    CASE(region_private_ok),
    CASE(region_shared_race),
    CASE(region_single_ok),
    CASE(region_single_nowait),
    CASE(private_addresses_ok),
    CASE(tasks_in_team_ok),
    CASE(sections_ok),
    CASE(sections_same),
    CASE(arrays_reduced_ok),
    CASE(histogram_race),
    CASE(copyprivate_ok),
    CASE(dynamic_ok),
};

int main(int count, char **arguments) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (count > 1 && !strcmp(cases[i].name, arguments[1]))
      cases[i].run();
}
