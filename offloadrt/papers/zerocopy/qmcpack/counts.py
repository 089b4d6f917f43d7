"""How many kernels, copies and allocations a run makes, and into which parts of the program they fall.

The paper publishes the calls of S2 with 1 and with 8 host threads (its Table I; claims of role `input`); between them
the counts are interpolated linearly, which splits each into a part that every crowd makes for itself and a part that
all walkers make together, whatever the number of crowds. The published number of copies does not grow with the size.

What a crowd does follows QMCPACK's source (78340fd6): `structure.MOVE` for each electron, `structure.JOB` for each
batch of the non-local pseudopotential. Kernels and copies of a crowd are both published, so that moves and jobs follow
from the two; the number of jobs can be given instead.
"""

from __future__ import annotations

import attrs

from offloadrt.papers.zerocopy.qmcpack.structure import (
    COPIES_PER_WALKER,
    JOB,
    JOB_UPDATES,
    MOVE,
    MOVE_DATA_COPIES,
    MOVE_UPDATES,
    SHARED_COPIES,
    Size,
    copies_of,
)

START_UP_COPIES = 3
"""Copies that the runtime makes when it loads the program (claim mi300a.table1.izc_init)."""


@attrs.frozen
class Published:
    """A count of Table I, over all threads together."""

    with_one: int
    """The count with 1 host thread."""
    with_eight: int
    """The count with 8 host threads."""

    def at(self, threads: int) -> int:
        """Return the count with `threads` host threads, on the line through both."""
        return round(self.with_one + (self.with_eight - self.with_one) * (threads - 1) / 7)

    @property
    def of_a_crowd(self) -> int:
        """Return what one more host thread adds."""
        return (self.with_eight - self.with_one) // 7


KERNELS = Published(99_627, 738_483)
COPIES = Published(307_607, 1_124_258)
ALLOCATIONS = Published(23_277, 20_848)
START_UP_ALLOCATIONS = Published(19, 90)
"""Pool allocations of the runtime itself, for code objects, arguments of kernels and staging memory: not the program's
(claim mi300a.table1.izc_init). How many are emulated follows from the kernels' numbers of arguments; it is fewer, for
scalars that real kernels take besides are not in `structure`."""

WARM_UP_MOVES = 12
"""Moves of a crowd before the measured time: the first hundred launches, in which memory is first touched (the paper).
"""


class PlanError(ValueError):
    """Counts that the program's structure cannot make."""


def part(total: int, number: int, of: int) -> int:
    """Return how much of `total` falls to part `number` when it is divided evenly; all parts add up to it."""
    return total * (number + 1) // of - total * number // of


@attrs.frozen
class MonteCarloStep:
    """What one crowd does in one Monte Carlo step."""

    moves: int
    jobs: int
    updates: int
    """Copies of walkers' matrices to the host, each a `target update` of its own."""
    reallocations: int


@attrs.frozen
class CrowdPlan:
    """What one host thread does with its crowd."""

    walkers: int
    """Walkers of the crowd: what its batched kernels work on."""
    initialised: int
    """Walkers that are set up in this run: fewer when only a fraction runs."""
    blocks: int
    """Small objects of the walkers, each an allocation of its own."""
    orbital_kernels: int
    """Kernels that evaluate the orbitals of walkers one by one in the initialisation."""
    warm_up_moves: int
    warm_up_jobs: int
    steps: tuple[MonteCarloStep, ...]
    extra_kernels: int
    """Distance tables on top of the moves, so that the published number of kernels is met exactly."""


@attrs.frozen
class Plan:
    """What all crowds do; the counts are those of the program, without the runtime's start-up calls."""

    crowds: tuple[CrowdPlan, ...]
    kernels: int
    attached_copies: int
    """Copies of `always` maps on target directives."""
    data_copies: int
    """Copies of `always` maps on `target data`."""
    update_copies: int
    """Copies of stand-alone `target update` directives."""
    allocations: int
    moves: int
    jobs: int
    electrons: int

    @property
    def copies(self) -> int:
        """Return the copies that the program asks for under Copy."""
        return self.attached_copies + self.data_copies + self.update_copies

    @property
    def measured_moves(self) -> int:
        """Return the moves of all crowds after the warm-up."""
        return sum(step.moves for crowd in self.crowds for step in crowd.steps)


def plan(
    size: Size,
    threads: int,
    walkers: int,
    fixed_allocations: tuple[int, int],
    allocations_per_walker: int,
    reallocations: int,
    fraction: float = 1.0,
    jobs: int | None = None,
) -> Plan:
    """Plan a run of `fraction` of the steps.

    `fixed_allocations` are those of the program and those of each crowd; `allocations_per_walker` are each walker's
    large arrays. `jobs` are the batches of the non-local pseudopotential for each crowd over the full run; None derives
    them from the published copies. Raises PlanError when the counts do not suffice.
    """
    if walkers < threads:
        raise PlanError(f"{walkers} walkers cannot be divided over {threads} threads")
    per_move, per_job = len(MOVE), len(JOB)
    kernels, copies = KERNELS.of_a_crowd, COPIES.of_a_crowd
    move_copies = copies_of(MOVE) + MOVE_DATA_COPIES + MOVE_UPDATES
    job_copies = copies_of(JOB) + JOB_UPDATES
    if jobs is None:
        jobs = (copies * per_move - kernels * move_copies) // (job_copies * per_move - move_copies * per_job)
    moves, extra = divmod(kernels - jobs * per_job, per_move)
    walker_kernels = KERNELS.at(threads) - threads * kernels
    initial_copies = START_UP_COPIES + SHARED_COPIES + COPIES_PER_WALKER * walkers + 2 * walker_kernels
    updates = COPIES.at(threads) - threads * (moves * move_copies + jobs * job_copies) - initial_copies
    shared, of_a_crowd = fixed_allocations
    own = ALLOCATIONS.at(threads) - START_UP_ALLOCATIONS.at(threads)
    blocks = own - shared - threads * of_a_crowd - walkers * allocations_per_walker - reallocations
    for name, count in (("moves", moves), ("copies of walkers", updates), ("small allocations", blocks)):
        if count < 0:
            raise PlanError(f"{-count} {name} too many for the published counts with {threads} threads")

    def scaled(total: int) -> int:
        return max(1, round(total * fraction))

    moves, updates, initialised = scaled(moves), round(updates * fraction), max(threads, round(walkers * fraction))
    jobs, extra, blocks = round(jobs * fraction), round(extra * fraction), round(blocks * fraction)
    walker_kernels, reallocations = round(walker_kernels * fraction), round(reallocations * fraction)
    warm_up = min(moves - 1, scaled(WARM_UP_MOVES))
    crowds = tuple(
        CrowdPlan(
            walkers=part(walkers, number, threads),
            initialised=part(initialised, number, threads),
            blocks=part(blocks, number, threads),
            orbital_kernels=part(walker_kernels, number, threads),
            warm_up_moves=warm_up,
            warm_up_jobs=min(1, jobs),
            steps=_steps(
                moves - warm_up,
                jobs - min(1, jobs),
                part(updates, number, threads),
                part(reallocations, number, threads),
                size.electrons,
            ),
            extra_kernels=extra,
        )
        for number in range(threads)
    )
    return Plan(
        crowds=crowds,
        kernels=threads * (moves * per_move + jobs * per_job + extra) + walker_kernels,
        attached_copies=threads * (moves * copies_of(MOVE) + jobs * copies_of(JOB)) + 2 * walker_kernels,
        data_copies=threads * moves * MOVE_DATA_COPIES,
        update_copies=threads * (moves * MOVE_UPDATES + jobs * JOB_UPDATES)
        + updates
        + SHARED_COPIES
        + COPIES_PER_WALKER * initialised,
        allocations=shared + threads * of_a_crowd + initialised * allocations_per_walker + blocks + reallocations,
        moves=threads * moves,
        jobs=threads * jobs,
        electrons=size.electrons,
    )


def _steps(moves: int, jobs: int, updates: int, reallocations: int, electrons: int) -> tuple[MonteCarloStep, ...]:
    """Cut moves into steps of `electrons` moves, the last one shorter, and divide the rest evenly over the steps."""
    count = max(1, -(-moves // electrons))
    return tuple(
        MonteCarloStep(
            moves=min(electrons, moves - number * electrons),
            jobs=part(jobs, number, count),
            updates=part(updates, number, count),
            reallocations=part(reallocations, number, count),
        )
        for number in range(count)
    )
