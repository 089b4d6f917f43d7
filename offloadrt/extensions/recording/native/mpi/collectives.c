#include "collectives.h"
#include <stdlib.h>

int ranks_of(MPI_Comm comm) {
  int inter = 0, count = 0;
  PMPI_Comm_test_inter(comm, &inter);
  if (inter)
    PMPI_Comm_remote_size(comm, &count);
  else
    PMPI_Comm_size(comm, &count);
  return count;
}

int rank_of(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return rank;
}

bool is_root(int root, MPI_Comm comm) {
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  return inter ? root == MPI_ROOT : root == rank_of(comm);
}

int64_t extent_of(MPI_Datatype type) {
  MPI_Count low, extent = 0;
  if (type == MPI_DATATYPE_NULL)
    return 0;
  PMPI_Type_get_extent_x(type, &low, &extent);
  return extent;
}

static int *grown(int count) {
  static __thread int *ranks;
  ranks = realloc(ranks, ((size_t)count + 1) * sizeof *ranks);
  if (!ranks)
    abort();
  return ranks;
}

neighbours_t neighbours_of(MPI_Comm comm) {
  int kind = MPI_UNDEFINED, in = 0, out = 0, weighted, *ranks = NULL;
  PMPI_Topo_test(comm, &kind);
  if (kind == MPI_CART) {
    PMPI_Cartdim_get(comm, &in);
    ranks = grown(in * 2);
    for (int i = 0; i < in; i++)
      PMPI_Cart_shift(comm, i, 1, &ranks[2 * i], &ranks[2 * i + 1]);
    in = out = in * 2;
  } else if (kind == MPI_GRAPH) {
    PMPI_Graph_neighbors_count(comm, rank_of(comm), &in);
    ranks = grown(in);
    PMPI_Graph_neighbors(comm, rank_of(comm), in, ranks);
    out = in;
  } else if (kind == MPI_DIST_GRAPH) {
    PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    int *weights = calloc((size_t)(in + out) + 1, sizeof *weights);
    ranks = grown(in + out);
    if (weights)
      PMPI_Dist_graph_neighbors(comm, in, ranks, weights, out, ranks + in, weights + in);
    free(weights);
    for (int i = 0; i < in + out; i++)
      if (ranks[i] == MPI_PROC_NULL)
        ranks[i] = NOBODY;
    return (neighbours_t){ranks, ranks + in, in, out};
  }
  for (int i = 0; i < in; i++)
    if (ranks[i] == MPI_PROC_NULL)
      ranks[i] = NOBODY;
  return (neighbours_t){ranks, ranks, in, out};
}
