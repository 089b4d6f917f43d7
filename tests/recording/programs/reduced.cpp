// Ranks that compute by C++'s parallel algorithms: each fills its part, exchanges an edge with its neighbour, and all sum up.
#include <algorithm>
#include <cstdio>
#include <execution>
#include <mpi.h>
#include <numeric>
#include <vector>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int n = 1 << 14;
  std::vector<double> a(n), b(n, 1.);
  const auto policy = std::execution::par_unseq;
  std::fill(policy, a.begin(), a.end(), 1. + rank);
  double all = 0.;
  for (int step = 0; step < 3; ++step) {
    std::transform(policy, a.begin(), a.end(), b.begin(), b.begin(), [](double x, double y) { return x + 2. * y; });
    MPI_Request request;
    double edge = 0.;
    MPI_Irecv(&edge, 1, MPI_DOUBLE, (rank + ranks - 1) % ranks, step, MPI_COMM_WORLD, &request);
    MPI_Send(&b[n - 1], 1, MPI_DOUBLE, (rank + 1) % ranks, step, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    a[0] = edge;
    double mine = std::reduce(policy, b.begin(), b.end());
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  if (rank == 0)
    std::printf("%g\n", all);
  MPI_Finalize();
}
