"""FT: the heat equation by a fast Fourier transform in three dimensions, evolved in Fourier space.

As in the public code, real and imaginary parts are arrays of their own, [k, j, i], and rows have one more point than
they need. A transform copies its lines to a scratch array, computes there and in a second one, and copies them back.
All of them are arrays of the whole cube on the device, so a divided transform exchanges both scratch arrays too, though
nobody reads them afterwards. A device that keeps a part of the first dimension would need whole lines of it, so
transforms along it cannot be divided. The stages are in constant geometry, without the permutation at the end, and each
of them ends in the first scratch array, where those of the public code take turns. Nine stages over a line count as one
pass. The kernels' parameters are named as in NPB's FT: u0 are the Fourier coefficients, u1 a copy of them that is
transformed back, twiddle their factors of decay, and n is the number of points a side.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, Final

from offloadrt.kernels import Kernel
from offloadrt.papers.jacc.programs.benchmark import (
    Arrays,
    Benchmark,
    BenchmarkProgram,
    KernelCall,
    OnHost,
    RepeatedSteps,
    call,
)
from offloadrt.papers.jacc.programs.fields import Doubles, between, named


def initialise(
    u0_real: Doubles, u0_imag: Doubles, u1_real: Doubles, u1_imag: Doubles, twiddle: Doubles, n: int, width: int
) -> None:
    """Set the coefficients u0 and u1 (real and imaginary parts) and the factors of decay, `twiddle`, to zero.

    All are arrays [k, j, i] with n points in the first two dimensions and `width` in the last.
    """
    for k, j, i in product(range(n), range(n), range(width)):
        u0_real[k, j, i] = 0.0
        u0_imag[k, j, i] = 0.0
        u1_real[k, j, i] = 0.0
        u1_imag[k, j, i] = 0.0
        twiddle[k, j, i] = 0.0


def index_map(twiddle: Doubles, n: int, a: float) -> None:
    """Compute for each wave number (k, j, i) its factor of decay in a time step: twiddle = exp(a |wave number|²)."""
    for k, j, i in product(range(n), range(n), range(n)):
        x = (i + n // 2) % n - n // 2
        y = (j + n // 2) % n - n // 2
        z = (k + n // 2) % n - n // 2
        twiddle[k, j, i] = math.exp(a * (x * x + y * y + z * z))


def first_root(u_real: Doubles, u_imag: Doubles, stages: int) -> None:
    """Store the number of stages as element 0 of the table (u_real, u_imag), in front of the roots of unity."""
    for i in range(1):
        u_real[i] = stages
        u_imag[i] = 0.0


def roots(u_real: Doubles, u_imag: Doubles, count: int, angle: float) -> None:
    """Compute the `count` roots of unity of one stage of a fast Fourier transform into the table (u_real, u_imag).

    They are stored behind those of earlier stages. angle: between two of them, in radians.
    """
    for i in range(count):
        u_real[i + count] = math.cos(angle * i)
        u_imag[i + count] = math.sin(angle * i)


LINES: Final = {
    1: ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    2: ((1, 0, 0), (0, 0, 1), (0, 1, 0)),
    3: ((0, 0, 1), (1, 0, 0), (0, 1, 0)),
}
"""For each transform of the public code (1 along the last dimension, 3 along the first), the factors of (a, b, c) in
each of an element's three indices: a thread transforms line (a, b), and c counts the points of the line."""


def transform_along(number: int) -> Callable[..., None]:
    """Make the function of a kernel that Fourier-transforms all lines of a cube along one dimension, in place.

    number: the dimension, a key of `LINES` (1 is the last dimension, 3 the first). The kernel takes the cube (`real`,
    `imag`), two scratch arrays of the cube's size (`one_*`, `two_*`), and the roots of unity (`u_*`). n: the points of
    a line. stages: log2(n). sign: that of the exponent, 1.0 or -1.0.
    """
    (ka, kb, kc), (ja, jb, jc), (ia, ib, ic) = LINES[number]

    def transform(
        real: Doubles,
        imag: Doubles,
        one_real: Doubles,
        one_imag: Doubles,
        two_real: Doubles,
        two_imag: Doubles,
        u_real: Doubles,
        u_imag: Doubles,
        stages: int,
        n: int,
        sign: float,
    ) -> None:
        for a, b in product(range(n), range(n)):
            for c in range(n):
                one_real[a, c, b] = real[ka * a + kb * b + kc * c, ja * a + jb * b + jc * c, ia * a + ib * b + ic * c]
                one_imag[a, c, b] = imag[ka * a + kb * b + kc * c, ja * a + jb * b + jc * c, ia * a + ib * b + ic * c]
            for stage in range(stages):
                for c in range(n // 2):
                    w = u_real[c + stage]
                    v = sign * u_imag[c + stage]
                    p = one_real[a, c, b]
                    q = one_imag[a, c, b]
                    r = one_real[a, c + n // 2, b]
                    s = one_imag[a, c + n // 2, b]
                    two_real[a, c, b] = p + r
                    two_imag[a, c, b] = q + s
                    two_real[a, c + n // 2, b] = w * (p - r) - v * (q - s)
                    two_imag[a, c + n // 2, b] = w * (q - s) + v * (p - r)
                for c in range(n):
                    one_real[a, c, b] = two_real[a, c, b]
                    one_imag[a, c, b] = two_imag[a, c, b]
            for c in range(n):
                real[ka * a + kb * b + kc * c, ja * a + jb * b + jc * c, ia * a + ib * b + ic * c] = one_real[a, c, b]
                imag[ka * a + kb * b + kc * c, ja * a + jb * b + jc * c, ia * a + ib * b + ic * c] = one_imag[a, c, b]

    return transform


def evolve(u0_real: Doubles, u0_imag: Doubles, u1_real: Doubles, u1_imag: Doubles, twiddle: Doubles, n: int) -> None:
    """Advance the Fourier coefficients u0 by one step in time: multiply them by `twiddle`; copy the result to u1.

    u1 is then transformed back. All arrays are [k, j, i], real and imaginary parts apart. n: points along a side.
    """
    for k, j, i in product(range(n), range(n), range(n)):
        real = u0_real[k, j, i] * twiddle[k, j, i]
        imag = u0_imag[k, j, i] * twiddle[k, j, i]
        u0_real[k, j, i] = real
        u0_imag[k, j, i] = imag
        u1_real[k, j, i] = real
        u1_imag[k, j, i] = imag


def checksum(sums: Doubles, real: Doubles, imag: Doubles, n: int, points: int) -> None:
    """Add up `points` points of the result (real, imag) into the two elements of `sums`, as NPB's FT does."""
    s = 0.0
    t = 0.0
    for p in range(1, points + 1):
        s += real[5 * p % n, 3 * p % n, p % n]
        t += imag[5 * p % n, 3 * p % n, p % n]
    sums[0] = s
    sums[1] = t


TRANSFORMS: Final = {number: transform_along(number) for number in LINES}
KERNELS: Final[dict[str, Kernel]] = {
    name: named(name, function, collapse)
    for name, function, collapse in (
        ("initialise", initialise, 3),
        ("index_map", index_map, 3),
        ("first_root", first_root, 1),
        ("roots", roots, 1),
        ("cffts1_pos", TRANSFORMS[1], 2),
        ("cffts2_pos", TRANSFORMS[2], 2),
        ("cffts3_pos", TRANSFORMS[3], 2),
        ("cffts1_neg", TRANSFORMS[1], 2),
        ("cffts2_neg", TRANSFORMS[2], 2),
        ("cffts3_neg", TRANSFORMS[3], 2),
        ("evolve", evolve, 3),
        ("checksum", checksum, 1),
    )
}


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program with arrays that `arrays` makes. size: (stages, iterations), for 2**stages points a side."""
    stages, iterations = size
    n = 1 << stages
    shape = (n, n, n + 1)
    u0_real, u0_imag, u1_real, u1_imag = (arrays(name, shape) for name in ("u0_real", "u0_imag", "u1_real", "u1_imag"))
    twiddle, u_real, u_imag = arrays("twiddle", shape), arrays("u_real", 2 * n), arrays("u_imag", 2 * n)
    scratch = tuple(arrays(name, (n, n, n)) for name in ("gty1_real", "gty1_imag", "gty2_real", "gty2_imag"))
    sums = arrays("sums", 2)

    def start() -> None:
        u0_real.data[...] = between("u0_real", shape, -1.0, 1.0)()
        u0_imag.data[...] = between("u0_imag", shape, -1.0, 1.0)()

    def transform(kernel: str, real: Any, imag: Any, sign: float) -> KernelCall:
        return call(KERNELS[kernel], real, imag, *scratch, u_real, u_imag, stages, n, sign)

    prepare = (
        call(KERNELS["index_map"], twiddle, n, -4e-6 * math.pi**2),
        call(KERNELS["first_root"], u_real, u_imag, stages),
        *(call(KERNELS["roots"], u_real, u_imag, 1 << stage, math.pi / (1 << stage)) for stage in range(stages)),
        *(transform(f"cffts{dimension}_pos", u0_real, u0_imag, 1.0) for dimension in (1, 2, 3)),
    )
    return BenchmarkProgram(
        setup=(
            call(KERNELS["initialise"], u0_real, u0_imag, u1_real, u1_imag, twiddle, n, n + 1),
            RepeatedSteps(2, (OnHost((), start, (u0_real, u0_imag)), *prepare)),
        ),
        iteration=(
            call(KERNELS["evolve"], u0_real, u0_imag, u1_real, u1_imag, twiddle, n),
            *(transform(f"cffts{dimension}_neg", u1_real, u1_imag, -1.0) for dimension in (3, 2, 1)),
            call(KERNELS["checksum"], sums, u1_real, u1_imag, n, min(1024, n * n)),
            OnHost((sums,)),
        ),
        iterations=iterations,
        create=(u0_real, u0_imag, u1_real, u1_imag, twiddle, u_real, u_imag, *scratch, sums),
        results=(sums, u1_real, u1_imag),
    )


BENCHMARK = Benchmark(
    name="FT",
    dup_s=8.472,
    sizes={"C": (9, 20), "test": (3, 2)},
    build=build,
)
