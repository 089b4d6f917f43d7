"""EP: pairs of Gaussian numbers by rejection, counted by their size, in blocks of independent batches.

Every batch jumps to its own place in one linear congruential sequence. The public code keeps a batch's numbers in a
scratch array of the device, with a part for each thread. Here numbers are used as they are made, and the scratch array
is only allocated. The counters are scalars of the thread, as in the public code.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from offloadrt.kernels import kernel
from offloadrt.papers.jacc.programs.benchmark import Arrays, Benchmark, BenchmarkProgram, Number, OnHost, call

Doubles = NDArray[np.float64]
BINS: Final = 10
MULTIPLIER: Final = 1220703125
SEED: Final = 271828183
HALF: Final = (1 << 23) - 1
ALL: Final = (1 << 46) - 1


@kernel
def clear_counts(q: Doubles) -> None:
    """Set the counts `q` of the whole program, one for each of ten sizes, to zero."""
    for i in range(10):
        q[i] = 0.0


@kernel(collapse=2)
def clear_batches(qq: Doubles, batches: int) -> None:
    """Set the counts of each batch of a block, ``qq[batch, size]``, to zero. batches: the batches of a block."""
    for k, i in product(range(batches), range(10)):
        qq[k, i] = 0.0


@kernel
def gaussian_pairs(
    qq: Doubles, sums: Doubles, batches: int, pairs: int, bits: int, first: int, step: int, a: int, s: int
) -> None:
    """Make the pairs of Gaussian random numbers of each batch in a block; count them by size in ``qq[batch, size]``.

    sums: the sums of the pairs' first and of their second numbers are added to its two elements. batches: those of the
    block. pairs: pairs drawn in a batch, of which some are rejected. bits: bits of a batch's number. first: the number
    of the block's first batch. step, a: the sequence's multipliers from batch to batch and from number to number. s:
    the seed.
    """
    sx = 0.0
    sy = 0.0
    for k in range(batches):
        q0 = 0.0
        q1 = 0.0
        q2 = 0.0
        q3 = 0.0
        q4 = 0.0
        q5 = 0.0
        q6 = 0.0
        q7 = 0.0
        q8 = 0.0
        q9 = 0.0
        x = s
        t = step
        for b in range(bits):
            t1 = t >> 23
            t2 = t & HALF
            if ((first + k) >> b) & 1:
                x = ((((t1 * (x & HALF) + t2 * (x >> 23)) & HALF) << 23) + t2 * (x & HALF)) & ALL
            t = ((((t1 * t2 + t2 * t1) & HALF) << 23) + t2 * t2) & ALL
        a1 = a >> 23
        a2 = a & HALF
        for _ in range(pairs):
            x = ((((a1 * (x & HALF) + a2 * (x >> 23)) & HALF) << 23) + a2 * (x & HALF)) & ALL
            u = 2.0 * (x * 1.4210854715202004e-14) - 1.0
            x = ((((a1 * (x & HALF) + a2 * (x >> 23)) & HALF) << 23) + a2 * (x & HALF)) & ALL
            v = 2.0 * (x * 1.4210854715202004e-14) - 1.0
            r = u * u + v * v
            if r <= 1.0:
                f = math.sqrt(-2.0 * math.log(r) / r)
                g = u * f
                h = v * f
                bin = int(max(abs(g), abs(h)))
                if bin == 0:
                    q0 = q0 + 1.0
                elif bin == 1:
                    q1 = q1 + 1.0
                elif bin == 2:
                    q2 = q2 + 1.0
                elif bin == 3:
                    q3 = q3 + 1.0
                elif bin == 4:
                    q4 = q4 + 1.0
                elif bin == 5:
                    q5 = q5 + 1.0
                elif bin == 6:
                    q6 = q6 + 1.0
                elif bin == 7:
                    q7 = q7 + 1.0
                elif bin == 8:
                    q8 = q8 + 1.0
                else:
                    q9 = q9 + 1.0
                sx += g
                sy += h
        qq[k, 0] = q0
        qq[k, 1] = q1
        qq[k, 2] = q2
        qq[k, 3] = q3
        qq[k, 4] = q4
        qq[k, 5] = q5
        qq[k, 6] = q6
        qq[k, 7] = q7
        qq[k, 8] = q8
        qq[k, 9] = q9
    sums[0] = sums[0] + sx
    sums[1] = sums[1] + sy


@kernel
def add_counts(q: Doubles, qq: Doubles, batches: int) -> None:
    """Add the counts of a block's batches, ``qq[batch, size]``, to those of the program, ``q[size]``."""
    for i in range(10):
        for k in range(batches):
            q[i] = q[i] + qq[k, i]


def jump(exponent: int) -> int:
    """Return the multiplier that advances EP's random number generator by `exponent` numbers.

    The generator multiplies by `MULTIPLIER` modulo 2^46.
    """
    return pow(MULTIPLIER, exponent, ALL + 1)


def build(arrays: Arrays, size: tuple[int, ...]) -> BenchmarkProgram:
    """Build the program with arrays that `arrays` makes. size: (blocks, batches in a block, pairs in a batch)."""
    blocks, batches, pairs = size
    q = arrays("q", BINS)
    qq = arrays("qq", (batches, BINS))
    sums = arrays("sums", 2)
    scratch = arrays("xx", (2 * pairs, batches))
    bits = max(1, (blocks * batches - 1).bit_length())

    first = Number(0)
    numbers = (batches, pairs, bits, first, jump(2 * pairs), MULTIPLIER, SEED)

    def advance() -> None:
        if not q.phantom:
            first.value += batches

    return BenchmarkProgram(
        setup=(call(clear_counts, q),),
        iteration=(
            call(clear_batches, qq, batches),
            call(gaussian_pairs, qq, sums, *numbers),
            call(add_counts, q, qq, batches),
            OnHost((), advance),
        ),
        iterations=blocks,
        copyin=(sums,),
        create=(q, qq, scratch),
        results=(q, sums),
    )


BENCHMARK = Benchmark(
    name="EP",
    dup_s=37.485,
    sizes={"D": (512, 2048, 1 << 16), "test": (3, 8, 64)},
    build=build,
)
