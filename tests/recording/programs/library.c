/* What functions of the C library read and write in arrays that are mapped; behind each name stands what a check has to say, as in situations.c. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define N 600
#define NI __attribute__((noinline)) static
static volatile double sink;
static volatile int isink;
NI double *mk(int n, double v){ double *a=malloc(n*8); for(int i=0;i<n;i++)a[i]=v; return a; }
/* files of N doubles */
NI FILE *filed(void){ FILE*f=tmpfile(); double x[N]; for(int i=0;i<N;i++)x[i]=i; fwrite(x,8,N,f); rewind(f); return f; }
NI int fd_of(void){ int p=memfd_create("x",0); double x[N]; for(int i=0;i<N;i++)x[i]=i; if(write(p,x,sizeof x)<0) abort(); lseek(p,0,SEEK_SET); return p; }
NI void c_fread_ok(void) { /* ok */
  double *a=malloc(N*8); FILE*f=filed();
#pragma omp target enter data map(alloc:a[0:N])
  if(fread(a,8,N,f)!=N) abort();
#pragma omp target update to(a[0:N])
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target exit data map(from:a[0:N])
  rewind(f); if(fwrite(a,8,N,f)!=N) abort();
  fclose(f); free(a);
}
NI void c_fread_stale(void) { /* stale data */
  double *a=mk(N,0); FILE*f=filed();
#pragma omp target enter data map(to:a[0:N])
  if(fread(a,8,N,f)!=N) abort();
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target exit data map(from:a[0:N])
  sink=a[4]; fclose(f); free(a);
}
NI void c_fread_half_unset(void) { /* uninitialised data */
  double *a=malloc(N*8); FILE*f=filed();
  if(fread(a,8,N/2,f)!=N/2) abort();
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
  sink=a[4]; fclose(f); free(a);
}
NI void c_fwrite_stale(void) { /* stale data */
  double *a=mk(N,0); FILE*f=tmpfile();
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target
    for(int i=0;i<N;i++) a[i]+=1;
    fwrite(a,8,N,f);
  }
  fclose(f); free(a);
}
NI void c_read_stale(void) { /* stale data */
  double *a=mk(N,0); int f=fd_of();
#pragma omp target enter data map(to:a[0:N])
  if(read(f,a,N*8)!=N*8) abort();
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target exit data map(from:a[0:N])
  sink=a[4]; close(f); free(a);
}
NI void c_pwrite_race(void) { /* race */
  double *a=mk(N,0); int f=fd_of();
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp target map(tofrom:a[0:N]) nowait
    for(int i=0;i<N;i++) a[i]+=1;
    if(pwrite(f,a,N*8,0)<0) abort();
#pragma omp taskwait
  }
  sink=a[4]; close(f); free(a);
}
NI void c_sprintf_stale(void) { /* stale data */
  char *s=malloc(2000); memset(s,0,2000);
#pragma omp target enter data map(to:s[0:2000])
  snprintf(s,2000,"%d and %d",isink,4);
  int n=0;
#pragma omp target map(tofrom:n)
  for(int i=0;s[i];i++) n++;
#pragma omp target exit data map(release:s[0:2000])
  isink=n; free(s);
}
NI void c_strcpy_stale(void) { /* stale data */
  char *s=malloc(2000); memset(s,0,2000); char t[40]; snprintf(t,40,"number %d",isink);
#pragma omp target enter data map(to:s[0:2000])
  strcpy(s,t); strcat(s,t);
  int n=0;
#pragma omp target map(tofrom:n)
  for(int i=0;s[i];i++) n++;
#pragma omp target exit data map(release:s[0:2000])
  isink=n; free(s);
}
NI void c_strlen_stale(void) { /* stale data */
  char *s=malloc(2000); memset(s,0,2000); strcpy(s,"hello");
#pragma omp target data map(tofrom:s[0:2000])
  {
#pragma omp target
    for(int i=0;i<9;i++) s[i]='a'+i;
    isink=strlen(s);
  }
  puts(s); free(s);
}
NI int cmp(const void*a,const void*b){ double x=*(double*)a,y=*(double*)b; return (x>y)-(x<y); }
NI void c_qsort_stale(void) { /* stale data */
  double *a=mk(N,0); for(int i=0;i<N;i++)a[i]=i*37%N;
#pragma omp target enter data map(to:a[0:N])
  qsort(a,N,8,cmp);
  double m=0;
#pragma omp target map(tofrom:m)
  for(int i=1;i<N;i++) m+=a[i]>=a[i-1];
#pragma omp target exit data map(release:a[0:N])
  sink=m; free(a);
}
NI void c_qsort_ok(void) { /* ok */
  double *a=mk(N,0); for(int i=0;i<N;i++)a[i]=i*37%N;
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target
    for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target update from(a[0:N])
    qsort(a,N,8,cmp);
#pragma omp target update to(a[0:N])
#pragma omp target
    for(int i=0;i<N;i++) a[i]+=i;
  }
  sink=a[5]; free(a);
}
NI void c_memcmp_stale(void) { /* stale data */
  double *a=mk(N,0),*b=mk(N,0);
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target
    for(int i=0;i<N;i++) a[i]+=1;
    isink=memcmp(a,b,N*8);
  }
  sink=a[5]; free(a); free(b);
}
NI void c_realloc_tail_unset(void) { /* uninitialised data */
  double *a=mk(N,1);
  a=realloc(a,4*N*8);
#pragma omp target map(tofrom:a[0:4*N])
  for(int i=0;i<4*N;i++) a[i]+=1;
  sink=a[4]; free(a);
}
NI void c_realloc_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target enter data map(to:a[0:N])
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target exit data map(from:a[0:N])
  a=realloc(a,4*N*8); for(int i=N;i<4*N;i++) a[i]=1;
#pragma omp target map(tofrom:a[0:4*N])
  for(int i=0;i<4*N;i++) a[i]+=1;
  sink=a[4]; free(a);
}
NI void c_mmap_ok(void) { /* ok */
  int f=fd_of(); double *a=mmap(0,N*8,PROT_READ|PROT_WRITE,MAP_SHARED,f,0);
#pragma omp target map(tofrom:a[0:N])
  for(int i=0;i<N;i++) a[i]+=1;
  sink=a[5]; munmap(a,N*8); close(f);
}
NI void c_fscanf_stale(void) { /* stale data */
  FILE*f=tmpfile(); for(int i=0;i<N;i++) fprintf(f,"%d\n",i); rewind(f); double *a=mk(N,0);
#pragma omp target data map(tofrom:a[0:N])
  {
    for(int i=0;i<N;i++) if(fscanf(f,"%lf",&a[i])!=1) abort();
#pragma omp target
    for(int i=0;i<N;i++) a[i]+=1;
  }
  sink=a[4]; free(a); fclose(f);
}
NI void c_printf_stale(void) { /* stale data */
  char *s=malloc(1200); memset(s,'x',1199); s[1199]=0;
#pragma omp target data map(tofrom:s[0:1200])
  {
#pragma omp target
    for(int i=0;i<9;i++) s[i]='a'+i;
    printf("%.5s\n",s);
  }
  puts(s); free(s);
}
NI void c_fread_nothing_ok(void) { /* ok */
  double *a=mk(N,1); FILE*f=tmpfile();
#pragma omp target enter data map(to:a[0:N])
  if(fread(a,8,N,f)!=0) abort(); /* the file is empty, so that a is as it was */
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target exit data map(from:a[0:N])
  sink=a[4]; fclose(f); free(a);
}
NI void c_scanf_ends_ok(void) { /* ok */
  double *a=mk(N,1);
#pragma omp target enter data map(to:a[0:N])
  double first=0;
  isink=sscanf("12","%lf %lf",&first,&a[1]); /* the second one does not come */
#pragma omp target
  for(int i=0;i<N;i++) a[i]+=1;
#pragma omp target exit data map(from:a[0:N])
  sink=a[4]; free(a);
}
static const struct {
  const char *name;
  void (*run)(void);
} cases[] = {
#define CASE(name) {#name, c_##name}
    CASE(fread_ok),
    CASE(fread_stale),
    CASE(fread_half_unset),
    CASE(fwrite_stale),
    CASE(read_stale),
    CASE(pwrite_race),
    CASE(sprintf_stale),
    CASE(strcpy_stale),
    CASE(strlen_stale),
    CASE(qsort_stale),
    CASE(qsort_ok),
    CASE(memcmp_stale),
    CASE(realloc_tail_unset),
    CASE(realloc_ok),
    CASE(mmap_ok),
    CASE(fscanf_stale),
    CASE(printf_stale),
    CASE(fread_nothing_ok),
    CASE(scanf_ends_ok),
};

int main(int count, char **arguments) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (count > 1 && !strcmp(cases[i].name, arguments[1]))
      cases[i].run();
}
