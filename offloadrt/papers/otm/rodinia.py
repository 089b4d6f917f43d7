"""BFS, CFD (euler3d) and SRAD v2 of Rodinia as OpenMP offloading programs, at any size.

Source: Li and Chapman, "Compiler Assisted Hybrid Implicit and Explicit GPU Memory Management under Unified Address
Space" (OTM), section 3; loops, map clauses and array shapes are those of the public offloading versions
(yuhc/gpu-rodinia), the kernels are written anew as loop nests.

`Bfs` searches random graphs, with two kernels a level, until nothing new is reached. `Cfd` is an Euler solver on an
unstructured mesh, with eight kernels an iteration. `Srad` is speckle-reducing diffusion of an image, with statistics on
the host in every iteration.

The file begins with the inputs that the authors leave open, as ranges and choices. The paper says "inputs of various
sizes" and gives no lengths of runs. The number of BFS's levels is no input: it follows from a random graph of the
generator that comes with Rodinia.

BFS: every level is a kernel that expands the frontier and one that makes the next, each over all nodes. The host clears
a flag before a level and reads it afterwards: it is set when the level has reached a node.

CFD: an Euler solver for compressible flow with finite volumes and three Runge-Kutta steps an iteration.

As the paper describes it, each kernel is a target region of its own: copy, step factors, and three times fluxes and
time step. Arrays hold one quantity after the other (density, three momenta, energy), each for all elements.

SRAD v2: two kernels per iteration over an image, after the host has read a corner of it.

The loops over rows and columns are nested, and only the loop over rows is distributed: a compiler that does not know
how often the inner loop runs underestimates how densely the image is accessed.
"""

from __future__ import annotations

import functools
import math
from contextlib import nullcontext
from typing import Any, Final, Literal

import attrs
import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import expect, kernel
from offloadrt.models import openmp as omp
from offloadrt.study.inputs import InputRange

CFD_ITERATIONS: Final = InputRange(
    1, 2000, "iterations",
    "2000 in the public source; the paper does not say, and 2000 at 20 GB of managed memory would take hours",
    name="rodinia.cfd_iterations", affordable=20,
)  # fmt: skip
SRAD_ITERATIONS: Final = InputRange(
    2, 100, "iterations", "2 in the public run file of the OpenMP version, 100 in the usual command of SRAD v1",
    name="rodinia.srad_iterations", affordable=20,
)  # fmt: skip
SRAD_REGION: Final = 128
"""Rows and columns of the region that the host reads in every iteration (public run file: 0 to 127)."""
LAMBDA: Final = 0.5
"""SRAD's update rate (public run file)."""

CONFIGURATIONS: Final = {"explicit": "copy", "um": "managed", "otm": "otm"}
"""The memory configuration of each of the paper's placements."""

Structure = Literal["data", "plain"]
"""Where the map clauses are.

data: one `target data` around the loop, as in the public BFS; plain: only the target regions have clauses, and each
maps what it uses, tofrom.
"""
Mesh = Literal["ordered", "random"]
"""How CFD's elements are numbered. ordered: neighbours have close numbers, as mesh generators and bandwidth reduction
leave them. random: neighbours may have any numbers.
"""

ALIGNMENT: Final = 2 << 20
"""The alignment of large arrays in bytes: managed allocations of this size share no block."""
THREADS: Final = 128
"""Threads per team: clang's default on NVIDIA devices."""


Ints = NDArray[np.int32]

CHOICES: Final = (2, 3, 4)
DEGREE: Final = 2 * sum(CHOICES) // len(CHOICES)
"""The mean number of edges of a node; it is exact when the number of nodes is a multiple of three."""
SAMPLE: Final = 3 << 17
"""The number of nodes of the graph whose levels stand for those of larger graphs."""


@attrs.frozen(eq=False)
class Graph:
    """A graph. `nodes[k]` is (first, count): node k has edges to the nodes `edges[first : first + count]`."""

    nodes: Ints
    edges: Ints

    @classmethod
    def random(cls, count: int, seed: int) -> Graph:
        """Make a random graph of `count` nodes. seed: of the random numbers."""
        rng = np.random.default_rng(seed)
        chosen = np.asarray(CHOICES, np.int32)[rng.permutation(count) % len(CHOICES)]
        source = np.repeat(np.arange(count, dtype=np.int32), chosen)
        target = rng.integers(0, count, source.size, dtype=np.int32)
        begin, end = np.concatenate([source, target]), np.concatenate([target, source])
        degrees = np.bincount(begin, minlength=count).astype(np.int32)
        first = (np.cumsum(degrees) - degrees).astype(np.int32)
        # The edges of a node stay in their order. numpy sorts numbers faster than it finds their order.
        order = np.sort((begin.astype(np.int64) << 32) + np.arange(begin.size)) & 0xFFFFFFFF
        return cls(np.stack([first, degrees], axis=1), end[order])


@attrs.frozen
class SearchLevel:
    """One level of a breadth-first search of a graph: how much of the graph it searches from and reaches."""

    active: float
    """The fraction of all nodes that are in the frontier."""
    degree: float
    """The mean number of edges of a node in the frontier."""
    fresh: float
    """The fraction of these edges that lead to nodes which were not visited before this level."""
    reached: float
    """The fraction of all nodes that are in the next frontier."""


@attrs.frozen
class Frontier:
    """All levels of a breadth-first search from node 0. The last level reaches no new node."""

    levels: tuple[SearchLevel, ...]

    @classmethod
    def of(cls, graph: Graph) -> Frontier:
        """Search a graph breadth first from node 0, level by level."""
        count = len(graph.nodes)
        visited = np.zeros(count, np.bool_)
        visited[0] = True
        frontier = np.zeros(1, np.int64)
        levels = []
        while frontier.size:
            first, degrees = graph.nodes[frontier].T.astype(np.int64)
            total = int(degrees.sum())
            offsets = np.arange(total) - np.repeat(np.cumsum(degrees) - degrees, degrees)
            ends = graph.edges[np.repeat(first, degrees) + offsets]
            fresh = ends[~visited[ends]]
            before = visited.copy()
            visited[fresh] = True
            reached = np.flatnonzero(visited & ~before)
            levels.append(
                SearchLevel(
                    frontier.size / count, total / frontier.size, fresh.size / max(total, 1), reached.size / count
                )
            )
            frontier = reached
        return cls(tuple(levels))


@functools.lru_cache(maxsize=4)
def sampled(seed: int) -> Frontier:
    """Search a sample graph, whose levels stand for those of any larger one; takes half a second the first time."""
    # A larger graph has about one level more for each factor of four in nodes (seed 0: 11 levels at this size, 12 and
    # 13 at 4 and 16 times as many nodes). Its search here lacks these levels, in which hardly any node is active: each
    # would only sweep over the two masks, 2 of the 39 bytes of a node.
    return Frontier.of(Graph.random(SAMPLE, seed))


Flags = NDArray[np.bool_]


@kernel(threads_per_team=THREADS)
def expand(
    mask: Flags,
    nodes: Ints,
    edges: Ints,
    visited: Flags,
    cost: Ints,
    updating: Flags,
    n: int,
    active: float,
    degree: float,
    fresh: float,
) -> None:
    """Give each unvisited neighbour of the frontier its cost, the level; mark it in `updating` as newly reached.

    By node: mask, whether it is in the frontier; visited; cost. nodes, edges: the graph of `n` nodes, where node k has
    edges to the nodes ``edges[first : first + count]`` with (first, count) = ``nodes[k]``. The kernel's work is counted
    from active, the fraction of nodes in the frontier, degree, their mean number of edges, and fresh, the fraction of
    these edges that lead to new nodes.
    """
    for node in range(n):
        if expect(mask[node], probability=active):
            mask[node] = False
            for e in expect(range(nodes[node, 0], nodes[node, 0] + nodes[node, 1]), trips=degree, near=1):
                # The loop of the C source looks at the bounds again before each trip, as `range` does not.
                if expect(e < nodes[node, 0] + nodes[node, 1], probability=1):
                    neighbour = edges[e]
                    if expect(not visited[neighbour], probability=fresh):
                        cost[neighbour] = cost[node] + 1
                        updating[neighbour] = True


@kernel(threads_per_team=THREADS)
def advance(updating: Flags, mask: Flags, visited: Flags, stop: Flags, n: int, reached: float) -> None:
    """Make the nodes that `updating` marks the next frontier (`mask`) and visited; set `stop` if there are any.

    n: the number of nodes. reached: the fraction of them that `updating` marks, from which the kernel's work is
    counted.
    """
    for node in range(n):
        if expect(updating[node], probability=reached):
            mask[node] = True
            visited[node] = True
            stop[0] = True
            updating[node] = False


@attrs.frozen(eq=False)
class Bfs:
    """The program bfs on `count` nodes; `frontier`: the search's levels; `graph`: None for a phantom (no data)."""

    count: int
    frontier: Frontier
    graph: Graph | None = None
    structure: Structure = "data"
    """"data": one `target data` region around all kernels; otherwise each target region maps its arrays."""

    BYTES = 8 + 3 + 4 + 4 * DEGREE
    """Bytes of all arrays for each node."""

    @classmethod
    def of(cls, nbytes: int, *, phantom: bool, seed: int = 0, structure: Structure = "data") -> Bfs:
        """Make the program for as many nodes as fit into `nbytes`; their number is a multiple of three.

        structure: whether a `target data` region surrounds the kernels (see the field). A phantom (arrays without
        values) has the levels of the sample graph, a program with values those of its own random graph, made from
        `seed`.
        """
        count = max(3, nbytes // cls.BYTES // 3 * 3)
        if phantom:
            return cls(count, sampled(seed), None, structure)
        graph = Graph.random(count, seed)
        return cls(count, Frontier.of(graph), graph, structure)

    @property
    def steps(self) -> int:
        """Return the number of levels of the search."""
        return len(self.frontier.levels)

    def _fill(self, start: Any, source: Any) -> Any:
        """Fill an array with a constant, except for node 0."""
        if self.graph is None:
            return start
        values = np.full(self.count, start)
        values[0] = source
        return values

    async def run(self, t: omp.HostThread) -> list[omp.HostArray]:
        """Run the whole program on one host thread; return its arrays, after the host has read the costs."""
        n, graph, levels = self.count, self.graph, self.frontier.levels
        firsts, ends = (0, 0) if graph is None else (graph.nodes, graph.edges)
        nodes = t.array("nodes", (n, 2), np.int32, fill=firsts, align=ALIGNMENT)
        mask = t.array("mask", n, np.bool_, fill=self._fill(False, True), align=ALIGNMENT)
        updating = t.array("updating", n, np.bool_, fill=False, align=ALIGNMENT)
        visited = t.array("visited", n, np.bool_, fill=self._fill(False, True), align=ALIGNMENT)
        edges = t.array("edges", n * DEGREE, np.int32, fill=ends, align=ALIGNMENT)
        cost = t.array("cost", n, np.int32, fill=self._fill(-1, 0), align=ALIGNMENT)
        stop = t.array("stop", 1, np.bool_, fill=False, align=ALIGNMENT)
        around = t.target_data(omp.map(to=[mask, nodes, edges, visited, updating], tofrom=cost))
        async with around if self.structure == "data" else nullcontext():
            going_on, depth = True, 0
            while going_on:
                level = levels[depth]
                await t.host_access(stop)
                if graph is not None:
                    stop[0] = False
                await t.target(
                    expand, mask, nodes, edges, visited, cost, updating, n, level.active, level.degree, level.fresh
                )
                await t.target(advance, updating, mask, visited, stop, n, level.reached, maps=omp.map(tofrom=stop))
                await t.host_access(stop)
                depth += 1
                going_on = bool(stop[0]) if graph is not None else depth < len(levels)
        await t.host_access(cost)
        return [nodes, mask, updating, visited, edges, cost, stop]


Floats = NDArray[np.float32]

WING: Final = -1
FAR: Final = -2


@attrs.frozen
class Sheet:
    """A mesh of `length` by `width` elements for CFD. `numbering`: `ordered` if neighbours have close numbers."""

    length: int
    width: int
    numbering: Mesh = "ordered"

    @classmethod
    def of(cls, elements: int, numbering: Mesh = "ordered") -> Sheet:
        """Make a nearly square sheet of at most `elements` elements. numbering: `ordered` or `random`.

        With `ordered`, neighbours have close numbers.
        """
        width = max(1, math.isqrt(elements))
        return cls(max(1, elements // width), width, numbering)

    @property
    def elements(self) -> int:
        return self.length * self.width

    @property
    def interior(self) -> float:
        """Return the fraction of all faces that lie between two elements."""
        return 1.0 - (self.length + self.width) / (2.0 * self.elements)

    def neighbours(self, rng: np.random.Generator) -> Ints:
        """Return by [face, element] the number of the element behind the face, or a code for the mesh's edge.

        The codes are WING and FAR (far field). rng: numbers the elements at random if the mesh asks for it.
        """
        number = np.arange(self.elements)
        if self.numbering == "random":
            number = rng.permutation(self.elements)
        around = np.full((self.length + 2, self.width + 2), FAR)
        around[0], around[-1] = WING, WING
        around[1:-1, 1:-1] = number.reshape(self.length, self.width)
        faces = [around[:-2, 1:-1], around[2:, 1:-1], around[1:-1, :-2], around[1:-1, 2:]]
        neighbours = np.empty((4, self.elements), np.int32)
        neighbours[:, number] = [face.ravel() for face in faces]
        return neighbours

    def normals(self, rng: np.random.Generator) -> Floats:
        """Make random normals of the faces, [direction, face, element]: about outward, with different lengths.

        rng: makes the random numbers.
        """
        outward = np.array([[-1, 1, 0, 0], [0, 0, -1, 1], [0, 0, 0, 0]], np.float64)
        return (outward[:, :, np.newaxis] + 0.1 * rng.random((3, 4, self.elements))).astype(np.float32)


GAMMA = 1.4
MACH = 1.2


@kernel(threads_per_team=THREADS)
def copy(old: Floats, variables: Floats, values: int) -> None:
    """Copy `variables`, with which the iteration starts, to `old`. values: the number of their elements."""
    for i in range(values):
        old[i] = variables[i]


@kernel(threads_per_team=THREADS)
def step_factor(variables: Floats, areas: Floats, step_factors: Floats, n: int) -> None:
    """Compute into `step_factors` the time step of each of `n` elements, divided by the element's area.

    variables: [quantity, element], flat. areas: by element.
    """
    for i in range(n):
        density = variables[i]
        mx = variables[i + n]
        my = variables[i + 2 * n]
        mz = variables[i + 3 * n]
        squared = (mx * mx + my * my + mz * mz) / (density * density)
        pressure = (GAMMA - 1.0) * (variables[i + 4 * n] - 0.5 * density * squared)
        step_factors[i] = 0.5 / (math.sqrt(areas[i]) * (math.sqrt(squared) + math.sqrt(GAMMA * pressure / density)))


@kernel(threads_per_team=THREADS)
def flux(
    neighbours: Ints,
    normals: Floats,
    variables: Floats,
    fluxes: Floats,
    far_field: Floats,
    n: int,
    near: float,
    interior: float,
) -> None:
    """Compute how much density, momentum and energy flows through the four faces of each of `n` elements.

    The scheme adds artificial viscosity between elements. All arrays are flat. neighbours: [face, element], as from
    `Sheet.neighbours`. normals: [direction, face, element], the outward normals. variables: [quantity, element], with
    the quantities density, three momenta and energy. fluxes: the result, like `variables`. far_field: as from the
    function of that name. near: 1.0 if neighbours have close numbers, else 0.0. interior: the fraction of the faces
    that lie between two elements.
    """
    for i in range(n):
        density = variables[i]
        mx = variables[i + n]
        my = variables[i + 2 * n]
        mz = variables[i + 3 * n]
        energy = variables[i + 4 * n]
        squared = (mx * mx + my * my + mz * mz) / (density * density)
        pressure = (GAMMA - 1.0) * (energy - 0.5 * density * squared)
        speed = math.sqrt(squared) + math.sqrt(GAMMA * pressure / density)
        flux_density = 0.0
        flux_x = 0.0
        flux_y = 0.0
        flux_z = 0.0
        flux_energy = 0.0
        for j in range(4):
            nb = expect(neighbours[i + j * n], near=near)
            nx = normals[i + j * n]
            ny = normals[i + (j + 4) * n]
            nz = normals[i + (j + 8) * n]
            through = (mx * nx + my * ny + mz * nz) / density
            if expect(nb >= 0, probability=interior):
                density_nb = variables[nb]
                x_nb = variables[nb + n]
                y_nb = variables[nb + 2 * n]
                z_nb = variables[nb + 3 * n]
                energy_nb = variables[nb + 4 * n]
                squared_nb = (x_nb * x_nb + y_nb * y_nb + z_nb * z_nb) / (density_nb * density_nb)
                pressure_nb = (GAMMA - 1.0) * (energy_nb - 0.5 * density_nb * squared_nb)
                speed_nb = math.sqrt(squared_nb) + math.sqrt(GAMMA * pressure_nb / density_nb)
                viscosity = -0.1 * math.sqrt(nx * nx + ny * ny + nz * nz) * (speed + speed_nb)
                behind = (x_nb * nx + y_nb * ny + z_nb * nz) / density_nb
                both = pressure + pressure_nb
                flux_density += viscosity * (density - density_nb)
                flux_x += viscosity * (mx - x_nb) + 0.5 * (through * mx + behind * x_nb + both * nx)
                flux_y += viscosity * (my - y_nb) + 0.5 * (through * my + behind * y_nb + both * ny)
                flux_z += viscosity * (mz - z_nb) + 0.5 * (through * mz + behind * z_nb + both * nz)
                flux_energy += viscosity * (energy - energy_nb)
                flux_energy += 0.5 * (through * (energy + pressure) + behind * (energy_nb + pressure_nb))
                flux_density += 0.5 * (through * density + behind * density_nb)
            elif nb == -1:
                flux_x += nx * pressure
                flux_y += ny * pressure
                flux_z += nz * pressure
            else:
                there = far_field[1] * nx + far_field[2] * ny + far_field[3] * nz
                behind = there / far_field[0]
                both = pressure + far_field[5]
                flux_density += 0.5 * (through * density + there)
                flux_x += 0.5 * (through * mx + behind * far_field[1] + both * nx)
                flux_y += 0.5 * (through * my + behind * far_field[2] + both * ny)
                flux_z += 0.5 * (through * mz + behind * far_field[3] + both * nz)
                flux_energy += 0.5 * (through * (energy + pressure) + behind * (far_field[4] + far_field[5]))
        fluxes[i] = flux_density
        fluxes[i + n] = flux_x
        fluxes[i + 2 * n] = flux_y
        fluxes[i + 3 * n] = flux_z
        fluxes[i + 4 * n] = flux_energy


@kernel(threads_per_team=THREADS)
def time_step(old: Floats, variables: Floats, step_factors: Floats, fluxes: Floats, n: int, part: float) -> None:
    """Compute the variables after one Runge-Kutta stage from those at the start of the iteration (`old`).

    old, variables, fluxes: [quantity, element], flat. step_factors: from the kernel of that name. n: the number of
    elements. part: the number by which the time step is divided in this stage.
    """
    for i in range(n):
        factor = step_factors[i] / part
        for m in (0, 1, 2, 3, 4):
            variables[i + m * n] = old[i + m * n] + factor * fluxes[i + m * n]


def far_field() -> Floats:
    """Return density, momenta, energy and pressure of the far field, which flows along x at Mach 1.2."""
    density, pressure = 1.4, 1.0
    speed = MACH * math.sqrt(GAMMA * pressure / density)
    energy = 0.5 * density * speed * speed + pressure / (GAMMA - 1.0)
    return np.array([density, density * speed, 0.0, 0.0, energy, pressure], np.float32)


@attrs.frozen
class Cfd:
    """The program cfd: `iterations` iterations on a mesh (`sheet`). phantom: arrays without values. seed: of the mesh.

    structure: "data" if one `target data` region is around all kernels; otherwise each target region maps its arrays.
    """

    sheet: Sheet
    iterations: int
    phantom: bool = True
    seed: int = 0
    structure: Structure = "data"

    BYTES = 4 * (1 + 4 + 12 + 5 + 5 + 5 + 1)
    """Bytes of all arrays for each element."""

    @classmethod
    def of(
        cls,
        nbytes: int,
        iterations: int,
        *,
        phantom: bool,
        mesh: Mesh = "ordered",
        seed: int = 0,
        structure: Structure = "data",
    ) -> Cfd:
        """Make the program for a mesh of as many elements as fit into `nbytes`, in whole rows.

        iterations: how many it runs. phantom: arrays have no values. mesh: how elements are numbered. structure: "data"
        if one `target data` region is around all kernels.
        """
        return cls(Sheet.of(nbytes // cls.BYTES, mesh), iterations, phantom, seed, structure)

    @property
    def steps(self) -> int:
        """Return the number of iterations."""
        return self.iterations

    def values(self) -> dict[str, NDArray[np.float32] | NDArray[np.int32]]:
        """Return the arrays that the host has read or computed before the first iteration, flat, by name."""
        rng, n = np.random.default_rng(self.seed), self.sheet.elements
        faces, normals = self.sheet.neighbours(rng), self.sheet.normals(rng)
        disturbed = 1.0 + 0.02 * rng.random((5, n))
        return {
            "areas": (1.0 + rng.random(n)).astype(np.float32),
            "neighbours": faces.ravel(),
            "normals": normals.ravel(),
            "variables": (far_field()[:5, np.newaxis] * disturbed).astype(np.float32).ravel(),
        }

    async def run(self, t: omp.HostThread) -> list[omp.HostArray]:
        """Run the whole program on one host thread; return its arrays, after the host has read the variables."""
        n = self.sheet.elements
        fill = dict.fromkeys(("areas", "neighbours", "normals", "variables"), 0) if self.phantom else self.values()
        near, interior = float(self.sheet.numbering == "ordered"), self.sheet.interior
        areas = t.array("areas", n, np.float32, fill=fill["areas"], align=ALIGNMENT)
        neighbours = t.array("neighbours", 4 * n, np.int32, fill=fill["neighbours"], align=ALIGNMENT)
        normals = t.array("normals", 12 * n, np.float32, fill=fill["normals"], align=ALIGNMENT)
        variables = t.array("variables", 5 * n, np.float32, fill=fill["variables"], align=ALIGNMENT)
        old = t.array("old_variables", 5 * n, np.float32, align=ALIGNMENT)
        fluxes = t.array("fluxes", 5 * n, np.float32, align=ALIGNMENT)
        step_factors = t.array("step_factors", n, np.float32, align=ALIGNMENT)
        around_all = t.array("far_field", 6, np.float32, fill=far_field())
        around = t.target_data(
            omp.map(
                to=[areas, step_factors, neighbours, normals, fluxes, around_all],
                tofrom=variables,
                alloc=old,
            )
        )
        async with around if self.structure == "data" else nullcontext():
            for _ in range(self.iterations):
                await t.target(copy, old, variables, 5 * n)
                await t.target(step_factor, variables, areas, step_factors, n)
                for j in range(3):
                    await t.target(flux, neighbours, normals, variables, fluxes, around_all, n, near, interior)
                    await t.target(time_step, old, variables, step_factors, fluxes, n, float(4 - j))
        await t.host_access(variables)
        return [areas, neighbours, normals, variables, old, fluxes, step_factors, around_all]


@kernel(threads_per_team=THREADS)
def gradients(
    J: Floats,
    c: Floats,
    dN: Floats,
    dS: Floats,
    dW: Floats,
    dE: Floats,
    iN: Ints,
    iS: Ints,
    jW: Ints,
    jE: Ints,
    rows: int,
    cols: int,
    q0: float,
) -> None:
    """Compute each point's differences to its four neighbours, and the diffusion coefficient that follows from them.

    J: the image, flat. c: the coefficients. dN, dS, dW, dE: the differences. iN, iS, jW, jE: for each row or column,
    the number of its neighbour. rows, cols: those of the image. q0: the speckle scale, squared.
    """
    for i in range(rows):
        for j in range(cols):
            k = i * cols + j
            here = J[k]
            north = J[expect(iN[i], near=1) * cols + j] - here
            south = J[expect(iS[i], near=1) * cols + j] - here
            west = J[i * cols + expect(jW[j], near=1)] - here
            east = J[i * cols + expect(jE[j], near=1)] - here
            dN[k] = north
            dS[k] = south
            dW[k] = west
            dE[k] = east
            gradient = (north * north + south * south + west * west + east * east) / (here * here)
            laplacian = (north + south + west + east) / here
            below = 1.0 + 0.25 * laplacian
            q = (0.5 * gradient - 0.0625 * laplacian * laplacian) / (below * below)
            c[k] = min(max(1.0 / (1.0 + (q - q0) / (q0 * (1.0 + q0))), 0.0), 1.0)


@kernel(threads_per_team=THREADS)
def diffuse(
    J: Floats,
    c: Floats,
    dN: Floats,
    dS: Floats,
    dW: Floats,
    dE: Floats,
    iS: Ints,
    jE: Ints,
    rows: int,
    cols: int,
    rate: float,
) -> None:
    """Advance the image J by `rate` times the divergence of coefficient times gradient.

    c, dN, dS, dW, dE: the coefficients and the differences to the four neighbours, from `gradients`. iS, jE: for each
    row or column, the number of the next one. rows, cols: those of the image.
    """
    for i in range(rows):
        for j in range(cols):
            k = i * cols + j
            here = c[k]
            south = c[expect(iS[i], near=1) * cols + j]
            east = c[i * cols + expect(jE[j], near=1)]
            J[k] = J[k] + 0.25 * rate * (here * dN[k] + south * dS[k] + here * dW[k] + east * dE[k])


@attrs.frozen
class Srad:
    """The program srad: `iterations` iterations on a random image of `rows` by `cols` points. phantom: no values.

    structure: "data" if one `target data` region is around all kernels; otherwise each target region maps its arrays.
    """

    rows: int
    cols: int
    iterations: int
    phantom: bool = True
    seed: int = 0
    structure: Structure = "data"

    BYTES = 6 * 4
    """Bytes of all arrays for each point; four lists of neighbours are not included."""

    @classmethod
    def of(cls, nbytes: int, iterations: int, *, phantom: bool, seed: int = 0, structure: Structure = "data") -> Srad:
        """Make the program for the largest square image whose arrays have no more than `nbytes` bytes.

        iterations: how many it runs. phantom: arrays have no values. structure: "data" if one `target data` region is
        around all kernels.
        """
        side = max(2, int((-16 + math.sqrt(256 + 4 * cls.BYTES * nbytes)) / (2 * cls.BYTES)))
        return cls(side, side, iterations, phantom, seed, structure)

    @property
    def steps(self) -> int:
        """Return the number of iterations."""
        return self.iterations

    def image(self) -> Floats:
        """Return the initial image: exponentials of random numbers between 0 and 1, flat."""
        return np.exp(np.random.default_rng(self.seed).random(self.rows * self.cols, dtype=np.float32))

    def speckle(self, J: omp.HostArray) -> float:
        """Return the variance over the squared mean of the image `J` (its region of interest), computed on the host."""
        if J.phantom:
            return 1.0  # any value: no time of a phantom depends on it
        region = J.data.reshape(self.rows, self.cols)[:SRAD_REGION, :SRAD_REGION].astype(np.float64)
        mean = float(region.mean())
        return float(region.var()) / (mean * mean)

    async def run(self, t: omp.HostThread) -> list[omp.HostArray]:
        """Run the whole program on one host thread; return its arrays, after the host has read the image."""
        rows, cols = self.rows, self.cols
        size = rows * cols
        J = t.array("J", size, np.float32, fill=0.0 if self.phantom else self.image(), align=ALIGNMENT)
        c = t.array("c", size, np.float32, align=ALIGNMENT)
        dN = t.array("dN", size, np.float32, align=ALIGNMENT)
        dS = t.array("dS", size, np.float32, align=ALIGNMENT)
        dW = t.array("dW", size, np.float32, align=ALIGNMENT)
        dE = t.array("dE", size, np.float32, align=ALIGNMENT)
        iN = t.array("iN", rows, np.int32, fill=np.maximum(np.arange(rows) - 1, 0))
        iS = t.array("iS", rows, np.int32, fill=np.minimum(np.arange(rows) + 1, rows - 1))
        jW = t.array("jW", cols, np.int32, fill=np.maximum(np.arange(cols) - 1, 0))
        jE = t.array("jE", cols, np.int32, fill=np.minimum(np.arange(cols) + 1, cols - 1))
        region = (min(SRAD_REGION, rows) - 1) * cols + min(SRAD_REGION, cols)
        look = t.construct_target_update(omp.from_(omp.section(J, 0, region)))
        around = t.target_data(omp.map(to=[iN, iS, jW, jE], tofrom=J, alloc=[c, dN, dS, dW, dE]))
        async with around if self.structure == "data" else nullcontext():
            for iteration in range(self.iterations):
                if iteration:
                    await t.run(look)
                await self._look(t, J)
                q0 = self.speckle(J)
                await t.target(gradients, J, c, dN, dS, dW, dE, iN, iS, jW, jE, rows, cols, q0)
                await t.target(diffuse, J, c, dN, dS, dW, dE, iS, jE, rows, cols, LAMBDA)
        await t.host_access(J)
        return [J, c, dN, dS, dW, dE, iN, iS, jW, jE]

    async def _look(self, t: omp.HostThread, J: omp.HostArray) -> None:
        """Let the host read the region of interest, row by row."""
        for row in range(min(SRAD_REGION, self.rows)):
            await t.host_access(omp.section(J, row * self.cols, min(SRAD_REGION, self.cols)))
