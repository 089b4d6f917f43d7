"""Collectives as the messages of named algorithms: `Channel` is what an algorithm uses, a function is an algorithm.

The algorithms are those of R. Thakur, R. Rabenseifner and W. Gropp, Optimization of Collective Communication Operations
in MPICH, 2005: binomial trees, recursive doubling and halving, Bruck's algorithm, rings, pairwise exchange, and
Rabenseifner's reductions; and those of Open MPI's ompi/mca/coll/base: linear ones, other trees, neighbour exchange.
Which one a library takes is in `choices.py`. None has a formula of its time: it takes what its messages and
combinations take. Each rank calls the function with its channel `c`, its data `buffer`, the number of the `root` and
the reduction `op`, as far as the collective has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import attrs
import numpy as np

from offloadrt.extensions.mpi.buffers import MpiBuffer
from offloadrt.extensions.mpi.requests import Endpoint, MpiRequest


@attrs.frozen
class Op:
    """A predefined reduction, which is commutative. `function` computes it, as NumPy does, on two arrays of values."""

    name: str
    function: Callable[[Any, Any], Any]


SUM: Final = Op("MPI_SUM", np.add)
PROD: Final = Op("MPI_PROD", np.multiply)
MAX: Final = Op("MPI_MAX", np.maximum)
MIN: Final = Op("MPI_MIN", np.minimum)
LAND: Final = Op("MPI_LAND", np.logical_and)
LOR: Final = Op("MPI_LOR", np.logical_or)
BAND: Final = Op("MPI_BAND", np.bitwise_and)
BOR: Final = Op("MPI_BOR", np.bitwise_or)
BXOR: Final = Op("MPI_BXOR", np.bitwise_xor)


@attrs.frozen(eq=False)
class Channel:
    """Sends and receives the messages of one collective call at one rank, apart from all other messages.

    rank, size: this rank's number, and how many there are. Algorithms take it as `c`; their `op` is the reduction.
    """

    rank: int
    size: int
    _endpoint: Endpoint
    _call: str
    _at: str
    _background: bool
    """Whether the collective is nonblocking, so that an actor of its own carries it out."""
    isend: Callable[[MpiBuffer, int], Awaitable[MpiRequest]]
    """Begins to send a buffer to a rank."""
    irecv: Callable[[MpiBuffer, int], MpiRequest]
    """Begins to receive into a buffer from a rank."""
    nodes: Sequence[int] = ()
    """The number of the node on which each rank runs."""

    def among(self, ranks: Sequence[int]) -> Channel:
        """Return a channel for some of the ranks (this one included), which are renumbered in the given order."""

        def isend(buffer: MpiBuffer, rank: int) -> Awaitable[MpiRequest]:
            return self.isend(buffer, ranks[rank])

        def irecv(buffer: MpiBuffer, rank: int) -> MpiRequest:
            return self.irecv(buffer, ranks[rank])

        rank, nodes = ranks.index(self.rank), [self.nodes[rank] for rank in ranks]
        return attrs.evolve(self, rank=rank, size=len(ranks), isend=isend, irecv=irecv, nodes=nodes)

    async def wait(self, *requests: MpiRequest) -> None:
        """Wait until all of these sends and receives are complete."""
        if requests:
            endpoint = self._endpoint
            await endpoint.wait(requests, len(requests), self._call, self._at, background=self._background)
            for request in requests:
                request.take(None)

    async def send(self, buffer: MpiBuffer, destination: int) -> None:
        await self.wait(await self.isend(buffer, destination))

    async def recv(self, buffer: MpiBuffer, source: int) -> None:
        await self.wait(self.irecv(buffer, source))

    async def exchange(self, sent: MpiBuffer, destination: int, received: MpiBuffer, source: int) -> None:
        """Send one buffer to a rank and receive another from a rank at the same time, as MPI_Sendrecv does."""
        receive = self.irecv(received, source)
        await self.wait(receive, await self.isend(sent, destination))

    async def combine(self, op: Op, into: MpiBuffer, other: MpiBuffer) -> None:
        """Store the result of the reduction operation `op` on two buffers, `into` and `other`, in the first one.

        A core computes it; if `into` lies on a device, a kernel does. Takes the virtual time of that work.
        """
        costs, nbytes = self._endpoint.costs, other.nbytes
        if into.device is None:
            await self._endpoint.on_core(nbytes / costs.library.reduce_bw)
        else:
            await self._endpoint.on_core(costs.device.reduce + nbytes / costs.device.reduce_bw)
        if into.values is None or other.values is None:
            return
        dtype = into.dtype or np.dtype(np.uint8)
        mine, theirs = (
            buffer.values.reshape(-1).view(np.uint8).view(dtype)  # type: ignore[union-attr]
            for buffer in (into.part(0, nbytes), other)
        )
        mine[...] = op.function(mine, theirs)

    async def copy(self, into: MpiBuffer, source: MpiBuffer) -> None:
        """Copy the process's buffer `source` to its buffer `into`; a core or the device needs virtual time for it."""
        if source.nbytes and into.device is None:
            await self._endpoint.machine.host_memory.copy(
                source.nbytes, "ranks", rate=self._endpoint.costs.library.copy_bw
            )
        into.write(source.read())


def split(buffer: MpiBuffer, parts: int) -> list[MpiBuffer]:
    """Split a buffer into parts of whole elements and nearly equal length; the longer ones come first."""
    size = buffer.dtype.itemsize if buffer.dtype is not None else 1
    elements = buffer.nbytes // size
    short, longer = divmod(elements, parts)
    begin, made = 0, []
    for number in range(parts):
        nbytes = (short + (number < longer)) * size
        made.append(buffer.part(begin, nbytes))
        begin += nbytes
    return made


def span(buffer: MpiBuffer, parts: Sequence[MpiBuffer], first: int, end: int) -> MpiBuffer:
    """Return parts `first` to `end` - 1 of a contiguous buffer as one buffer; `parts` are all of its parts."""
    begin = sum(part.nbytes for part in parts[:first])
    return buffer.part(begin, sum(part.nbytes for part in parts[first:end]))


def segments(buffer: MpiBuffer, nbytes: int) -> list[MpiBuffer]:
    """Split a buffer into pieces of `nbytes` bytes; the last one may be shorter."""
    return [buffer.part(begin, min(nbytes, buffer.nbytes - begin)) for begin in range(0, buffer.nbytes, nbytes)]


def below(size: int) -> int:
    """Return the largest power of two that is at most `size`."""
    return 1 << (size.bit_length() - 1)


def doublings(size: int) -> list[int]:
    """Return the powers of two that are less than `size`, from 1."""
    return [1 << power for power in range((size - 1).bit_length())]


# ---------------------------------------------------------------------- barrier


async def barrier_dissemination(c: Channel) -> None:
    """Synchronize all ranks by dissemination: in round k each signals rank + 2^k (Hensgen, Finkel and Manber, 1988)."""
    for distance in doublings(c.size):
        empty = MpiBuffer(0)
        await c.exchange(empty, (c.rank + distance) % c.size, empty, (c.rank - distance) % c.size)


async def barrier_doubling(c: Channel) -> None:
    """Synchronize all ranks by recursive doubling; a rank beyond a power of two signals a partner and waits for it."""
    empty, power = MpiBuffer(0), below(c.size)
    if c.rank >= power:
        await c.exchange(empty, c.rank - power, empty, c.rank - power)
        return
    beyond = c.rank + power < c.size
    if beyond:
        await c.recv(empty, c.rank + power)
    for distance in doublings(power):
        await c.exchange(empty, c.rank ^ distance, empty, c.rank ^ distance)
    if beyond:
        await c.send(empty, c.rank + power)


async def barrier_linear(c: Channel) -> None:
    """Synchronize all ranks through rank 0, which waits for a message from every rank and then answers all."""
    empty = MpiBuffer(0)
    if c.rank:
        await c.send(empty, 0)
        await c.recv(empty, 0)
        return
    await c.wait(*(c.irecv(empty, rank) for rank in range(1, c.size)))
    await c.wait(*[await c.isend(empty, rank) for rank in range(1, c.size)])


# ---------------------------------------------------------------------- trees

Tree = Callable[[int, int], tuple[int, list[int]]]
"""Returns parent and ordered children of (rank, number of ranks); rank 0 is the root and its own parent."""


def binary_tree(rank: int, size: int) -> tuple[int, list[int]]:
    """Return (parent, children) of a rank in a binary tree whose root is rank 0 (Open MPI's topo_build_tree)."""
    level = (rank + 1).bit_length() - 1
    width, place = 1 << level, rank + 1 - (1 << level)
    parent = place % (width // 2) + width // 2 - 1 if level else 0
    return parent, [child for child in (rank + width, rank + 2 * width) if child < size]


def near_binomial_tree(rank: int, size: int) -> tuple[int, list[int]]:
    """Return (parent, children) of a rank in a binomial tree whose children are ordered from the nearest rank on.

    It is the tree of Open MPI's topo_build_bmtree. Its root is rank 0.
    """
    children = [rank + distance for distance in doublings(size - rank) if distance > rank]
    return rank - below(rank) if rank else 0, children


def four_nomial_tree(rank: int, size: int) -> tuple[int, list[int]]:
    """Return (parent, children) of a rank in a tree of radix 4 whose root is rank 0 (topo_build_kmtree)."""
    mask = 1
    while mask < size and rank % (4 * mask) == 0:
        mask *= 4
    parent, children = rank // (4 * mask) * (4 * mask), []
    mask //= 4
    while mask:
        children += [rank + mask * number for number in (1, 2, 3) if rank + mask * number < size]
        mask //= 4
    return parent, children


def star(rank: int, size: int) -> tuple[int, list[int]]:
    """Return (parent, children) of a rank in a tree in which all other ranks are children of the root."""
    return 0, [] if rank else list(range(1, size))


def _binomial(c: Channel, root: int) -> tuple[int, int, list[int]]:
    """Return this rank's number from the root, the distance to its parent, and those to its children, nearest first.

    The parent's number has the lowest bit of the rank's number cleared. The distance is also the number of ranks in the
    subtree of the rank, which has fewer only where ranks end before; that of the root counts them, too.
    """
    relative = (c.rank - root) % c.size
    count = relative & -relative or below(2 * c.size - 1)
    return relative, count, [distance for distance in doublings(count) if relative + distance < c.size]


async def bcast_tree(c: Channel, buffer: MpiBuffer, root: int, *, tree: Tree) -> None:
    """Broadcast the root's buffer down a tree; each rank begins all sends at once, then waits (bcast_intra_generic)."""
    relative = (c.rank - root) % c.size
    parent, children = tree(relative, c.size)
    if relative:
        await c.recv(buffer, (parent + root) % c.size)
    await c.wait(*[await c.isend(buffer, (child + root) % c.size) for child in children])


async def reduce_tree(c: Channel, buffer: MpiBuffer, op: Op, root: int, *, tree: Tree) -> None:
    """Reduce the ranks' buffers up a tree into the root's; a rank receives the next while it combines the last one."""
    relative = (c.rank - root) % c.size
    parent, children = tree(relative, c.size)
    came: list[tuple[MpiRequest, MpiBuffer]] = []
    for number in range(len(children) + 1):
        if number < len(children):
            other = buffer.temporary()
            came.append((c.irecv(other, (children[number] + root) % c.size), other))
        if number:
            request, other = came.pop(0)
            await c.wait(request)
            await c.combine(op, buffer, other)
    if relative:
        await c.send(buffer, (parent + root) % c.size)


# ---------------------------------------------------------------------- broadcast


async def bcast_binomial(c: Channel, buffer: MpiBuffer, root: int) -> None:
    """Broadcast the root's buffer down a binomial tree."""
    relative, count, children = _binomial(c, root)
    if relative:
        await c.recv(buffer, (c.rank - count) % c.size)
    for distance in reversed(children):
        await c.send(buffer, (c.rank + distance) % c.size)


async def bcast_scatter_allgather(c: Channel, buffer: MpiBuffer, root: int, *, ring: bool) -> None:
    """Broadcast the root's buffer by a binomial scatter of its parts, and an allgather of these (van de Geijn).

    ring: whether the allgather goes around a ring, rather than by recursive doubling.
    """
    parts = split(buffer, c.size)
    relative, count, children = _binomial(c, root)
    end = min(relative + count, c.size)
    if relative:
        await c.recv(span(buffer, parts, relative, end), (c.rank - count) % c.size)
    for distance in reversed(children):
        await c.send(span(buffer, parts, relative + distance, end), (c.rank + distance) % c.size)
        end = relative + distance
    if ring or c.size != below(c.size):
        await _ring(c, parts, root)
    else:
        await _doubling(c, buffer, parts, root)


async def bcast_pipeline(c: Channel, buffer: MpiBuffer, root: int, *, segment: int) -> None:
    """Broadcast the root's buffer along a chain of ranks in segments of `segment` bytes: all its links are busy."""
    relative = (c.rank - root) % c.size
    ahead, behind = (c.rank + 1) % c.size, (c.rank - 1) % c.size
    sent: list[MpiRequest] = []
    for piece in segments(buffer, segment):
        if relative:
            await c.recv(piece, behind)
        if relative + 1 < c.size:
            sent.append(await c.isend(piece, ahead))
    await c.wait(*sent)


async def _ring(c: Channel, parts: Sequence[MpiBuffer], root: int = 0) -> None:
    """Allgather in a ring: pass each part on to the next rank. Rank r, counted from the root, begins with part r."""
    relative = (c.rank - root) % c.size
    right, left = (c.rank + 1) % c.size, (c.rank - 1) % c.size
    for step in range(c.size - 1):
        sent, received = (relative - step) % c.size, (relative - step - 1) % c.size
        await c.exchange(parts[sent], right, parts[received], left)


async def _doubling(c: Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer], root: int = 0) -> None:
    """Allgather by recursive doubling: exchange all parts so far, for a power of two of ranks."""
    relative = (c.rank - root) % c.size
    for distance in doublings(c.size):
        other = relative ^ distance
        mine, theirs = relative // distance * distance, other // distance * distance
        peer = (other + root) % c.size
        await c.exchange(
            span(buffer, parts, mine, mine + distance), peer, span(buffer, parts, theirs, theirs + distance), peer
        )


# ---------------------------------------------------------------------- reductions


async def reduce_binomial(c: Channel, buffer: MpiBuffer, op: Op, root: int) -> None:
    """Reduce up a binomial tree into the root's buffer; the buffers of the other ranks are overwritten."""
    relative, count, children = _binomial(c, root)
    other = buffer.temporary()
    for distance in children:
        await c.recv(other, (c.rank + distance) % c.size)
        await c.combine(op, buffer, other)
    if relative:
        await c.send(buffer, (c.rank - count) % c.size)


async def reduce_pipeline(c: Channel, buffer: MpiBuffer, op: Op, root: int, *, segment: int) -> None:
    """Reduce the ranks' buffers along a chain of ranks that ends at the root, in segments of `segment` bytes."""
    relative = (c.rank - root) % c.size
    nearer, farther = (c.rank - 1) % c.size, (c.rank + 1) % c.size
    sent: list[MpiRequest] = []
    for piece in segments(buffer, segment):
        if relative + 1 < c.size:
            other = piece.temporary()
            await c.recv(other, farther)
            await c.combine(op, piece, other)
        if relative:
            sent.append(await c.isend(piece, nearer))
    await c.wait(*sent)


async def reduce_rabenseifner(c: Channel, buffer: MpiBuffer, op: Op, root: int) -> None:
    """Reduce by a reduce-scatter with recursive halving, and a gather of the pieces at the root (Rabenseifner)."""
    active = await _fold(c, buffer, op)
    if active is not None:
        pieces, (first, end), given = await _halving(c, buffer, op, active)
        for distance in reversed(doublings(below(c.size))):  # gather at the first active rank
            peer = _unfolded(c, active ^ distance)
            if active & distance:
                await c.send(span(buffer, pieces, first, end), peer)
                break
            theirs = given.pop()
            await c.recv(span(buffer, pieces, *theirs), peer)
            first, end = min(first, theirs[0]), max(end, theirs[1])
    owner = _unfolded(c, 0)
    if owner != root:
        if c.rank == owner:
            await c.send(buffer, root)
        elif c.rank == root:
            await c.recv(buffer, owner)


async def _fold(c: Channel, buffer: MpiBuffer, op: Op) -> int | None:
    """Leave a power of two of active ranks: with r more ranks, the even ones of the first 2r send to the odd ones.

    Returns the number of this rank among the active ones; None if it is not active.
    """
    rest = c.size - below(c.size)
    if c.rank >= 2 * rest:
        return c.rank - rest
    if c.rank % 2 == 0:
        await c.send(buffer, c.rank + 1)
        return None
    other = buffer.temporary()
    await c.recv(other, c.rank - 1)
    await c.combine(op, buffer, other)
    return c.rank // 2


def _unfolded(c: Channel, active: int) -> int:
    """Return the rank that has this number among the active ranks of `_fold`."""
    rest = c.size - below(c.size)
    return active * 2 + 1 if active < rest else active + rest


async def _unfold(c: Channel, buffer: MpiBuffer) -> None:
    """Send the result to the ranks that `_fold` made inactive."""
    rest = c.size - below(c.size)
    if c.rank < 2 * rest:
        if c.rank % 2:
            await c.send(buffer, c.rank - 1)
        else:
            await c.recv(buffer, c.rank + 1)


Range = tuple[int, int]
"""A range of pieces of a buffer: the number of the first one, and that after the last one."""


async def _halving(c: Channel, buffer: MpiBuffer, op: Op, active: int) -> tuple[list[MpiBuffer], Range, list[Range]]:
    """Reduce-scatter by recursive halving: exchange half of the remaining pieces with a rank at twice the distance.

    So the longest messages go to the nearest rank, which is mostly on the same node. Returns the pieces, the range of
    them that this rank ends with, and the range that it gave away in each step.
    """
    power = below(c.size)
    pieces = split(buffer, power)
    other = buffer.temporary()
    first, end = 0, power
    given: list[Range] = []
    for distance in doublings(power):
        middle, peer = (first + end) // 2, _unfolded(c, active ^ distance)
        kept, away = ((middle, end), (first, middle)) if active & distance else ((first, middle), (middle, end))
        mine = span(buffer, pieces, *kept)
        theirs = other.part(0, mine.nbytes)
        await c.exchange(span(buffer, pieces, *away), peer, theirs, peer)
        await c.combine(op, mine, theirs)
        given.append(away)
        first, end = kept
    return pieces, (first, end), given


async def allreduce_recursive_doubling(c: Channel, buffer: MpiBuffer, op: Op) -> None:
    """Allreduce `buffer` in place, by exchanging and combining whole buffers with ranks at distances 1, 2, 4, …."""
    active = await _fold(c, buffer, op)
    if active is not None:
        other = buffer.temporary()
        for distance in doublings(below(c.size)):
            peer = _unfolded(c, active ^ distance)
            await c.exchange(buffer, peer, other, peer)
            await c.combine(op, buffer, other)
    await _unfold(c, buffer)


async def allreduce_rabenseifner(c: Channel, buffer: MpiBuffer, op: Op) -> None:
    """Allreduce `buffer` in place: reduce-scatter by recursive halving, allgather by doubling (Rabenseifner)."""
    active = await _fold(c, buffer, op)
    if active is not None:
        pieces, (first, end), given = await _halving(c, buffer, op, active)
        for distance in reversed(doublings(below(c.size))):
            peer, theirs = _unfolded(c, active ^ distance), given.pop()
            await c.exchange(span(buffer, pieces, first, end), peer, span(buffer, pieces, *theirs), peer)
            first, end = min(first, theirs[0]), max(end, theirs[1])
    await _unfold(c, buffer)


async def allreduce_ring(c: Channel, buffer: MpiBuffer, op: Op) -> None:
    """Allreduce `buffer` in place: a reduce-scatter in a ring, then an allgather in a ring."""
    parts = split(buffer, c.size)
    right, left = (c.rank + 1) % c.size, (c.rank - 1) % c.size
    other = parts[0].temporary()
    for step in range(c.size - 1):
        sent, received = (c.rank - step) % c.size, (c.rank - step - 1) % c.size
        theirs = other.part(0, parts[received].nbytes)
        await c.exchange(parts[sent], right, theirs, left)
        await c.combine(op, parts[received], theirs)
    turned = [parts[(number + 1) % c.size] for number in range(c.size)]
    await _ring(c, turned)


async def reduce_scatter_halving(
    c: Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer], into: MpiBuffer, op: Op
) -> None:
    """Reduce-scatter by recursive halving: each rank's result goes to `into`, and `buffer` is overwritten.

    parts: the part of `buffer` for each rank. If the number of ranks is no power of two, some ranks first give their
    data to a neighbour, which works for both.
    """
    rest, power = c.size - below(c.size), below(c.size)
    active = await _fold(c, buffer, op)
    bounds = [2 * number if number < rest else number + rest for number in range(power + 1)]
    if active is not None:
        other = buffer.temporary()
        first, end = 0, power
        for distance in reversed(doublings(power)):
            middle = first + distance
            kept, given = ((first, middle), (middle, end)) if active < middle else ((middle, end), (first, middle))
            mine = span(buffer, parts, bounds[kept[0]], bounds[kept[1]])
            theirs = other.part(0, mine.nbytes)
            peer = _unfolded(c, active ^ distance)
            await c.exchange(span(buffer, parts, bounds[given[0]], bounds[given[1]]), peer, theirs, peer)
            await c.combine(op, mine, theirs)
            first, end = kept
    if c.rank < 2 * rest:
        if c.rank % 2:
            await c.send(parts[c.rank - 1], c.rank - 1)
        else:
            await c.recv(into, c.rank + 1)
            return
    into.write(parts[c.rank].read())


async def reduce_scatter_pairwise(
    c: Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer], into: MpiBuffer, op: Op
) -> None:
    """Reduce-scatter by pairwise exchange: every rank receives its part from each other rank and combines it.

    buffer, parts: the rank's data, and the part of it for each rank. into: gets the rank's result.
    """
    mine = parts[c.rank]
    other = mine.temporary()
    for step in range(1, c.size):
        target, source = (c.rank + step) % c.size, (c.rank - step) % c.size
        await c.exchange(parts[target], target, other, source)
        await c.combine(op, mine, other)
    into.write(mine.read())


async def reduce_scatter_ring(
    c: Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer], into: MpiBuffer, op: Op
) -> None:
    """Reduce-scatter in a ring: each part travels around, each rank adds its data, and the last rank keeps it.

    buffer, parts: the rank's data, and the part of it for each rank. into: gets the rank's result.
    """
    right, left = (c.rank + 1) % c.size, (c.rank - 1) % c.size
    for step in range(1, c.size):
        received = parts[(c.rank - step - 1) % c.size]
        other = received.temporary()
        await c.exchange(parts[(c.rank - step) % c.size], right, other, left)
        await c.combine(op, received, other)
    into.write(parts[c.rank].read())


async def scan_linear(c: Channel, buffer: MpiBuffer, result: MpiBuffer, op: Op, *, inclusive: bool) -> None:
    """Compute prefix reductions one rank after the other: rank k gets the reduction over the ranks before it.

    inclusive: whether the rank's own data is included (MPI_Scan) or not (MPI_Exscan). buffer, result: the rank's data,
    and where its result goes.
    """
    if inclusive:
        result.write(buffer.read())
    if c.rank:
        other = buffer.temporary()
        await c.recv(other, c.rank - 1)
        if inclusive:
            await c.combine(op, result, other)
        else:
            await c.copy(result, other)
            await c.combine(op, buffer, other)
    if c.rank + 1 < c.size:
        await c.send(result if inclusive else buffer, c.rank + 1)


async def scan_recursive_doubling(c: Channel, buffer: MpiBuffer, result: MpiBuffer, op: Op, *, inclusive: bool) -> None:
    """Compute prefix reductions by recursive doubling: rank k gets the reduction over the ranks before it.

    inclusive: whether the rank's own data is included (MPI_Scan) or not (MPI_Exscan). buffer, result: the rank's data,
    and where its result goes.
    """
    partial, other = buffer.temporary(), buffer.temporary()
    partial.write(buffer.read())
    if inclusive:
        result.write(buffer.read())
    empty = not inclusive
    for distance in doublings(c.size):
        peer = c.rank ^ distance
        if peer < c.size:
            await c.exchange(partial, peer, other, peer)
            if c.rank > peer:
                await c.combine(op, partial, other)
                if empty:
                    await c.copy(result, other)
                    empty = False
                else:
                    await c.combine(op, result, other)
            else:
                await c.combine(op, partial, other)


# ---------------------------------------------------------------------- gather and scatter


async def gather_binomial(c: Channel, mine: MpiBuffer, parts: Sequence[MpiBuffer] | None, root: int) -> None:
    """Gather equal parts up a binomial tree: each rank's `mine` into the root's `parts` (None elsewhere)."""
    relative, count, children = _binomial(c, root)
    room = mine.temporary(mine.nbytes * min(count, c.size - relative))
    room.part(0, mine.nbytes).write(mine.read())
    for distance in children:
        came = min(distance, c.size - relative - distance)
        await c.recv(room.part(distance * mine.nbytes, came * mine.nbytes), (c.rank + distance) % c.size)
    if relative:
        await c.send(room, (c.rank - count) % c.size)
    if parts is not None:
        for number in range(c.size):
            parts[(root + number) % c.size].write(room.part(number * mine.nbytes, mine.nbytes).read())


async def gather_linear(c: Channel, mine: MpiBuffer, parts: Sequence[MpiBuffer] | None, root: int) -> None:
    """Gather by sending each rank's part, `mine`, straight to the root, which stores it in `parts`."""
    if parts is None:
        await c.send(mine, root)
        return
    requests = [c.irecv(part, source) for source, part in enumerate(parts) if source != root]
    await c.copy(parts[root], mine)
    await c.wait(*requests)


async def gather_synchronized(c: Channel, mine: MpiBuffer, parts: Sequence[MpiBuffer] | None, root: int) -> None:
    """Gather at the root, which asks each rank for the first piece of its part; the rest follows (linear_sync).

    It is Open MPI's linear_sync algorithm. mine: this rank's part. parts: at the root, where each rank's part goes;
    None elsewhere.
    """
    empty = MpiBuffer(0)
    first = min(mine.nbytes, (32 << 10) if mine.nbytes > 92160 else 1 << 10)
    if parts is None:
        await c.recv(empty, root)
        await c.send(mine.part(0, first), root)
        await c.send(mine.part(first, mine.nbytes - first), root)
        return
    rests = []
    for source in range(c.size):
        if source != root:
            begin = c.irecv(parts[source].part(0, first), source)
            await c.send(empty, source)
            rests.append(c.irecv(parts[source].part(first, parts[source].nbytes - first), source))
            await c.wait(begin)
    await c.copy(parts[root], mine)
    await c.wait(*rests)


async def scatter_binomial(c: Channel, parts: Sequence[MpiBuffer] | None, mine: MpiBuffer, root: int) -> None:
    """Scatter equal parts down a binomial tree: the root's `parts` (None elsewhere) into each rank's `mine`."""
    relative, count, children = _binomial(c, root)
    room = mine.temporary(mine.nbytes * min(count, c.size - relative))
    if parts is not None:
        for number in range(c.size):
            room.part(number * mine.nbytes, mine.nbytes).write(parts[(root + number) % c.size].read())
    else:
        await c.recv(room, (c.rank - count) % c.size)
    for distance in reversed(children):
        gone = min(distance, c.size - relative - distance)
        await c.send(room.part(distance * mine.nbytes, gone * mine.nbytes), (c.rank + distance) % c.size)
    mine.write(room.part(0, mine.nbytes).read())


async def scatter_linear(
    c: Channel, parts: Sequence[MpiBuffer] | None, mine: MpiBuffer, root: int, *, at_once: bool = True
) -> None:
    """Scatter by sending the root's `parts` straight to each rank's `mine`: all `at_once`, or one by one."""
    if parts is None:
        await c.recv(mine, root)
        return
    requests = []
    for target, part in enumerate(parts):
        if target != root:
            requests.append(await c.isend(part, target))
            if not at_once:
                await c.wait(requests.pop())
    await c.copy(mine, parts[root])
    await c.wait(*requests)


# ---------------------------------------------------------------------- allgather


async def allgather_recursive_doubling(c: Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer]) -> None:
    """Allgather by recursive doubling, for 2^k ranks; each rank's own of the `parts` lies in `buffer` already."""
    await _doubling(c, buffer, parts)


async def allgather_ring(c: Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer]) -> None:
    """Allgather in a ring: each of `parts` travels around all ranks; each rank's own lies in `buffer` already."""
    await _ring(c, parts)


async def allgather_neighbours(c: Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer]) -> None:
    """Allgather by exchanges with the two neighbours in turn, two parts at a time; in a ring if the size is odd.

    parts: the parts of `buffer` by rank; each rank's own is filled before, all after. J. Chen, Y. Zhang, L. Zhang and
    W. Yuan, Performance Evaluation of Allgather Algorithms on Terascale Linux Cluster with Fast Ethernet, 2005.
    """
    if c.size % 2:
        await _ring(c, parts)
        return
    way = 1 if c.rank % 2 == 0 else -1
    first = c.rank - c.rank % 2
    neighbours = (c.rank + way) % c.size, (c.rank - way) % c.size
    await c.exchange(parts[c.rank], neighbours[0], parts[neighbours[0]], neighbours[0])
    sent, came = first, [first, first]
    for step in range(1, c.size // 2):
        turn = step % 2
        came[turn] = (came[turn] + (2 * way if turn == 0 else -2 * way)) % c.size
        received = buffer.temporary(sum(part.nbytes for part in parts[came[turn] : came[turn] + 2]))
        packed = joined(parts[sent : sent + 2])
        await c.exchange(packed, neighbours[turn], received, neighbours[turn])
        spread(received, parts[came[turn] : came[turn] + 2])
        sent = came[turn]


async def allgather_bruck(c: Channel, buffer: MpiBuffer, parts: Sequence[MpiBuffer]) -> None:
    """Allgather `parts` of `buffer` by Bruck's algorithm, for any number of ranks and equal or unequal parts."""
    order = [(c.rank + number) % c.size for number in range(c.size)]
    have = 1
    while have < c.size:
        count = min(have, c.size - have)
        target, source = (c.rank - have) % c.size, (c.rank + have) % c.size
        sent = joined([parts[number] for number in order[:count]])
        came = [parts[number] for number in order[have : have + count]]
        received = buffer.temporary(sum(part.nbytes for part in came))
        await c.exchange(sent, target, received, source)
        spread(received, came)
        have += count


def joined(parts: Sequence[MpiBuffer]) -> MpiBuffer:
    """Return a temporary buffer with the parts one after the other; a single part is returned itself."""
    if len(parts) == 1:
        return parts[0]
    room = parts[0].temporary(sum(part.nbytes for part in parts))
    begin = 0
    for part in parts:
        room.part(begin, part.nbytes).write(part.read())
        begin += part.nbytes
    return room


def spread(whole: MpiBuffer, parts: Sequence[MpiBuffer]) -> None:
    """Write the bytes of the buffer `whole` to the parts, one part after the other."""
    begin = 0
    for part in parts:
        part.write(whole.part(begin, part.nbytes).read())
        begin += part.nbytes


# ---------------------------------------------------------------------- alltoall


async def alltoall_bruck(c: Channel, sent: Sequence[MpiBuffer], received: Sequence[MpiBuffer]) -> None:
    """Alltoall of equal short parts (`sent`, `received`: one per rank) by Bruck's algorithm, in log2(ranks) steps."""
    room = [sent[(c.rank + number) % c.size].temporary() for number in range(c.size)]
    for number, part in enumerate(room):
        part.write(sent[(c.rank + number) % c.size].read())
    for distance in doublings(c.size):
        moved = [number for number in range(c.size) if number & distance]
        packed = joined([room[number] for number in moved])
        came = packed.temporary()
        await c.exchange(packed, (c.rank + distance) % c.size, came, (c.rank - distance) % c.size)
        spread(came, [room[number] for number in moved])
    for number, part in enumerate(room):
        received[(c.rank - number) % c.size].write(part.read())


async def alltoall_scattered(
    c: Channel, sent: Sequence[MpiBuffer], received: Sequence[MpiBuffer], *, throttle: int | None = None
) -> None:
    """Alltoall (`sent`, `received`: one part per rank) with all messages at once, or `throttle` of them at a time."""
    width = throttle or c.size
    await c.copy(received[c.rank], sent[c.rank])
    for begin in range(1, c.size, width):
        numbers = range(begin, min(begin + width, c.size))
        requests = [c.irecv(received[(c.rank + n) % c.size], (c.rank + n) % c.size) for n in numbers]
        for number in numbers:
            target = (c.rank - number) % c.size
            requests.append(await c.isend(sent[target], target))
        await c.wait(*requests)


async def alltoall_pairwise(
    c: Channel, sent: Sequence[MpiBuffer], received: Sequence[MpiBuffer], *, in_pairs: bool = True
) -> None:
    """Alltoall (`sent`, `received`: a part per rank) in steps: in each, a rank sends to one and receives from one.

    in_pairs: whether these two are the same rank, which needs a power of two of ranks.
    """
    await c.copy(received[c.rank], sent[c.rank])
    for step in range(1, c.size):
        if in_pairs and c.size == below(c.size):
            target = source = c.rank ^ step
        else:
            target, source = (c.rank + step) % c.size, (c.rank - step) % c.size
        await c.exchange(sent[target], target, received[source], source)


Algorithm = Callable[..., Awaitable[None]]
