"""Which algorithm a library takes for a collective: by bytes and by ranks, as its sources say.

``mpich``: MPICH's rules by message size (src/mpi/coll, MPIR_CVAR_*_SHORT_MSG_SIZE and *_LONG_MSG_SIZE in
`doc/wiki` and in the sources' CVAR blocks; Thakur et al., 2005). ``openmpi``: the fixed decisions of its component
`tuned` (ompi/mca/coll/tuned/coll_tuned_decision_fixed.c), where split binary trees stand as a scatter with an allgather
in a ring, and neighbour exchange as a ring. A rule is pure; bytes are those of the whole buffer of a
rank, as the sources count them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from offloadrt.extensions.mpi import collectives as a

Rule = Callable[[int, int, int], a.Algorithm]
"""Chooses by (ranks, bytes, elements)."""


def _is_power(size: int) -> bool:
    return size == a.below(size)


def _mpich_bcast(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes < 12288 or size < 8:
        return a.bcast_binomial
    if nbytes < 524288 and _is_power(size):
        return partial(a.bcast_scatter_allgather, ring=False)
    return partial(a.bcast_scatter_allgather, ring=True)


def _mpich_reduce(size: int, nbytes: int, count: int) -> a.Algorithm:
    return a.reduce_rabenseifner if nbytes > 2048 and count >= a.below(size) else a.reduce_binomial


def _mpich_allreduce(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes <= 2048 or count < a.below(size):
        return a.allreduce_recursive_doubling
    return a.allreduce_rabenseifner


def _mpich_allgather(size: int, nbytes: int, count: int) -> a.Algorithm:
    total = nbytes * size
    if total < 524288 and _is_power(size):
        return a.allgather_recursive_doubling
    return a.allgather_bruck if total < 81920 else a.allgather_ring


def _mpich_alltoall(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes <= 256 and size >= 8:
        return a.alltoall_bruck
    return a.alltoall_scattered if nbytes <= 32768 else a.alltoall_pairwise


def _mpich_reduce_scatter(size: int, nbytes: int, count: int) -> a.Algorithm:
    return a.reduce_scatter_halving if nbytes < 524288 else a.reduce_scatter_pairwise


def _openmpi_bcast(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes < 2048:
        return a.bcast_binomial
    if nbytes < 370728 or size >= 1.6134e-6 * nbytes + 2.1102:
        return partial(a.bcast_scatter_allgather, ring=True)
    return partial(a.bcast_pipeline, segment=128 << 10)


def _openmpi_reduce(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes < 20480 and (size < 8 or nbytes < 2048):
        return a.reduce_binomial
    return partial(a.reduce_pipeline, segment=(64 if size <= 0.0033 / 1024 * nbytes + 1.6761 else 32) << 10)


def _openmpi_allreduce(size: int, nbytes: int, count: int) -> a.Algorithm:
    return a.allreduce_recursive_doubling if nbytes < 10000 or count <= size else a.allreduce_ring


def _openmpi_allgather(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes * size >= 50000:
        return a.allgather_ring
    return a.allgather_recursive_doubling if _is_power(size) else a.allgather_bruck


def _openmpi_alltoall(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes < 200 and size > 12:
        return a.alltoall_bruck
    return a.alltoall_scattered if nbytes < 3000 else a.alltoall_pairwise


def _openmpi_reduce_scatter(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes <= 12 << 10 or (nbytes <= 256 << 10 and _is_power(size)) or size >= 0.0012 * nbytes + 8.0:
        return a.reduce_scatter_halving
    return a.reduce_scatter_pairwise


def always(algorithm: a.Algorithm) -> Rule:
    """Return the rule that takes one algorithm for all sizes."""
    return lambda size, nbytes, count: algorithm


_COMMON: Final[Mapping[str, Rule]] = {
    "MPI_Barrier": always(a.barrier_dissemination),
    "MPI_Gather": always(a.gather_binomial),
    "MPI_Gatherv": always(a.gather_linear),
    "MPI_Scatter": always(a.scatter_binomial),
    "MPI_Scatterv": always(a.scatter_linear),
    "MPI_Alltoallv": always(a.alltoall_scattered),
    "MPI_Scan": always(partial(a.scan_recursive_doubling, inclusive=True)),
    "MPI_Exscan": always(partial(a.scan_recursive_doubling, inclusive=False)),
}

LIBRARIES: Final[Mapping[str, Mapping[str, Rule]]] = {
    "mpich": {
        **_COMMON,
        "MPI_Bcast": _mpich_bcast,
        "MPI_Reduce": _mpich_reduce,
        "MPI_Allreduce": _mpich_allreduce,
        "MPI_Allgather": _mpich_allgather,
        "MPI_Allgatherv": _mpich_allgather,
        "MPI_Alltoall": _mpich_alltoall,
        "MPI_Reduce_scatter": _mpich_reduce_scatter,
    },
    "openmpi": {
        **_COMMON,
        "MPI_Gather": always(a.gather_linear),
        "MPI_Scatter": always(a.scatter_linear),
        "MPI_Bcast": _openmpi_bcast,
        "MPI_Reduce": _openmpi_reduce,
        "MPI_Allreduce": _openmpi_allreduce,
        "MPI_Allgather": _openmpi_allgather,
        "MPI_Allgatherv": _openmpi_allgather,
        "MPI_Alltoall": _openmpi_alltoall,
        "MPI_Reduce_scatter": _openmpi_reduce_scatter,
    },
}
"""The rules of each library, by the name of the call."""


def algorithm(library: str, call: str, size: int, nbytes: int, count: int) -> a.Algorithm:
    """Return the algorithm that a library takes for a call."""
    return LIBRARIES[library][call](size, nbytes, count)
