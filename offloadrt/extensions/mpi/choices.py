"""Which algorithm a library takes for a collective: by bytes and by ranks, as its sources say.

``mpich``: MPICH's rules by message size (src/mpi/coll, MPIR_CVAR_*_SHORT_MSG_SIZE and *_LONG_MSG_SIZE in the sources'
CVAR blocks, maint/tuning/coll/mpir/generic.json; Thakur et al., 2005). Its barrier goes by nodes
(maint/tuning/coll/ch4/generic.json). Its reductions could, too; then flags in shared memory carry a node's part. With
messages in their place an allreduce of Polaris's 2 nodes takes 1.14 to 1.52 times what it was measured to take, and
0.75 to 1.02 times without regard to nodes, so they are made without.
``cray``: HPE Cray MPI, which is MPICH with collectives of its own. They are not public; its manual intro_mpi and the
values that MPICH_ENV_DISPLAY prints (8.1.17) say what decides. A broadcast is always a tree by nodes of radix 4
(MPICH_BCAST_ONLY_TREE, _INTERNODE_RADIX and _INTRANODE_RADIX). An allgather of parts up to 8 KiB is a gather and a
broadcast, of longer ones a ring (MPICH_ALLGATHER_VSHORT_MSG). An alltoall of parts up to 512 B goes by store and
forward (MPICH_ALLTOALL_SHORT_MSG), of longer ones so many at a time (MPICH_ALLTOALL_SYNC_FREQ, _ALLTOALLV_THROTTLE).
Where it prints a range, its ends are for few and for many ranks; they are taken to meet at 512. All else is MPICH's.
``openmpi``: the fixed decisions of its component `tuned` since Open MPI 4.1 (`openmpi.toml`) up to 255 ranks; more take
what 255 take. A butterfly stands as recursive halving. The component `han`, which goes by nodes, is not there: 4.1
takes it only if its priority is raised.
A rule is pure; bytes are as the sources count them: of allgather, alltoall, gather and scatter one rank's part.
"""

from __future__ import annotations

import importlib.resources
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from offloadrt.extensions.mpi import collectives as a
from offloadrt.extensions.mpi.buffers import MpiBuffer

Rule = Callable[[int, int, int], a.Algorithm]
"""Chooses the algorithm of one collective from (number of ranks, bytes, number of elements)."""


def _is_power(size: int) -> bool:
    return size == a.below(size)


# ---------------------------------------------------------------------- MPICH


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


_MPICH_SCATTERED: Final = partial(a.alltoall_scattered, throttle=32)


def _mpich_alltoall(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes <= 256 and size >= 8:
        return a.alltoall_bruck
    return _MPICH_SCATTERED if nbytes <= 32768 else a.alltoall_pairwise


def _mpich_reduce_scatter(size: int, nbytes: int, count: int) -> a.Algorithm:
    return a.reduce_scatter_halving if nbytes < 524288 else a.reduce_scatter_pairwise


def _by_nodes(c: a.Channel, root: int = 0) -> list[list[int]]:
    """Return the ranks of each node as a list; the root's node comes first, and the root is the first in it."""
    nodes: dict[int, list[int]] = {c.nodes[root]: [root]}
    for rank, node in enumerate(c.nodes):
        if rank != root:
            nodes.setdefault(node, []).append(rank)
    return list(nodes.values())


def _own(c: a.Channel, nodes: Sequence[Sequence[int]]) -> Sequence[int]:
    return next(ranks for ranks in nodes if c.rank in ranks)


async def _barrier_by_nodes(c: a.Channel) -> None:
    """Synchronize the ranks of each node, then the nodes' first ranks, which finally release the others."""
    nodes = _by_nodes(c)
    if len(nodes) in (1, c.size):
        await a.barrier_dissemination(c)
        return
    own = _own(c, nodes)
    await a.barrier_dissemination(c.among(own))
    if c.rank == own[0]:
        await a.barrier_dissemination(c.among([ranks[0] for ranks in nodes]))
    await a.bcast_binomial(c.among(own), MpiBuffer(0), 0)


# ---------------------------------------------------------------------- HPE Cray MPI


async def _bcast_by_nodes(c: a.Channel, buffer: MpiBuffer, root: int) -> None:
    """Broadcast down a tree among the first ranks of the nodes, then down one in each node."""
    nodes = _by_nodes(c, root)
    own = _own(c, nodes)
    if c.rank == own[0]:
        await a.bcast_tree(c.among([ranks[0] for ranks in nodes]), buffer, 0, tree=a.four_nomial_tree)
    await a.bcast_tree(c.among(own), buffer, 0, tree=a.four_nomial_tree)


async def _allgather_by_nodes(c: a.Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer]) -> None:
    """Gather the parts of each node at its first rank, then these at rank 0, which broadcasts all of them."""
    nodes = _by_nodes(c)
    own = _own(c, nodes)
    await _at_first(c.among(own), [parts[rank] for rank in own])
    if c.rank == own[0]:
        packed = [a.joined([parts[rank] for rank in ranks]) for ranks in nodes]
        await _at_first(c.among([ranks[0] for ranks in nodes]), packed)
        for ranks, whole in zip(nodes, packed, strict=True):
            a.spread(whole, [parts[rank] for rank in ranks])
    await _bcast_by_nodes(c, buffer, 0)


async def _at_first(c: a.Channel, parts: Sequence[MpiBuffer]) -> None:
    """Gather the part of each rank at rank 0 of the channel."""
    if c.rank:
        await c.send(parts[c.rank], 0)
    else:
        await c.wait(*(c.irecv(part, rank) for rank, part in enumerate(parts) if rank))


def _cray_allgather(size: int, nbytes: int, count: int) -> a.Algorithm:
    return _allgather_by_nodes if nbytes <= (8192 if size <= 512 else 16384) else a.allgather_ring


def _cray_alltoall(size: int, nbytes: int, count: int) -> a.Algorithm:
    if nbytes <= (512 if size <= 512 else 64):
        return a.alltoall_bruck
    return partial(a.alltoall_scattered, throttle=24)


# ---------------------------------------------------------------------- Open MPI


async def _reduce_and_bcast(
    c: a.Channel, buffer: MpiBuffer, op: a.Op, *, reduce: a.Algorithm, bcast: a.Algorithm
) -> None:
    await reduce(c, buffer, op, 0)
    await bcast(c, buffer, 0)


async def _reduce_and_scatter(
    c: a.Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer], into: MpiBuffer, op: a.Op
) -> None:
    await _tuned("MPI_Reduce")(c.size, buffer.nbytes, 0)(c, buffer, op, 0)
    await a.scatter_linear(c, parts if c.rank == 0 else None, into, 0)


async def _gather_and_bcast(c: a.Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer]) -> None:
    await a.gather_linear(c, parts[c.rank], parts if c.rank == 0 else None, 0)
    await _tuned("MPI_Bcast")(c.size, buffer.nbytes, 0)(c, buffer, 0)


async def _chain_bcast(c: a.Channel, buffer: MpiBuffer, root: int) -> None:
    await a.bcast_pipeline(c, buffer, root, segment=max(buffer.nbytes, 1))


async def _chain_reduce(c: a.Channel, buffer: MpiBuffer, op: a.Op, root: int) -> None:
    await a.reduce_pipeline(c, buffer, op, root, segment=max(buffer.nbytes, 1))


_OPENMPI: Final[Mapping[str, Sequence[tuple[int, str]]]] = tomllib.loads(
    importlib.resources.files(__package__).joinpath("openmpi.toml").read_text(encoding="utf-8")
)


_LINEAR_BCAST: Final = partial(a.bcast_tree, tree=a.star)
_LINEAR_REDUCE: Final = partial(a.reduce_tree, tree=a.star)
_ALLGATHERS: Final[Mapping[str, a.Algorithm]] = {
    "bruck": a.allgather_bruck,
    "doubling": a.allgather_recursive_doubling,
    "ring": a.allgather_ring,
    "neighbours": a.allgather_neighbours,
    "default": _gather_and_bcast,
}
_ALLTOALLS: Final[Mapping[str, a.Algorithm]] = {
    "linear": a.alltoall_scattered,
    "pairwise": partial(a.alltoall_pairwise, in_pairs=False),
    "bruck": a.alltoall_bruck,
}
_NAMED: Final[Mapping[str, Mapping[str, a.Algorithm]]] = {
    "MPI_Barrier": {
        "linear": a.barrier_linear,
        "doubling": a.barrier_doubling,
        "bruck": a.barrier_dissemination,
    },
    "MPI_Bcast": {
        "linear": _LINEAR_BCAST,
        "chain": _chain_bcast,
        "binary": partial(a.bcast_tree, tree=a.binary_tree),
        "binomial": partial(a.bcast_tree, tree=a.near_binomial_tree),
        "knomial": partial(a.bcast_tree, tree=a.four_nomial_tree),
        "scatter": partial(a.bcast_scatter_allgather, ring=False),
    },
    "MPI_Reduce": {
        "linear": _LINEAR_REDUCE,
        "chain": _chain_reduce,
        "binary": partial(a.reduce_tree, tree=a.binary_tree),
        "binomial": a.reduce_binomial,
        "rabenseifner": a.reduce_rabenseifner,
    },
    "MPI_Gather": {
        "linear": a.gather_linear,
        "binomial": a.gather_binomial,
        "synchronized": a.gather_synchronized,
    },
    "MPI_Scatter": {
        "linear": partial(a.scatter_linear, at_once=False),
        "binomial": a.scatter_binomial,
        "nonblocking": a.scatter_linear,
    },
    "MPI_Allgather": _ALLGATHERS,
    "MPI_Allgatherv": _ALLGATHERS,
    "MPI_Alltoall": _ALLTOALLS,
    "MPI_Alltoallv": _ALLTOALLS,
    "MPI_Reduce_scatter": {
        "nonoverlapping": _reduce_and_scatter,
        "halving": a.reduce_scatter_halving,
        "ring": a.reduce_scatter_ring,
    },
}
"""By call: the algorithms by their names in `openmpi.toml`."""


def _name(call: str, size: int, nbytes: int) -> str:
    """Return the name of the algorithm that the table gives for a call."""
    table = _OPENMPI[call]
    words = next((row for ranks, row in table if size < ranks), table[-1][1]).split()
    limits = zip(words[::2], words[1::2], strict=False)
    return next((name for name, limit in limits if nbytes < int(limit)), words[-1])


def _tuned(call: str) -> Rule:
    return lambda size, nbytes, count: _NAMED[call][_name(call, size, nbytes)]


def _openmpi_allreduce(size: int, nbytes: int, count: int) -> a.Algorithm:
    """Choose as Open MPI's table says; an algorithm that needs more elements than there are is replaced by another."""
    match _name("MPI_Allreduce", size, nbytes):
        case "ring" if count >= size:
            return a.allreduce_ring
        case "doubling" | "ring":
            return a.allreduce_recursive_doubling
        case "rabenseifner" if count >= a.below(size):
            return a.allreduce_rabenseifner
        case "rabenseifner":
            return partial(_reduce_and_bcast, reduce=_LINEAR_REDUCE, bcast=_LINEAR_BCAST)
    reduce, bcast = (_tuned(call)(size, nbytes, count) for call in ("MPI_Reduce", "MPI_Bcast"))
    return partial(_reduce_and_bcast, reduce=reduce, bcast=bcast)


def _openmpi_allgather(size: int, nbytes: int, count: int) -> a.Algorithm:
    chosen = _tuned("MPI_Allgather")(size, nbytes, count)
    return a.allgather_bruck if chosen is a.allgather_recursive_doubling and not _is_power(size) else chosen


def always(algorithm: a.Algorithm) -> Rule:
    """Return a rule that chooses the same algorithm for all sizes."""
    return lambda size, nbytes, count: algorithm


_COMMON: Final[Mapping[str, Rule]] = {
    "MPI_Gatherv": always(a.gather_linear),
    "MPI_Scatterv": always(a.scatter_linear),
}

_MPICH: Final[Mapping[str, Rule]] = {
    **_COMMON,
    "MPI_Barrier": always(_barrier_by_nodes),
    "MPI_Bcast": _mpich_bcast,
    "MPI_Reduce": _mpich_reduce,
    "MPI_Allreduce": _mpich_allreduce,
    "MPI_Gather": always(a.gather_binomial),
    "MPI_Scatter": always(a.scatter_binomial),
    "MPI_Allgather": _mpich_allgather,
    "MPI_Allgatherv": _mpich_allgather,
    "MPI_Alltoall": _mpich_alltoall,
    "MPI_Alltoallv": always(_MPICH_SCATTERED),
    "MPI_Reduce_scatter": _mpich_reduce_scatter,
    "MPI_Scan": always(partial(a.scan_recursive_doubling, inclusive=True)),
    "MPI_Exscan": always(partial(a.scan_recursive_doubling, inclusive=False)),
}

LIBRARIES: Final[Mapping[str, Mapping[str, Rule]]] = {
    "mpich": _MPICH,
    "cray": {
        **_MPICH,
        "MPI_Bcast": always(_bcast_by_nodes),
        "MPI_Allgather": _cray_allgather,
        "MPI_Allgatherv": _cray_allgather,
        "MPI_Alltoall": _cray_alltoall,
        "MPI_Alltoallv": always(partial(a.alltoall_scattered, throttle=8)),
    },
    "openmpi": {
        **_COMMON,
        **{call: _tuned(call) for call in _NAMED},
        "MPI_Allreduce": _openmpi_allreduce,
        "MPI_Allgather": _openmpi_allgather,
        "MPI_Scan": always(partial(a.scan_linear, inclusive=True)),
        "MPI_Exscan": always(partial(a.scan_linear, inclusive=False)),
    },
}
"""The rules of each MPI library: by its name, then by the name of the call."""


def algorithm(library: str, call: str, size: int, nbytes: int, count: int) -> a.Algorithm:
    """Return the algorithm that an MPI library chooses for a collective call on `size` ranks.

    nbytes, count: the bytes and the elements of the call, counted as the library's own sources do; for some calls that
    is one rank's part, for others the whole buffer.
    """
    return LIBRARIES[library][call](size, nbytes, count)
