"""BT: block-tridiagonal systems along the three directions of a cube, solved point by point.

The matrices lie in ``lhs[m, n, c, a, h, b]``: 5 by 5 blocks of the points before, at and after h, where h runs along
the direction of the solver and a, b across it. One source serves the three directions; the elimination is one kernel
over all lines, the substitution back one for each plane. In the public code the indices of u and rhs are permuted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from offloadrt.papers.jacc.programs.benchmark import (
    Arrays,
    Benchmark,
    BenchmarkProgram,
    KernelCall,
    Number,
    OnHost,
    ProgramStep,
    RepeatedSteps,
    call,
)
from offloadrt.papers.jacc.programs.bt_solver import SOLVERS
from offloadrt.papers.jacc.programs.fields import (
    AXES,
    add_fields,
    between,
    copy_fields,
    dissipation,
    dissipation_at_walls,
    flux,
    inside,
    named,
    primitives,
    scale_fields,
)

RHS: Final = {
    "primitives": named("primitives", primitives),
    "forcing": named("forcing", copy_fields),
    **{f"flux_{axis}": named(f"flux_{axis}", flux) for axis in AXES},
    **{f"walls_{axis}": named(f"walls_{axis}", dissipation_at_walls) for axis in AXES},
    **{f"dissipation_{axis}": named(f"dissipation_{axis}", dissipation) for axis in AXES},
    "scale": named("scale", scale_fields),
}
ADD: Final = named("add", add_fields)


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program on a cube of n points a side. One of the iterations is the public code's warm-up."""
    n, iterations = size
    cube = (n, n, n)
    fields = (5, *cube)
    u, forcing = (arrays(name, fields, np.float64, between(name, fields, 1.0, 1.1)) for name in ("u", "forcing"))
    rhs = arrays("rhs", fields)
    rho_i, us, vs, ws, square, qs = (arrays(name, cube) for name in ("rho_i", "us", "vs", "ws", "square", "qs"))
    f, g = arrays("fjac", (5, 5, *cube)), arrays("njac", (5, 5, *cube))
    lhs = arrays("lhs", (5, 5, 3, *cube))
    velocity = {"x": us, "y": vs, "z": ws}
    plane = Number(0)

    def last_plane() -> None:
        plane.value = 0 if u.phantom else n - 2

    def next_plane() -> None:
        plane.value -= 0 if u.phantom else 1

    def right_hand_side(axis: str) -> tuple[KernelCall, ...]:
        step = AXES[axis]
        return (
            call(RHS[f"flux_{axis}"], rhs, u, velocity[axis], square, qs, rho_i, *cube, *step, 0.1, 0.2),
            call(RHS[f"walls_{axis}"], rhs, u, *inside(axis, n, 1, 3), *step, 0.25),
            call(RHS[f"dissipation_{axis}"], rhs, u, *inside(axis, n, 3, n - 3), *step, 0.25),
        )

    def solve(axis: str) -> tuple[ProgramStep, ...]:
        kernels = SOLVERS[axis]
        return (
            call(kernels["jacobian"], f, u, rho_i, qs, square, n, 1.4, 0.4),
            call(kernels["viscous_jacobian"], g, u, rho_i, n, 0.13, 0.1),
            call(kernels["clear_walls"], lhs, n),
            call(kernels["unit_walls"], lhs, n),
            call(kernels["blocks"], lhs, f, g, n, 0.1, 0.2, 0.75),
            call(kernels["first_point"], lhs, rhs, n),
            call(kernels["eliminate"], lhs, rhs, n),
            call(kernels["last_vector"], lhs, rhs, n),
            call(kernels["last_block"], lhs, n),
            call(kernels["last_point"], lhs, rhs, n),
            OnHost((), last_plane),
            RepeatedSteps(n - 1, (call(kernels["substitute"], lhs, rhs, n, plane), OnHost((), next_plane))),
        )

    return BenchmarkProgram(
        iteration=(
            call(RHS["primitives"], u, rho_i, us, vs, ws, square, qs, *cube),
            call(RHS["forcing"], forcing, rhs, *cube),
            *(kernel_call for axis in AXES for kernel_call in right_hand_side(axis)),
            call(RHS["scale"], rhs, *cube, 0.001),
            *(step for axis in AXES for step in solve(axis)),
            call(ADD, u, rhs, *cube),
        ),
        iterations=iterations,
        copyin=(u, forcing),
        create=(rhs, rho_i, us, vs, ws, square, qs, f, g, lhs),
        results=(u,),
    )


BENCHMARK = Benchmark(
    name="BT",
    dup_s=88.715,
    sizes={"C": (162, 201), "test": (8, 2)},
    build=build,
)
