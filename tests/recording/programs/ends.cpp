// A vector that ends while it is mapped, and an array that is deleted in the region that maps it.
#include <vector>

enum { N = 4096 };

static void leaves() {
  std::vector<double> values(N, 1.0);
  double *v = values.data();
#pragma omp target enter data map(to : v[0 : N]) /* vector */
} /* ends */

struct Held {
  double *p = new double[N]();
  Held() {
#pragma omp target enter data map(to : p[0 : N])
  }
  ~Held() {
#pragma omp target exit data map(delete : p[0 : N])
    delete[] p;
  }
};

int main() {
  {
    Held first, second;
  }
  auto *a = new double[N]();
#pragma omp target data map(to : a[0 : N]) /* region */
  delete[] a; /* delete */
  leaves();
  std::vector<double> values(N, 2.0);
  double *w = values.data();
#pragma omp target map(tofrom : w[0 : N]) /* again */
  w[1] = 3;
}
