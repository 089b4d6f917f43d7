// Situations of C++ programs that offload; behind the name of each stands what a check has to say of it, as in situations.c.
#include <omp.h>
#include <omp.h>
#include <array>
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <semaphore>
#include <shared_mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>
#pragma clang diagnostic ignored "-Wopenmp-mapping" // a vector is mapped as such, which is one of the mistakes
constexpr int N = 600;
#define NI __attribute__((noinline)) static
static volatile double sink;
NI double sum(const double*a,int n){ double s=0; for(int i=0;i<n;i++)s+=a[i]; return s; }
NI void c_vector_ok(void) { /* ok */
  std::vector<double> v(N,1.0); double *p=v.data();
#pragma omp target teams distribute parallel for map(tofrom:p[0:N])
  for(int i=0;i<N;i++) p[i]+=1;
  sink=v[7];
}
NI void c_vector_resized(void) { /* missing unmap+surplus unmap */
  std::vector<double> v(N,1.0);
double *o=v.data();
#pragma omp target enter data map(to:o[0:N])
  v.resize(8*N,3.0);
  double *p=v.data();
#pragma omp target exit data map(from:p[0:N])
  sink=v[7];
}
NI void c_vector_object(void) { /* outside of what is mapped|outside of what is mapped+fatal error */
  // the vector itself is mapped, not what it points to
  std::vector<double> v(N,1.0);
#pragma omp target map(tofrom:v)
  for(int i=0;i<N;i++) v[i]+=1;
  sink=v[7];
}
NI void c_lambda_value(void) { /* ok */
  double *a=new double[N]; for(int i=0;i<N;i++)a[i]=i;
  auto f=[=](int i){ a[i]+=1; };
#pragma omp target data map(tofrom:a[0:N])
  {
#pragma omp target teams distribute parallel for
  for(int i=0;i<N;i++) f(i);
  }
  sink=sum(a,N); delete[] a;
}
NI void c_lambda_reference(void) { /* outside of what is mapped */
  // OpenMP 5.0 maps what a lambda captures by reference where it is mapped
  double *a=new double[N]; for(int i=0;i<N;i++)a[i]=i; double k=3;
  auto f=[&](int i){ a[i]+=k; };
#pragma omp target data map(tofrom:a[0:N]) map(to:k)
  {
#pragma omp target teams distribute parallel for map(to:f)
  for(int i=0;i<N;i++) f(i);
  }
  sink=sum(a,N); delete[] a;
}
NI void c_lambda_unmapped(void) { /* outside of what is mapped|outside of what is mapped+fatal error */
  double *a=new double[N]; for(int i=0;i<N;i++)a[i]=i;
  auto f=[=](int i){ a[i]+=1; };
#pragma omp target teams distribute parallel for
  for(int i=0;i<N;i++) f(i);
  sink=sum(a,N); delete[] a;
}
struct Grid {
  double *d; int n; bool owned;
  Grid(int n,bool o):d(new double[n]),n(n),owned(o){ for(int i=0;i<n;i++)d[i]=1;
#pragma omp target enter data map(to:this[0:1]) map(to:d[0:n])
  }
  ~Grid(){ if(owned){
#pragma omp target exit data map(delete:d[0:n]) map(delete:this[0:1])
    } delete[] d; }
  void add(){
#pragma omp target teams distribute parallel for
    for(int i=0;i<n;i++) d[i]+=1; }
  void back(){
#pragma omp target update from(d[0:n])
  }
};
NI void c_class_ok(void) { /* ok */
  Grid g(N,true); g.add(); g.back(); sink=sum(g.d,N);
}
NI void c_class_no_back(void) { /* stale data */
  Grid g(N,true); g.add(); sink=sum(g.d,N);
}
NI void c_class_no_delete(void) { /* freed while mapped+missing unmap|freed while mapped+missing unmap+stale data */
  for(int k=0;k<3;k++){ Grid g(N,false); g.add(); g.back(); sink=sum(g.d,N); }
}
NI void c_class_copied(void) { /* outside of what is mapped|outside of what is mapped+fatal error */
  // a copy of the object is not mapped; its pointer is the host's in `this`, mapped implicitly
  Grid g(N,true); Grid *h=(Grid*)malloc(sizeof(Grid)); memcpy((void*)h,(void*)&g,sizeof g);
  double *keep=h->d; h->d=new double[N]; for(int i=0;i<N;i++)h->d[i]=1;
  h->add();
  sink=sum(h->d,N); delete[] h->d; free(h); (void)keep;
}
NI void c_std_array_implicit(void) { /* ok */
  std::array<double,N> a; a.fill(1);
#pragma omp target teams distribute parallel for
  for(int i=0;i<N;i++) a[i]+=1;
  sink=a[3];
}
NI void c_unique_ptr_reset(void) { /* freed while mapped|freed while mapped+fatal error */
  auto u=std::make_unique<double[]>(N); for(int i=0;i<N;i++)u[i]=1; double *p=u.get();
#pragma omp target enter data map(to:p[0:N])
#pragma omp target teams distribute parallel for
  for(int i=0;i<N;i++) p[i]+=1;
  u.reset();
#pragma omp target exit data map(from:p[0:N])
}
NI void c_vector_nowait_scope(void) { /* race|freed while mapped|race+freed while mapped|fatal error|fatal error+race */
  {
    std::vector<double> v(N,1.0); double *p=v.data();
#pragma omp target teams distribute parallel for nowait map(tofrom:p[0:N])
    for(int i=0;i<N;i++) p[i]+=1;
  }
#pragma omp taskwait
}
NI void c_vector_swap(void) { /* stale data */
  std::vector<double> a(N,1.0), b(N,2.0); double *p=a.data(), *q=b.data();
#pragma omp target data map(tofrom:p[0:N]) map(to:q[0:N])
  {
#pragma omp target teams distribute parallel for
  for(int i=0;i<N;i++) q[i]=p[i]*2;
  }
  std::swap(a,b);
  sink=sum(a.data(),N); // a is q now, which was mapped `to`
}
NI void c_reference_lost(void) { /* lost */
  double x=1, &r=x;
#pragma omp target
  r+=1;
  sink=x;
}

struct Row {
  int n;
  double *v;
  explicit Row(int many) : n(many), v(new double[many]) { for(int i=0;i<n;i++) v[i]=1; }
  ~Row() { delete[] v; }
};
#pragma omp declare mapper(Row r) map(r, r.v[0:r.n])
NI void row_of(int n) {
  Row r(n);
#pragma omp target map(tofrom:r)
  for(int i=0;i<r.n;i++) r.v[i]+=1;
  sink=sum(r.v,n);
}
NI void c_mapper_objects(void) { /* missing unmap by the runtime|fatal error by the runtime */
  row_of(100); row_of(40); row_of(160);
}
NI void c_mapper_object_then_array(void) { /* missing unmap by the runtime|fatal error by the runtime */
  row_of(100);
  double z[40];
  for(int i=0;i<40;i++) z[i]=i;
#pragma omp target map(tofrom:z)
  for(int i=0;i<40;i++) z[i]+=1;
  sink=sum(z,40);
}
NI void c_mapper_objects_of_heap(void) { /* missing unmap by the runtime|fatal error by the runtime */
  for(int k=0;k<3;k++){
    auto r=std::make_unique<Row>(50+k);
    Row *p=r.get();
#pragma omp target map(tofrom:p[0:1])
    for(int i=0;i<p->n;i++) p->v[i]+=1;
    sink=sum(r->v,50);
  }
}

NI void add_one(double *p){
#pragma omp target teams distribute parallel for map(tofrom:p[0:N])
  for(int i=0;i<N;i++) p[i]+=1;
}
NI void c_thread_beside(void) { /* ok */
  std::vector<double> a(N,1), b(N,2);
  std::thread t(add_one,a.data());
  add_one(b.data());
  t.join(); sink=a[3]+b[3];
}
NI void c_thread_after_thread(void) { /* ok */
  std::vector<double> a(N,1);
  std::thread t(add_one,a.data()); t.join();
  for(double &x:a) x+=1;
  std::thread u(add_one,a.data()); u.join();
  sink=sum(a.data(),N);
}
NI void c_threads_unordered(void) { /* race */
  std::vector<double> a(N,1);
  std::thread t(add_one,a.data()), u(add_one,a.data());
  t.join(); u.join(); sink=sum(a.data(),N);
}
NI void c_threads_mutex(void) { /* ok */
  std::vector<double> a(N,1); std::mutex m;
  auto f=[&]{ std::lock_guard<std::mutex> held(m); add_one(a.data()); };
  std::thread t(f), u(f); t.join(); u.join();
#pragma omp parallel num_threads(2)
  f();
  sink=sum(a.data(),N);
}
NI void c_threads_two_mutexes(void) { /* race */
  std::vector<double> a(N,1); std::mutex m[2];
#pragma omp parallel num_threads(2)
  { std::lock_guard<std::mutex> held(m[omp_get_thread_num()]); add_one(a.data()); }
  sink=sum(a.data(),N);
}
NI void c_threads_condition(void) { /* ok */
  std::vector<double> a(N,0); std::mutex m; std::condition_variable ready; bool filled=false;
  std::thread use([&]{
    { std::unique_lock<std::mutex> held(m); ready.wait(held,[&]{ return filled; }); }
    add_one(a.data()); });
  std::thread make([&]{
    for(double &x:a) x=2;
    { std::lock_guard<std::mutex> held(m); filled=true; }
    ready.notify_one(); });
  make.join(); use.join(); sink=sum(a.data(),N);
}
NI void c_threads_once(void) { /* ok */
  std::vector<double> a(N,0); std::once_flag once; double *p=a.data();
  auto f=[&]{
    static double *b=[]{ static double kept[N];
#pragma omp target enter data map(to:kept)
      return kept; }();
    std::call_once(once,[&]{
#pragma omp target enter data map(to:p[0:N])
    });
    double s=0, *q=b;
#pragma omp target teams distribute parallel for reduction(+:s)
    for(int i=0;i<N;i++) s+=p[i]+q[i];
    sink=s; return q; };
  std::thread t(f), u(f); t.join(); u.join(); double *q=f();
#pragma omp target exit data map(delete:p[0:N],q[0:N])
}
NI void c_thread_reads_old(void) { /* stale data */
  std::vector<double> a(N,1); double *p=a.data(), s=0;
#pragma omp target data map(tofrom:p[0:N])
  {
#pragma omp target teams distribute parallel for
  for(int i=0;i<N;i++) p[i]+=1;
  std::thread t([&]{ s=sum(p,N); }); // it calls nothing of OpenMP
  t.join();
  }
  sink=s;
}
NI void c_tasks_guard_ok(void) { /* ok */
  std::vector<double> v(N,1); double*a=v.data(); std::mutex m;
#pragma omp parallel num_threads(4)
#pragma omp single
  for(int k=0;k<8;k++){
#pragma omp task firstprivate(k)
    { std::lock_guard<std::mutex> g(m); a[k]+=1; add_one(a); }
  }
  sink=sum(a,N);
}
NI void c_shared_mutex_ok(void) { /* ok */
  std::vector<double> v(N,1); double*a=v.data(); std::shared_mutex m;
#pragma omp parallel num_threads(4)
  { if(omp_get_thread_num()==0){ std::unique_lock g(m); add_one(a); } else { std::shared_lock g(m); sink=sum(a,N); } }
  sink=sum(a,N);
}
NI void c_shared_mutex_race(void) { /* race */
  std::vector<double> v(N,1); double*a=v.data(); std::shared_mutex m;
#pragma omp parallel num_threads(4)
  { std::shared_lock g(m); a[3]+=1; }
  add_one(a); sink=sum(a,N);
}

template<class T> class Buffer { // owns an array and its copy on the device; can be moved
  T *h=nullptr; int n=0;
  void drop(){
    if(!h) return;
    T *p=h;
#pragma omp target exit data map(delete:p[0:n])
    delete[] h; h=nullptr;
  }
public:
  explicit Buffer(int n):h(new T[n]()),n(n){ T *p=h;
#pragma omp target enter data map(to:p[0:n])
  }
  Buffer(Buffer &&o) noexcept:h(std::exchange(o.h,nullptr)),n(o.n){}
  Buffer &operator=(Buffer &&o) noexcept { drop(); h=std::exchange(o.h,nullptr); n=o.n; return *this; }
  ~Buffer(){ drop(); }
  T *host(){ return h; }
  void pull(){ T *p=h;
#pragma omp target update from(p[0:n])
  }
  template<class F> void each(F f){ T *p=h; int m=n;
#pragma omp target teams distribute parallel for
    for(int i=0;i<m;i++) p[i]=f(p[i],i); }
};
NI void c_buffer_moved(void) { /* ok */
  Buffer<double> a(N), b(N); double k=2;
  a.each([k](double x,int i){ return x+k*i; }); a.pull();
  b=std::move(a); b.each([](double x,int){ return x*2; }); b.pull(); sink=sum(b.host(),N);
}
NI void c_buffer_not_pulled(void) { /* stale data */
  Buffer<double> a(N); a.each([](double x,int i){ return x+i; });
  Buffer<double> b=std::move(a); sink=sum(b.host(),N);
}
NI void c_buffers_of_threads(void) { /* ok */
  std::vector<Buffer<double>> all; for(int k=0;k<4;k++) all.emplace_back(N);
#pragma omp parallel for num_threads(4)
  for(int k=0;k<4;k++){ all[k].each([=](double x,int i){ return x+i*k; }); all[k].pull(); }
  for(auto &one:all) sink=sum(one.host(),N);
}
NI void c_buffer_of_two_threads(void) { /* race */
  Buffer<double> a(N);
#pragma omp parallel num_threads(2)
  { if(omp_get_thread_num()) a.each([](double x,int i){ return x+i; }); else a.pull(); }
  sink=a.host()[3];
}
struct Shape {
  double *p; int n;
  explicit Shape(int n):p(new double[n]()),n(n){}
  virtual ~Shape(){ delete[] p; }
  virtual void grow()=0;
};
struct Scaled : Shape {
  double k;
  Scaled(int n,double k):Shape(n),k(k){}
  void grow() override { // `k` is read through `this`, mapped implicitly
#pragma omp target teams distribute parallel for map(tofrom:p[0:n])
    for(int i=0;i<n;i++) p[i]+=k; }
};
NI void c_virtual_ok(void) { /* ok */
  Scaled s(N,2); Shape *b=&s; b->grow(); s.k=3; b->grow(); sink=sum(s.p,N);
}
NI void c_virtual_kept(void) { /* stale data */
  Scaled s(N,2), *me=&s; Shape *b=&s;
#pragma omp target enter data map(to:me[0:1])
  s.k=3; b->grow();
#pragma omp target exit data map(delete:me[0:1])
  sink=sum(s.p,N);
}
NI void c_exception_leaves_mapped(void) { /* freed while mapped+missing unmap|missing unmap */
  try {
    std::vector<double> v(N,1); double *p=v.data();
#pragma omp target enter data map(to:p[0:N])
    sink=v.at(N);
#pragma omp target exit data map(delete:p[0:N])
  } catch(const std::out_of_range &) {}
}
struct Forgets { // its destructor unmaps the object, and not what it points to
  double *x;
  Forgets() : x(new double[N]) {
    for(int i=0;i<N;i++) x[i]=i;
#pragma omp target enter data map(to:this[0:1])
#pragma omp target enter data map(to:x[0:N])
  }
  ~Forgets() {
#pragma omp target exit data map(delete:this[0:1])
    delete[] x;
  }
  void step() {
#pragma omp target teams distribute parallel for
    for(int i=0;i<N;i++) x[i]+=1;
  }
};
NI void c_member_outlived(void) { /* freed while mapped+missing unmap */
  for(int k=0;k<2;k++) { Forgets one; one.step(); }
}
NI void c_placement_freed(void) { /* use after free|fatal error+use after free|uninitialised data+use after free */
  int d=omp_get_default_device(); struct Two { double a, b; };
  auto *c=(Two*)omp_target_alloc(N*sizeof(Two),d); double s=0;
#pragma omp target teams distribute parallel for is_device_ptr(c)
  for(int i=0;i<N;i++) new(&c[i]) Two{1,2};
  omp_target_free(c,d);
#pragma omp target teams distribute parallel for is_device_ptr(c) reduction(+:s)
  for(int i=0;i<N;i++) s+=c[i].a+c[i].b;
  sink=s;
}
NI double work(void) { double x=1; for(int i=0;i<5000000;i++) x=x*0.5+i; return x; }
NI void inc(double*a,int n){ for(int i=0;i<n;i++)a[i]+=1; }
NI void dev(double*a,int n){
#pragma omp target map(tofrom:a[0:n])
  for(int i=0;i<n;i++) a[i]+=1;
}
NI void c_main_thread_race(void) { /* race */
  std::vector<double> a(N,1); std::thread t([&]{ inc(a.data(),N); }); sink=work(); dev(a.data(),N); t.join(); sink=sum(a.data(),N);
}
NI void c_async_race(void) { /* race */
  std::vector<double> a(N,1); auto f=std::async(std::launch::async,[&]{ dev(a.data(),N); return 3.0; }); sink=work(); inc(a.data(),N); sink=f.get();
}
NI void c_promise_ok(void) { /* ok */
  std::vector<double> a(N,1); std::promise<int> p; auto f=p.get_future(); std::thread t([&]{ dev(a.data(),N); p.set_value(1); sink=work(); });
  sink=f.get(); inc(a.data(),N); t.join();
}
NI void c_latch_ok(void) { /* ok */
  std::vector<double> a(N,1); std::latch l(2); std::thread t([&]{ inc(a.data(),N/2); l.count_down(); sink=work(); }), u([&]{ inc(a.data()+N/2,N/2); l.count_down(); });
  l.wait(); dev(a.data(),N); t.join(); u.join();
}
NI void c_latch_race(void) { /* race */
  std::vector<double> a(N,1); std::latch l(2); std::thread t([&]{ l.count_down(); sink=work(); inc(a.data(),N/2); }), u([&]{ inc(a.data()+N/2,N/2); l.count_down(); });
  l.wait(); dev(a.data(),N); t.join(); u.join();
}
NI void c_barrier_ok(void) { /* ok */
  std::vector<double> a(N,1); std::barrier b(3); std::vector<std::thread> ts;
  for(int k=0;k<3;k++) ts.emplace_back([&,k]{ for(int r=0;r<3;r++){ inc(a.data()+k*200,200); b.arrive_and_wait(); if(k==r) dev(a.data(),N); b.arrive_and_wait(); } });
  for(auto&t:ts) t.join();
}
NI void c_atomic_wait_ok(void) { /* ok */
  std::vector<double> a(N,1); std::atomic<int> f{0}; std::thread t([&]{ f.wait(0); dev(a.data(),N); f=2; f.notify_all(); });
  inc(a.data(),N); sink=work(); f=1; f.notify_one(); f.wait(1); inc(a.data(),N); t.join();
}
NI void c_omp_and_thread_sem_ok(void) { /* ok */
  std::vector<double> a(N,1); std::binary_semaphore s(0),u(0); std::thread t([&]{ s.acquire(); dev(a.data(),N); u.release(); });
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp task
  { inc(a.data(),N); s.release(); }
#pragma omp task
  { u.acquire(); inc(a.data(),N); }
  }
  t.join(); sink=sum(a.data(),N);
}

struct Method { virtual void init(double*p,int n)=0; virtual double norm(const double*p,int n)=0; virtual ~Method()=default; };
struct Jacobi : Method { void init(double*p,int n) override { for(int i=0;i<n;i++) p[i]=3; } double norm(const double*p,int n) override { double s=0; for(int i=0;i<n;i++) s+=p[i]*p[i]; return s; } };
struct Other : Method { void init(double*p,int n) override { for(int i=0;i<n;i++) p[i]=4; } double norm(const double*p,int n) override { return p[0]; } };
NI std::unique_ptr<Method> pick(){ if(sink<0) return std::make_unique<Other>(); return std::make_unique<Jacobi>(); }
NI void c_virtual_init_ok(void) { /* ok */
  auto s=pick(); std::vector<double> v(N); double*p=v.data(); s->init(p,N);
#pragma omp target map(tofrom:p[0:N])
  for(int i=0;i<N;i++) p[i]+=1;
  sink=s->norm(p,N);
}
NI void c_virtual_init_stale(void) { /* stale data */
  auto s=pick(); std::vector<double> v(N); double*p=v.data();
#pragma omp target data map(tofrom:p[0:N])
  { s->init(p,N);
#pragma omp target
    for(int i=0;i<N;i++) p[i]+=1; }
  sink=s->norm(p,N);
}
NI void c_virtual_norm_stale(void) { /* stale data */
  auto s=pick(); std::vector<double> v(N); double*p=v.data(); s->init(p,N);
#pragma omp target data map(tofrom:p[0:N])
  {
#pragma omp target
    for(int i=0;i<N;i++) p[i]+=1;
    sink=s->norm(p,N); }
}
NI void c_virtual_norm_race(void) { /* race */
  auto s=pick(); std::vector<double> v(N); double*p=v.data(); s->init(p,N);
#pragma omp parallel num_threads(2)
#pragma omp single
  {
#pragma omp target nowait map(tofrom:p[0:N])
    for(int i=0;i<N;i++) p[i]+=1;
    sink=s->norm(p,N);
#pragma omp taskwait
  }
}
NI void fill(double*p,int n){ for(int i=0;i<n;i++) p[i]=2; }
NI void fill_half(double*p,int n){ for(int i=0;i<n/2;i++) p[i]=2; }
NI void (*how())(double*,int){ return sink<0?fill:fill_half; }
NI void c_pointer_half_unset(void) { /* uninitialised data */
  double*p=(double*)malloc(N*8); how()(p,N);
#pragma omp target map(tofrom:p[0:N])
  for(int i=0;i<N;i++) p[i]+=1;
  sink=p[4]; free(p);
}
NI void c_function_stale(void) { /* stale data */
  std::function<double(const double*)> f=[](const double*p){ return p[3]+p[4]; };
  std::vector<double> v(N,1.0); double*p=v.data();
#pragma omp target data map(tofrom:p[0:N])
  {
#pragma omp target
    for(int i=0;i<N;i++) p[i]+=1;
    sink=f(p); }
}

NI double *made(int n){ double *a=static_cast<double*>(std::malloc(n*sizeof *a)); for(int i=0;i<n;i++) a[i]=1; return a; }
NI void c_freed_beside(void) { /* race */
  double x[4]={1}, *a=made(N); dev(x,4); std::thread t([a]{ sink=sum(a,N); }); std::free(a); t.join();
}
NI void c_deleted_beside(void) { /* race */
  double x[4]={1}, *a=new double[N](); dev(x,4); std::thread t([a]{ sink=sum(a,N); }); delete[] a; t.join();
}
NI void c_deleted_behind_ok(void) { /* ok */
  double x[4]={1}, *a=new double[N](); dev(x,4); std::thread t([a]{ sink=sum(a,N); }); t.join(); delete[] a;
}
NI void c_reallocated_beside(void) { /* race */
  double x[4]={1}, *a=made(N); dev(x,4); std::thread t([a]{ sink=sum(a,N); });
  a=static_cast<double*>(std::realloc(a,100*N*sizeof *a)); sink=a[0]; t.join(); std::free(a);
}
NI void c_freed_by_thread(void) { /* race */
  double x[4]={1}, *a=made(N); dev(x,4); std::thread t([a]{ std::free(a); }); sink=sum(a,N); t.join();
}
NI void c_freed_behind_flag_ok(void) { /* ok */
  double x[4]={1}, *a=made(N); dev(x,4); std::atomic<int> done(0);
  std::thread t([a,&done]{ sink=sum(a,N); done.store(1,std::memory_order_release); });
  while(!done.load(std::memory_order_acquire)) std::this_thread::yield();
  std::free(a); t.join();
}
NI void c_freed_named_beside(void) { /* race */
  double *a=made(N); dev(a,N); std::thread t([a]{ sink=sum(a,N); }); std::free(a); t.join();
}
#define CASE(name) {#name, c_##name}
static const struct {
  const char *name;
  void (*run)();
} cases[] = {
    CASE(vector_ok),
    CASE(vector_resized),
    CASE(vector_object),
    CASE(lambda_value),
    CASE(lambda_reference),
    CASE(lambda_unmapped),
    CASE(class_ok),
    CASE(class_no_back),
    CASE(class_no_delete),
    CASE(class_copied),
    CASE(std_array_implicit),
    CASE(unique_ptr_reset),
    CASE(vector_nowait_scope),
    CASE(vector_swap),
    CASE(reference_lost),
    CASE(mapper_objects),
    CASE(mapper_object_then_array),
    CASE(mapper_objects_of_heap),
    CASE(buffer_moved),
    CASE(buffer_not_pulled),
    CASE(buffers_of_threads),
    CASE(buffer_of_two_threads),
    CASE(virtual_ok),
    CASE(virtual_kept),
    CASE(exception_leaves_mapped),
    CASE(member_outlived),
    CASE(placement_freed),
    CASE(thread_beside),
    CASE(thread_after_thread),
    CASE(threads_unordered),
    CASE(threads_mutex),
    CASE(threads_two_mutexes),
    CASE(threads_condition),
    CASE(threads_once),
    CASE(thread_reads_old),
    CASE(tasks_guard_ok),
    CASE(shared_mutex_ok),
    CASE(shared_mutex_race),
    CASE(main_thread_race),
    CASE(async_race),
    CASE(promise_ok),
    CASE(latch_ok),
    CASE(latch_race),
    CASE(barrier_ok),
    CASE(atomic_wait_ok),
    CASE(omp_and_thread_sem_ok),
    CASE(virtual_init_ok),
    CASE(virtual_init_stale),
    CASE(virtual_norm_stale),
    CASE(virtual_norm_race),
    CASE(pointer_half_unset),
    CASE(function_stale),
    CASE(freed_beside),
    CASE(deleted_beside),
    CASE(deleted_behind_ok),
    CASE(reallocated_beside),
    CASE(freed_by_thread),
    CASE(freed_behind_flag_ok),
    CASE(freed_named_beside),
};

int main(int count, char **arguments) {
  for (auto &one : cases)
    if (count > 1 && !std::strcmp(one.name, arguments[1]))
      one.run();
}
