"""BFS, CFD and SRAD with real numbers: what the emulated device computes is what NumPy says, wherever the data lie."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.papers.otm.rodinia import LAMBDA, Bfs, Cfd, Graph, Mesh, Srad, Structure, far_field
from offloadrt.study import Run

Runner = Callable[..., Any]


def arrays_of(run_program: Runner, program: Any, configuration: str, gear: str = "turbo") -> dict[str, NDArray[Any]]:
    async def main(run: Run) -> Any:
        run.configure(host_program=HostProgram.of(type(program).run))  # by which otm places objects
        return (await run.parallel(program.run))[0]

    ran = run_program(main, configuration, machine="summitdev-p100", phantom=False, gear=gear)
    return {array.name: array.data for array in ran.returned}


@pytest.fixture(params=[("copy", "turbo"), ("managed", "turbo"), ("managed", "native")], ids="-".join)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param  # type: ignore[no-any-return]


def levels(graph: Graph) -> NDArray[np.int32]:
    """Levels of a search from node 0, by products with the matrix of edges."""
    count = len(graph.nodes)
    matrix = np.zeros((count, count), np.bool_)
    matrix[np.repeat(np.arange(count), graph.nodes[:, 1]), graph.edges] = True
    found, frontier, level = np.full(count, -1, np.int32), np.arange(count) == 0, 0
    while frontier.any():
        found[frontier] = level
        frontier, level = (frontier @ matrix) & (found < 0), level + 1
    return found


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("structure", ["data", "plain"])
def test_bfs_finds_the_levels(run_program: Runner, place: tuple[str, str], seed: int, structure: Structure) -> None:
    program = Bfs.of(300 * Bfs.BYTES, phantom=False, seed=seed, structure=structure)
    assert program.graph is not None
    found = arrays_of(run_program, program, *place)
    assert np.array_equal(found["cost"], levels(program.graph))
    assert program.steps == found["cost"].max() + 1


def srad(program: Srad) -> NDArray[np.float64]:
    """The image after all iterations, in whole-array operations."""
    image = program.image().astype(np.float64).reshape(program.rows, program.cols)
    up, down = np.maximum(np.arange(program.rows) - 1, 0), np.minimum(np.arange(program.rows) + 1, program.rows - 1)
    for _ in range(program.iterations):
        region = image[:128, :128]
        q0 = region.var() / region.mean() ** 2
        differences = [image[up] - image, image[down] - image, image[:, up] - image, image[:, down] - image]
        gradient = sum(d * d for d in differences) / image**2
        laplacian = sum(differences) / image
        q = (gradient / 2 - laplacian**2 / 16) / (1 + laplacian / 4) ** 2
        c = np.clip(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0, 1)
        north, south, west, east = differences
        image = image + LAMBDA / 4 * (c * north + c[down] * south + c * west + c[:, down] * east)
    return image


@pytest.mark.parametrize("structure", ["data", "plain"])
def test_srad_smooths_the_image(run_program: Runner, place: tuple[str, str], structure: Structure) -> None:
    program = Srad(24, 24, 3, phantom=False, structure=structure)
    found = arrays_of(run_program, program, *place)
    assert found["J"].reshape(24, 24) == pytest.approx(srad(program), rel=1e-5)


def cfd_fluxes(values: dict[str, NDArray[Any]], n: int) -> NDArray[np.float64]:
    """What flows through all faces of all elements, face by face in whole-array operations."""
    state = values["variables"].astype(np.float64).reshape(5, n)
    around = np.concatenate([state, far_field()[:5, np.newaxis]], axis=1)  # the far field as one more element
    normals, neighbours = values["normals"].astype(np.float64).reshape(3, 4, n), values["neighbours"].reshape(4, n)

    def parts(u: NDArray[np.float64]) -> tuple[Any, Any, Any]:
        squared = (u[1:4] ** 2).sum(axis=0) / u[0] ** 2
        pressure = 0.4 * (u[4] - 0.5 * u[0] * squared)
        return squared, pressure, np.sqrt(squared) + np.sqrt(1.4 * pressure / u[0])

    def flow(u: NDArray[np.float64], normal: NDArray[np.float64]) -> NDArray[np.float64]:
        pressure = parts(u)[1]
        through = (u[1:4] * normal).sum(axis=0) / u[0]
        pushed = pressure * np.stack([0 * through, *normal, 0 * through])
        return through * np.stack([u[0], *u[1:4], u[4] + pressure]) + pushed

    total = np.zeros((5, n))
    for face in range(4):
        normal, nb = normals[:, face], neighbours[face]
        other = around[:, np.where(nb >= 0, nb, n)]
        both = 0.5 * (flow(state, normal) + flow(other, normal))
        viscosity = -0.1 * np.sqrt((normal**2).sum(axis=0)) * (parts(state)[2] + parts(other)[2]) * (state - other)
        wall = np.stack([np.zeros(n), *(normal * parts(state)[1]), np.zeros(n)])
        total += np.where(nb >= 0, both + viscosity, np.where(nb == -1, wall, both))
    return total


@pytest.mark.parametrize("mesh", ["ordered", "random"])
def test_one_iteration_of_cfd(run_program: Runner, place: tuple[str, str], mesh: Mesh) -> None:
    program = Cfd.of(60 * Cfd.BYTES, 1, phantom=False, mesh=mesh)
    n, values = program.sheet.elements, program.values()
    old = values["variables"].astype(np.float64).reshape(5, n)
    squared = (old[1:4] ** 2).sum(axis=0) / old[0] ** 2
    sound = np.sqrt(1.4 * 0.4 * (old[4] - 0.5 * old[0] * squared) / old[0])
    step = 0.5 / (np.sqrt(values["areas"]) * (np.sqrt(squared) + sound))
    for part in (4, 3, 2):
        fluxes = cfd_fluxes(values, n)
        values["variables"] = (old + step / part * fluxes).astype(np.float32).ravel()
    found = arrays_of(run_program, program, *place)
    assert found["variables"] == pytest.approx(values["variables"], rel=2e-5, abs=2e-5)
    if place[0] == "managed":  # explicit copies leave them on the device
        assert found["fluxes"] == pytest.approx(fluxes.ravel(), rel=2e-4, abs=2e-4)


@pytest.mark.parametrize(
    "program", [Bfs.of(9000, phantom=False), Cfd.of(9000, 2, phantom=False), Srad.of(9000, 2, phantom=False)]
)
def test_placements_and_gears_give_the_same_bits(run_program: Runner, program: Any) -> None:
    expected = arrays_of(run_program, program, "copy")
    for place in (("copy", "native"), *itertools.product(("managed", "otm"), ("turbo", "native"))):
        found = arrays_of(run_program, program, *place)
        assert all(np.array_equal(found[name], expected[name]) for name in ("cost", "variables", "J") if name in found)
