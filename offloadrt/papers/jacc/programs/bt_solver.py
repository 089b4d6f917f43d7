"""BT's solver of one direction: the blocks of the points, the elimination along all lines, the back substitution.

A block is 5 by 5: ``lhs[m, n, c, a, h, b]``, see `bt.py`.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from offloadrt.papers.jacc.programs.fields import AXES, FIELDS, Doubles, named

OFF_DIAGONAL: Final = tuple((m, q) for m in FIELDS for q in FIELDS if m != q)


def jacobian(
    f: Doubles, u: Doubles, rho_i: Doubles, qs: Doubles, square: Doubles, n: int, c1: float, c2: float
) -> None:
    """Compute the Jacobians of the fluxes."""
    for a, h, b in product(range(1, n - 1), range(n), range(1, n - 1)):
        t = rho_i[a, b, h]
        v1 = u[1, a, b, h] * t
        v2 = u[2, a, b, h] * t
        v3 = u[3, a, b, h] * t
        e = c1 * u[4, a, b, h] * t
        q = qs[a, b, h]
        s = c2 * 2.0 * square[a, b, h] * t
        for m, p in ((0, 0), (0, 2), (0, 3), (0, 4), (2, 3), (2, 4), (3, 2), (3, 4)):
            f[m, p, a, h, b] = 0.0
        f[0, 1, a, h, b] = 1.0
        f[1, 0, a, h, b] = c2 * q - v1 * v1
        f[1, 1, a, h, b] = (2.0 - c2) * v1
        f[1, 2, a, h, b] = -c2 * v2
        f[1, 3, a, h, b] = -c2 * v3
        f[1, 4, a, h, b] = c2
        f[2, 0, a, h, b] = -v1 * v2
        f[2, 1, a, h, b] = v2
        f[2, 2, a, h, b] = v1
        f[3, 0, a, h, b] = -v1 * v3
        f[3, 1, a, h, b] = v3
        f[3, 3, a, h, b] = v1
        f[4, 0, a, h, b] = (s - e) * v1
        f[4, 1, a, h, b] = e - c2 * (v1 * v1 + q)
        f[4, 2, a, h, b] = -c2 * v1 * v2
        f[4, 3, a, h, b] = -c2 * v1 * v3
        f[4, 4, a, h, b] = c1 * v1


def viscous_jacobian(f: Doubles, u: Doubles, rho_i: Doubles, n: int, c1: float, c2: float) -> None:
    """Compute the Jacobians of the viscous fluxes."""
    for a, h, b in product(range(1, n - 1), range(n), range(1, n - 1)):
        t = rho_i[a, b, h]
        v1 = u[1, a, b, h] * t * t
        v2 = u[2, a, b, h] * t * t
        v3 = u[3, a, b, h] * t * t
        e = u[4, a, b, h] * t * t
        for q in FIELDS:
            f[0, q, a, h, b] = 0.0
        for m, q in ((1, 2), (1, 3), (1, 4), (2, 1), (2, 3), (2, 4), (3, 1), (3, 2), (3, 4)):
            f[m, q, a, h, b] = 0.0
        f[1, 0, a, h, b] = -c1 * v1
        f[1, 1, a, h, b] = c1 * t
        f[2, 0, a, h, b] = -c2 * v2
        f[2, 2, a, h, b] = c2 * t
        f[3, 0, a, h, b] = -c2 * v3
        f[3, 3, a, h, b] = c2 * t
        f[4, 0, a, h, b] = -c1 * v1 * v1 - c2 * v2 * v2 - c2 * v3 * v3 - c1 * e
        f[4, 1, a, h, b] = c1 * v1
        f[4, 2, a, h, b] = c2 * v2
        f[4, 3, a, h, b] = c2 * v3
        f[4, 4, a, h, b] = c1 * t


def clear_walls(lhs: Doubles, n: int) -> None:
    """Clear the blocks at both ends of a line."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            for q in range(5):
                for c in range(3):
                    lhs[m, q, c, a, 0, b] = 0.0
                    lhs[m, q, c, a, n - 1, b] = 0.0


def unit_walls(lhs: Doubles, n: int) -> None:
    """Set the unit block at both ends of a line."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in FIELDS:
            lhs[m, m, 1, a, 0, b] = 1.0
            lhs[m, m, 1, a, n - 1, b] = 1.0


def blocks(lhs: Doubles, f: Doubles, g: Doubles, n: int, t1: float, t2: float, d: float) -> None:
    """Compute the three blocks of each point from the Jacobians of its neighbours."""
    for a, h, b in product(range(1, n - 1), range(1, n - 1), range(1, n - 1)):
        for m, q in OFF_DIAGONAL:
            lhs[m, q, 0, a, h, b] = -t2 * f[m, q, a, h - 1, b] - t1 * g[m, q, a, h - 1, b]
            lhs[m, q, 1, a, h, b] = t1 * 2.0 * g[m, q, a, h, b]
            lhs[m, q, 2, a, h, b] = t2 * f[m, q, a, h + 1, b] - t1 * g[m, q, a, h + 1, b]
        for m in FIELDS:
            lhs[m, m, 0, a, h, b] = -t2 * f[m, m, a, h - 1, b] - t1 * g[m, m, a, h - 1, b] - t1 * d
            lhs[m, m, 1, a, h, b] = t1 * 2.0 * g[m, m, a, h, b] + 1.0 + t1 * 2.0 * d
            lhs[m, m, 2, a, h, b] = t2 * f[m, m, a, h + 1, b] - t1 * g[m, m, a, h + 1, b] - t1 * d


def first_point(lhs: Doubles, rhs: Doubles, n: int) -> None:
    """Turn the first block of each line into the unit block."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for p in range(5):
            pivot = 1.0 / lhs[p, p, 1, a, 0, b]
            lhs[p, p, 1, a, 0, b] = 1.0
            rhs[p, a, b, 0] = rhs[p, a, b, 0] * pivot
            for q in range(5):
                lhs[p, q, 1, a, 0, b] = lhs[p, q, 1, a, 0, b] * pivot
                lhs[p, q, 2, a, 0, b] = lhs[p, q, 2, a, 0, b] * pivot
            for m in range(5):
                if m != p:
                    coefficient = lhs[m, p, 1, a, 0, b]
                    rhs[m, a, b, 0] = rhs[m, a, b, 0] - coefficient * rhs[p, a, b, 0]
                    for q in range(5):
                        lhs[m, q, 1, a, 0, b] = lhs[m, q, 1, a, 0, b] - coefficient * lhs[p, q, 1, a, 0, b]
                        lhs[m, q, 2, a, 0, b] = lhs[m, q, 2, a, 0, b] - coefficient * lhs[p, q, 2, a, 0, b]


def eliminate(lhs: Doubles, rhs: Doubles, n: int) -> None:
    """Eliminate point after point: subtract what the previous point contributes, then make the block the unit block."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for h in range(1, n - 1):
            for m in range(5):
                for q in range(5):
                    rhs[m, a, b, h] = rhs[m, a, b, h] - lhs[m, q, 0, a, h, b] * rhs[q, a, b, h - 1]
            for m in range(5):
                for q in range(5):
                    for p in range(5):
                        lhs[m, q, 1, a, h, b] = (
                            lhs[m, q, 1, a, h, b] - lhs[m, p, 0, a, h, b] * lhs[p, q, 2, a, h - 1, b]
                        )
            for p in range(5):
                pivot = 1.0 / lhs[p, p, 1, a, h, b]
                lhs[p, p, 1, a, h, b] = 1.0
                rhs[p, a, b, h] = rhs[p, a, b, h] * pivot
                for q in range(5):
                    lhs[p, q, 1, a, h, b] = lhs[p, q, 1, a, h, b] * pivot
                    lhs[p, q, 2, a, h, b] = lhs[p, q, 2, a, h, b] * pivot
                for m in range(5):
                    if m != p:
                        coefficient = lhs[m, p, 1, a, h, b]
                        rhs[m, a, b, h] = rhs[m, a, b, h] - coefficient * rhs[p, a, b, h]
                        for q in range(5):
                            lhs[m, q, 1, a, h, b] = lhs[m, q, 1, a, h, b] - coefficient * lhs[p, q, 1, a, h, b]
                            lhs[m, q, 2, a, h, b] = lhs[m, q, 2, a, h, b] - coefficient * lhs[p, q, 2, a, h, b]


def last_vector(lhs: Doubles, rhs: Doubles, n: int) -> None:
    """Compute the right-hand side at the end of each line."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            for q in range(5):
                rhs[m, a, b, n - 1] = rhs[m, a, b, n - 1] - lhs[m, q, 0, a, n - 1, b] * rhs[q, a, b, n - 2]


def last_block(lhs: Doubles, n: int) -> None:
    """Compute the block at the end of each line."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            for q in range(5):
                for p in range(5):
                    lhs[m, q, 1, a, n - 1, b] = (
                        lhs[m, q, 1, a, n - 1, b] - lhs[m, p, 0, a, n - 1, b] * lhs[p, q, 2, a, n - 2, b]
                    )


def last_point(lhs: Doubles, rhs: Doubles, n: int) -> None:
    """Turn the last block of each line into the unit block."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for p in range(5):
            pivot = 1.0 / lhs[p, p, 1, a, n - 1, b]
            lhs[p, p, 1, a, n - 1, b] = 1.0
            rhs[p, a, b, n - 1] = rhs[p, a, b, n - 1] * pivot
            for q in range(5):
                lhs[p, q, 1, a, n - 1, b] = lhs[p, q, 1, a, n - 1, b] * pivot
                lhs[p, q, 2, a, n - 1, b] = lhs[p, q, 2, a, n - 1, b] * pivot
            for m in range(5):
                if m != p:
                    coefficient = lhs[m, p, 1, a, n - 1, b]
                    rhs[m, a, b, n - 1] = rhs[m, a, b, n - 1] - coefficient * rhs[p, a, b, n - 1]
                    for q in range(5):
                        lhs[m, q, 1, a, n - 1, b] = lhs[m, q, 1, a, n - 1, b] - coefficient * lhs[p, q, 1, a, n - 1, b]
                        lhs[m, q, 2, a, n - 1, b] = lhs[m, q, 2, a, n - 1, b] - coefficient * lhs[p, q, 2, a, n - 1, b]


def substitute(lhs: Doubles, rhs: Doubles, n: int, h: int) -> None:
    """Substitute back into one plane of points, from the solution in the plane behind it."""
    for a, b in product(range(1, n - 1), range(1, n - 1)):
        for m in range(5):
            for q in range(5):
                rhs[m, a, b, h] = rhs[m, a, b, h] - lhs[m, q, 2, a, h, b] * rhs[q, a, b, h + 1]


SOLVERS: Final = {
    axis: {
        name: named(f"{name}_{axis}", function, collapse)
        for name, function, collapse in (
            ("jacobian", jacobian, 3),
            ("viscous_jacobian", viscous_jacobian, 3),
            ("clear_walls", clear_walls, 2),
            ("unit_walls", unit_walls, 2),
            ("blocks", blocks, 3),
            ("first_point", first_point, 2),
            ("eliminate", eliminate, 2),
            ("last_vector", last_vector, 2),
            ("last_block", last_block, 2),
            ("last_point", last_point, 2),
            ("substitute", substitute, 2),
        )
    }
    for axis in AXES
}
