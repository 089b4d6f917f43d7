"""The target directives of QMCPACK's batched drivers, in the order in which a crowd runs them.

Read off the public source at 78340fd6 (OpenMP offload without a vendor's library: `MatrixUpdateOMPTarget`): which
arrays a directive transfers itself (`map(always, to: ...)`, `map(always, from: ...)`), which transfers are `target
update` directives of their own, which are on `target data`, and which loops a kernel has. One thing is simplified: a
directive with `nowait` whose `taskwait` follows at once runs undeferred. This loses no overlap, but leaves out what the
runtime spends on the deferred task.

The second part plans how many kernels, copies and allocations a run makes, and in which parts of the program. The paper
publishes the calls of S2 with 1 and with 8 host threads (its Table I; claims of role `input`). Between them the counts
are interpolated linearly, which splits each into a part that every crowd makes for itself and a part that all walkers
make together, whatever the number of crowds. The published number of copies does not grow with the size. A crowd runs
`MOVE` for each electron, and `JOB` for each batch of the non-local pseudopotential. The numbers of moves and jobs
follow from a crowd's kernels and copies, which are both published; the number of jobs can be given instead.

The last part has the inputs that the paper leaves open about QMCPACK: each is a range with its source, and a run
chooses a value in it.
"""

from __future__ import annotations

from typing import Literal

import attrs

from offloadrt.study.inputs import InputRange

DOUBLE = 8
SINGLE = 4

_WALKERS = {1: 1024, 2: 512, 4: 256, 8: 128, 16: 64, 24: 32, 32: 16, 48: 16, 64: 16, 128: 16}
"""QMCPACK's preset number of walkers (CMakeLists.txt), by the size's n."""

_SPLINE_GB = {1: 0.6, 2: 0.7, 4: 0.9, 8: 1.3, 16: 2.1, 24: 2.85, 32: 3.6, 48: 5.4, 64: 7.2, 128: 14.3}
"""The spline table's memory in GB in QMCPACK's guide, by n. Below 8 it is extrapolated, at 24 and 48 interpolated."""

_WALKER_GB = 18e-3 / 64
"""A walker's memory in GB in QMCPACK's guide, divided by n squared (18 MB at S8, 4.5 GB at S128)."""

CAPACITY = 128 * (1 << 30)
"""Memory of the paper's machine in bytes. It bounds the walkers: host and device copies of all arrays have to fit."""


@attrs.frozen
class Size:
    """A problem size of QMCPACK, which the paper calls S`n`, such as S2."""

    n: int

    @property
    def name(self) -> str:
        """Return the size's name in the paper."""
        return f"S{self.n}"

    @property
    def atoms(self) -> int:
        """Return the number of ions in the supercell."""
        return 4 * self.n

    @property
    def electrons(self) -> int:
        """Return the number of electrons of both spins. One step moves each of them once."""
        return 48 * self.n

    @property
    def orbitals(self) -> int:
        """Return the number of electrons of one spin, which is the number of rows and columns of a Slater matrix."""
        return 24 * self.n

    @property
    def matrix_bytes(self) -> int:
        """Return the bytes of the inverse of one Slater matrix, whose elements are doubles."""
        return DOUBLE * self.orbitals**2

    @property
    def spline_bytes(self) -> int:
        """Return the bytes of the table of spline coefficients that all walkers share."""
        return int(_SPLINE_GB[self.n] * 1e9)

    def walkers(self) -> int:
        """Return QMCPACK's preset number of walkers, or as many as fit into memory: at least 8.

        Each takes memory of the host and of the device, together up to nine tenths of the machine's memory.
        """
        walker_bytes = _WALKER_GB * 1e9 * self.n**2
        fitting = int((0.9 * CAPACITY / 2 - self.spline_bytes) / walker_bytes) // 8 * 8
        return max(8, min(_WALKERS[self.n], fitting))


SIZES = {f"S{n}": Size(n) for n in _WALKERS}
"""The sizes by name."""


Counts = tuple[float, float]
"""The flops and bytes that one walker causes."""

POINTER = 8
QUADRATURE = 12
"""Points around an ion at which a job of the non-local pseudopotential evaluates the wave function."""
SPLINE_POINTS = 64
"""The number of coefficients of a tricubic B-spline that one orbital reads at one point."""
TEAM_CHUNK = 512
"""How many orbitals or electrons one team processes (`ChunkSizePerTeam`)."""
THREADS_PER_TEAM = 256
"""LLVM's default number of threads per team on AMD devices."""


@attrs.frozen
class KernelKind:
    """A target region of QMCPACK: its kernel, its arrays, and how it is distributed over teams.

    `source`: where it is in QMCPACK's source. `to`, `from_`: the arrays that it always transfers; `uses`: its other
    arrays.
    """

    name: str
    source: str
    to: str | None = None
    from_: str | None = None
    uses: tuple[str, ...] = ()
    length: str = "orbitals"
    """What the inner loop runs over: orbitals, electrons, atoms or walkers."""
    flops: float = 0.0
    """Flops of one element of the inner loop."""
    bytes: float = 0.0
    """Bytes of one element of the inner loop, moved to or from memory."""
    square: bool = False
    """Whether there is a loop over orbitals around the inner one."""
    points: int = 1
    """The number of positions for each walker."""
    distribute: Literal["walkers", "chunks", "rows", "elements"] = "walkers"
    """What one iteration of `distribute` is, for each walker and point: "walkers", all of its loops; "chunks",
    TEAM_CHUNK elements of the inner loop; "rows", one iteration of the outer loop; "elements", an element for each
    thread, as in a `teams distribute parallel for`.
    """
    num_teams: bool = True
    """Whether the directive gives the number of teams: one for each iteration of `distribute`."""

    @property
    def arrays(self) -> tuple[str, ...]:
        """Return the names of all arrays in the region, the transferred ones first."""
        return (*(name for name in (self.to, self.from_) if name is not None), *self.uses)

    def loop(self, size: Size) -> int:
        """Return how many iterations the inner loop has at a problem size."""
        return {"orbitals": size.orbitals, "electrons": size.electrons, "atoms": size.atoms, "walkers": 1}[self.length]

    def work(self, size: Size) -> Counts:
        """Return the flops and bytes of the kernel for one walker at a problem size."""
        elements = self.loop(size) * (size.orbitals if self.square else 1) * self.points
        return self.flops * elements, self.bytes * elements

    def teams(self, size: Size, walkers: int, default_teams: int) -> int:
        """Return the number of teams of a launch for `walkers` walkers at a problem size.

        default_teams: the most teams that the runtime starts where the directive does not give a number.
        """
        wanted = self._distributed(size, walkers)
        return max(1, wanted if self.num_teams else min(wanted, default_teams))

    def rounds(self, size: Size) -> int:
        """Return how many iterations of the inner loop a thread executes for each iteration of `distribute`.

        size: the problem size. A team's threads share the inner loop.
        """
        part = {"chunks": min(self.loop(size), TEAM_CHUNK), "elements": 1}.get(self.distribute, self.loop(size))
        return -(-part // THREADS_PER_TEAM)

    def turns(self, size: Size, walkers: int, default_teams: int) -> int:
        """Return how many iterations of `distribute` a team executes in turn, one after another.

        It is 1 if `distribute` is over the elements that the inner loop computes: then a thread does not wait, between
        two iterations, for the others of its team. size, walkers: the problem size, and the walkers of a launch.
        default_teams: the most teams where the directive does not give a number.
        """
        if self.distribute == "elements":
            return 1
        return -(-self._distributed(size, walkers) // self.teams(size, walkers, default_teams))

    def _distributed(self, size: Size, walkers: int) -> int:
        """Return the number of iterations of `distribute`; for single elements, of teams with a thread for each."""
        loop, rows = self.loop(size), size.orbitals if self.square else 1
        if self.distribute == "elements":
            return -(-walkers * self.points * rows * loop // THREADS_PER_TEAM)
        parts = {"walkers": 1, "chunks": -(-loop // TEAM_CHUNK), "rows": rows}[self.distribute]
        return walkers * self.points * parts


_DETERMINANT = "MatrixUpdateOMPTarget.h"
_SPLINE = "SplineC2ROMPTarget.cpp"
_PAIRS = "BsplineFunctor.cpp"
_SPLINE_ARRAYS = ("spline", "scratch", "results", "kpoints", "lattice")

GRADIENT = KernelKind(
    "gradient", _DETERMINANT, "gradient pointers", "gradients", ("inverse", "derivatives"), flops=6, bytes=4 * DOUBLE
)
DISTANCES = KernelKind(
    "distances", "SoaDistanceTableAAOMPTarget.h", None, None, ("positions", "new positions", "distances"),
    length="electrons", flops=60, bytes=(2 * 3 + 2 * 4) * DOUBLE, distribute="chunks",
)  # fmt: skip
ORBITALS = KernelKind(
    "orbitals and ratios", _SPLINE, "orbital input", "ratios", (*_SPLINE_ARRAYS, "orbitals"),
    flops=2 * SPLINE_POINTS * 10 + 60, bytes=2 * SPLINE_POINTS * SINGLE + 2 * 10 * SINGLE + 6 * DOUBLE,
    distribute="chunks",
)  # fmt: skip
PAIRS = KernelKind(
    "pair functions", _PAIRS, "pair input", "pair values", ("groups", "distances", "pair terms"),
    length="electrons", flops=40, bytes=(4 + 3) * DOUBLE, num_teams=False,
)  # fmt: skip
ACCEPT = KernelKind(
    "accepted positions", "RealSpacePositionsOMPTarget.h", "accepted", None, ("positions", "new positions"),
    length="walkers", flops=0, bytes=2 * 3 * DOUBLE + POINTER, distribute="elements", num_teams=False,
)  # fmt: skip
PRODUCT = KernelKind(
    "row times inverse", "ompBLAS.cpp", None, None, ("update pointers", "inverse", "orbitals", "row product"),
    flops=2, bytes=DOUBLE, square=True, distribute="rows",
)  # fmt: skip
SAVE_ROW = KernelKind(
    "save row", _DETERMINANT, None, None, ("update pointers", "inverse", "row copy", "derivatives"),
    flops=0, bytes=2 * (1 + 4) * DOUBLE,
)  # fmt: skip
RANK_ONE = KernelKind(
    "rank-one update", "ompBLAS.cpp", None, None, ("update pointers", "inverse", "row product", "row copy"),
    flops=2, bytes=2 * DOUBLE, square=True, distribute="elements", num_teams=False,
)  # fmt: skip
PAIRS_UPDATE = KernelKind(
    "pair functions accepted", _PAIRS, "pair update input", "pair sums", ("groups", "distances", "pair values"),
    length="electrons", flops=40, bytes=(4 + 2 * 5) * DOUBLE, num_teams=False,
)  # fmt: skip

PROPOSE = (GRADIENT, DISTANCES, ORBITALS, PAIRS)
"""The kernels before the host's decision. Before `distances` the host updates `NEW_POSITIONS` on the device."""
DECIDED = ACCEPT
"""The kernel after the host's decision."""
UPDATE = (PRODUCT, SAVE_ROW, RANK_ONE)
"""The kernels inside the `target data` that transfers `UPDATE_POINTERS`."""
MOVE = (*PROPOSE, DECIDED, *UPDATE, PAIRS_UPDATE)
"""All kernels of the move of one electron."""
NEW_POSITIONS = "new positions"
UPDATE_POINTERS = "update pointers"
MOVE_UPDATES = 1
MOVE_DATA_COPIES = 1

_TABLES = "SoaDistanceTableABOMPTarget.h"
JOB = (
    KernelKind("ions to points", _TABLES, "ion input", None, ("ion distances",), length="atoms",
               flops=30, bytes=(3 + 4) * DOUBLE, points=QUADRATURE, distribute="chunks"),
    KernelKind("electrons to points", _TABLES, "electron input", None, ("electron distances", "positions"),
               length="electrons", flops=30, bytes=(3 + 4) * DOUBLE, points=QUADRATURE, distribute="chunks"),
    KernelKind("orbital ratios", _SPLINE, "ratio input", "ratio parts", _SPLINE_ARRAYS,
               flops=2 * SPLINE_POINTS + 10, bytes=2 * SPLINE_POINTS * SINGLE + 4 * DOUBLE, points=QUADRATURE,
               distribute="chunks"),
    KernelKind("pair ratios", _PAIRS, "pair ratio input", "pair ratios", ("groups", "electron distances"),
               length="electrons", flops=20, bytes=DOUBLE, points=QUADRATURE, num_teams=False),
    KernelKind("ion ratios", _PAIRS, "ion ratio input", "ion ratios", ("groups", "ion distances"), length="atoms",
               flops=20, bytes=DOUBLE, points=QUADRATURE, num_teams=False),
)  # fmt: skip
"""The kernels of one batch of the non-local pseudopotential: an electron near an ion in each walker of the crowd."""
JOB_POINTS = "reference electrons"
JOB_RESULT = "ion distances"
JOB_UPDATES = 2
"""The number of `target update`s in a batch: `JOB_POINTS` to the device before the kernels, `JOB_RESULT` to the host
after the distance tables.
"""

INITIAL_ORBITALS = KernelKind(
    "orbitals of one walker", _SPLINE, "point input", "point results", (*_SPLINE_ARRAYS,),
    flops=2 * SPLINE_POINTS * 10 + 60, bytes=2 * SPLINE_POINTS * SINGLE + 10 * SINGLE + 5 * DOUBLE,
    distribute="chunks",
)  # fmt: skip
"""`evaluateVGLMultiPos`, walker by walker in the initialisation."""

SHARED_COPIES = 12
"""How many copies the bulk transfer makes: spline and its descriptor, k-points and lattice (4), pair coefficients (4),
groups (2).
"""
COPIES_PER_WALKER = 7
"""How many copies set up a walker: inverse and derivatives of two spins, positions, two distance tables (`this[:1]`).
"""


def copies_of(kinds: tuple[KernelKind, ...]) -> int:
    """Return how many copies the maps of these kinds of regions request under the memory configuration `copy`."""
    return sum((kind.to is not None) + (kind.from_ is not None) for kind in kinds)


FEWEST_MAP_ITEMS = max(len(kind.arrays) for kind in (*MOVE, *JOB))
"""The largest number of items that a region names in the source. A run can map more, resident arrays."""


@attrs.frozen
class Buffer:
    """An array of a crowd, the walkers (Monte Carlo samples) of one host thread.

    It has `per_walker` + `per_orbital` · orbitals + `per_electron` · electrons bytes for each walker, and at least
    `floor` in all, as some arrays have one size for any number of walkers.
    """

    name: str
    per_walker: float
    per_orbital: float = 0.0
    per_electron: float = 0.0
    floor: int = 64

    def nbytes(self, size: Size, walkers: int) -> int:
        """Return the bytes of the array for a problem size and a number of walkers, a multiple of 8."""
        each = self.per_walker + self.per_orbital * size.orbitals + self.per_electron * size.electrons
        return max(self.floor, -(-int(each * walkers) // 8) * 8)


CROWD_BUFFERS = (
    Buffer("gradient pointers", 2 * POINTER),
    Buffer("gradients", 3 * DOUBLE),
    Buffer("inverse", POINTER),
    Buffer("derivatives", 2 * POINTER),
    Buffer("positions", POINTER),
    Buffer(NEW_POSITIONS, 3 * DOUBLE),
    Buffer("distances", 0, per_electron=2 * 4 * DOUBLE),
    Buffer("orbital input", 6 * SINGLE + 2 * POINTER),
    Buffer("ratios", 4 * DOUBLE),
    Buffer("scratch", 0, per_orbital=10 * SINGLE),
    Buffer("results", 0, per_orbital=5 * DOUBLE),
    Buffer("orbitals", 0, per_orbital=5 * DOUBLE),
    Buffer("pair input", 0, floor=64),
    Buffer("pair values", 5 * DOUBLE),
    Buffer("pair terms", 0, per_electron=3 * DOUBLE),
    Buffer("pair update input", 3 * POINTER),
    Buffer("pair sums", 0, per_electron=5 * DOUBLE),
    Buffer("accepted", POINTER + 4),
    Buffer(UPDATE_POINTERS, 6 * POINTER + DOUBLE),
    Buffer("row product", 0, per_orbital=DOUBLE),
    Buffer("row copy", 0, per_orbital=DOUBLE),
    Buffer("ones", DOUBLE),
    Buffer("zeros", DOUBLE),
    Buffer(JOB_POINTS, 4 * QUADRATURE),
    Buffer("ion input", QUADRATURE * (3 * DOUBLE + 4) + POINTER),
    Buffer("ion distances", QUADRATURE * 4 * 4 * DOUBLE),
    Buffer("electron input", QUADRATURE * (3 * DOUBLE + 4) + POINTER),
    Buffer("electron distances", 0, per_electron=QUADRATURE * 4 * DOUBLE),
    Buffer("ratio input", QUADRATURE * (6 * SINGLE + 4) + POINTER),
    Buffer("ratio parts", QUADRATURE * DOUBLE),
    Buffer("pair ratio input", 0, floor=64),
    Buffer("pair ratios", QUADRATURE * DOUBLE),
    Buffer("ion ratio input", 0, floor=64),
    Buffer("ion ratios", QUADRATURE * DOUBLE),
    Buffer("point input", 6 * SINGLE),
    Buffer("point results", 0, per_orbital=5 * DOUBLE),
)
"""The arrays of a crowd that its clauses and kernels need."""

SHARED_BUFFERS = ("spline", "spline descriptor", "kpoints", "k-vectors", "lattice", "reciprocal lattice",
                  "pair coefficients uu", "pair coefficients ud", "ion coefficients O", "ion coefficients Ni",
                  "groups", "group offsets")  # fmt: skip
"""Arrays that all crowds share; each is transferred once at the start."""


START_UP_COPIES = 3
"""How many copies the runtime makes when it loads the program (claim mi300a.table1.izc_init)."""


@attrs.frozen
class Published:
    """A count that Table I of the paper gives for two numbers of threads, summed over all threads."""

    with_one: int
    """The count with 1 host thread."""
    with_eight: int
    """The count with 8 host threads."""

    def at(self, threads: int) -> int:
        """Return the count with `threads` host threads, on the straight line through both published counts."""
        return round(self.with_one + (self.with_eight - self.with_one) * (threads - 1) / 7)

    @property
    def of_a_crowd(self) -> int:
        """Return by how much the count grows with one more host thread."""
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
    """Raised when the program's structure cannot produce the published counts."""


def part(total: int, number: int, of: int) -> int:
    """Return the size of part `number` of `of` nearly equal parts, which add up to `total`."""
    return total * (number + 1) // of - total * number // of


@attrs.frozen
class MonteCarloStep:
    """The counts of a crowd's Monte Carlo step. A crowd is the walkers (samples) of one host thread.

    `moves` are electrons moved, `jobs` batches of the non-local pseudopotential, `reallocations` arrays allocated anew.
    """

    moves: int
    jobs: int
    updates: int
    """How many of the walkers' matrices are copied to the host, each by a `target update` of its own."""
    reallocations: int


@attrs.frozen
class CrowdPlan:
    """The planned counts of what a host thread does with its crowd (its walkers) in the whole run.

    Moves are electrons moved, jobs are batches of the non-local pseudopotential; `steps` are the measured ones.
    """

    walkers: int
    """The number of walkers of the crowd, which its batched kernels process."""
    initialised: int
    """The number of walkers that are set up in this run. It is smaller when only a fraction runs."""
    blocks: int
    """The number of small objects of the walkers, each of which is an allocation."""
    orbital_kernels: int
    """The number of kernels that evaluate the orbitals of walkers one by one in the initialisation."""
    warm_up_moves: int
    warm_up_jobs: int
    steps: tuple[MonteCarloStep, ...]
    extra_kernels: int
    """The number of additional distance-table kernels, so that the published number of kernels is met exactly."""


@attrs.frozen
class Plan:
    """The planned counts of all crowds' directives in the run, without what the runtime does at start-up.

    `moves` are electrons moved, `jobs` batches of the pseudopotential, `electrons` those of one walker.
    """

    crowds: tuple[CrowdPlan, ...]
    kernels: int
    attached_copies: int
    """The number of copies by `always` maps on target directives."""
    data_copies: int
    """The number of copies by `always` maps on `target data`."""
    update_copies: int
    """The number of copies by stand-alone `target update` directives."""
    allocations: int
    moves: int
    jobs: int
    electrons: int

    @property
    def copies(self) -> int:
        """Return the number of copies that the program requests under the memory configuration `copy`."""
        return self.attached_copies + self.data_copies + self.update_copies

    @property
    def measured_moves(self) -> int:
        """Return the number of moves of all crowds after the warm-up."""
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
    large arrays; `reallocations` are arrays allocated anew in the whole run. `jobs` are the batches of the non-local
    pseudopotential for each crowd over the full run; None derives them from the published copies. Raises PlanError when
    the published counts are too small for the structure.
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


ACCESSES = InputRange(
    10, 60, "dependent accesses",
    "engineering estimate: argument block, walker pointers, shared state of generic mode, a reduction over the team",
    name="qmcpack.accesses",
)  # fmt: skip
"""The number of dependent accesses in the serial part of a team, in a kernel of S2."""

ACCESSES_GROWTH = 0.84
"""The exponent over n: calibrated so that the kernels of S24 take ten times as long as those of S2 (claim
mi300a.scale.kernel_s2_s24, role `calibrate`), with the 8 threads of Figure 4, which the paper's section on sizes is
about.
"""

SPREAD = InputRange(0.05, 0.3, "standard deviation of the logarithm", "engineering estimate", name="qmcpack.spread")
"""How much the work of one kind of kernel varies from launch to launch: accepted walkers, cutoffs, cache contents."""

HOST_WORK = InputRange(
    50e-9, 500e-9, "s per walker and move",
    "engineering estimate: three normal deviates, packing of pointers, Metropolis test, one-body Jastrow on the host",
    name="qmcpack.host_work",
)  # fmt: skip

UPDATE_GROWTH = InputRange(
    1, 2, "exponent over n",
    "the paper: as many copies at every size, of larger data; between vectors over the electrons and whole matrices",
    name="qmcpack.update_growth",
)  # fmt: skip
"""How the bytes of a walker's copy grow with the size: at S2 the copies are whole matrices."""

REALLOCATIONS = InputRange(
    16, 1024, "per run", "engineering estimate: reduction arrays that outgrow their capacity (`resize` in the source)",
    name="qmcpack.reallocations",
)  # fmt: skip
BLOCK_BYTES = InputRange(
    64, 8192, "B", "public source: scalars, tables of pointers and vectors over electrons of one walker",
    name="qmcpack.block_bytes",
)  # fmt: skip
"""The bytes of a walker's small object."""

MAP_ITEMS = 15
"""Map items of a target region: 1.5 million maps of S2 with 1 thread (claim mi300a.eager.calls) over its kernels. For
more threads the paper gives no number."""


@attrs.frozen
class Inputs:
    """One value for each of the program's inputs that the paper does not give.

    accesses: dependent memory accesses of a team at size S2. spread: standard deviation of the logarithm of kernels'
    work. host_s: seconds of a thread's own work per walker and move. update_growth: the exponent by which a walker's
    copies grow with the size. reallocations: arrays allocated anew in a run. block_bytes: bytes of a walker's small
    object. map_items: the map items of a target region.
    """

    accesses: float
    spread: float
    host_s: float
    update_growth: float
    reallocations: int
    block_bytes: int
    map_items: int

    @classmethod
    def at(
        cls,
        kernel_work: str = "mean",
        host_work: str = "mean",
        copy_growth: str = "mean",
        map_items: int = MAP_ITEMS,
    ) -> Inputs:
        """Take from each input's range the value asked for: low, mean or high. Raises ValueError for other words.

        kernel_work, host_work, copy_growth: the words for kernels' work, host threads' work, and growth of copies with
        size.
        """
        return cls(
            ACCESSES.at(kernel_work),
            SPREAD.at(),
            HOST_WORK.at(host_work),
            UPDATE_GROWTH.at(copy_growth),
            round(REALLOCATIONS.at()),
            round(BLOCK_BYTES.at()) // 8 * 8,
            map_items,
        )

    def accesses_of(self, kind: KernelKind, size: Size, walkers: int, default_teams: int) -> float:
        """Return how many dependent memory accesses, each of which waits for the one before, a team of `kind` makes.

        These are a serial part and two per round of the inner loop, for each iteration of `distribute` that the team
        executes. size, walkers: the problem size, and the walkers of a launch. default_teams: the most teams where the
        directive does not give a number.
        """
        growth: float = (size.n / 2) ** ACCESSES_GROWTH
        return (self.accesses * growth + 2 * kind.rounds(size)) * kind.turns(size, walkers, default_teams)

    def update_bytes(self, size: Size, at_s2: int, most: int) -> int:
        """Return the bytes that one copy updates for a walker: `at_s2` scaled from problem size S2, at most `most`."""
        return min(most, int(at_s2 * (size.n / 2) ** self.update_growth) // 8 * 8)
