"""Under `otm` an object that is placed on the GPU finds its memory there, however full it is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from otm_rig import ALL_EXPLICIT, BLOCK, known, mechanisms, run_body
from property_examples import examples

from offloadrt import openmp as omp
from offloadrt.extensions.otm.configuration import placements_on
from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.kernels import ArrayUse, Kernel

NAMES = "abcdef"
SIZES = st.lists(
    st.one_of(st.integers(1, 9000), st.integers(1, 3 * BLOCK), st.integers(1, 3).map(BLOCK.__mul__)),
    min_size=1,
    max_size=6,
)
ORDER = known(**{name: 9.0 - number for number, name in enumerate(NAMES)})


def full(segments: int) -> dict[str, str]:
    """A device with so much memory, nothing of which is reserved."""
    return {"mem.size": f"{segments * BLOCK} B", "mem.reserved": "0 B", "otm.reserve": "0 B"}


def use(arrays: list[omp.HostArray], accesses: float) -> Kernel:
    return Kernel("use", arrays=tuple(ArrayUse(a.name, k, reads=accesses) for k, a in enumerate(arrays)))


def run_with(
    sizes: list[int], segments: int, overrides: dict[str, str], threads: int = 1, program: HostProgram = ORDER
):
    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(name, n, np.uint8, fill=1) for name, n in zip(NAMES, sizes, strict=False)]
        for first in range(len(arrays)):
            some = arrays[first : first + 3]
            async with t.target_data(omp.map(tofrom=some)):
                await t.target(use(some, 1.0), *some, maps=omp.map(tofrom=some), teams=1, iterations=max(sizes))
            await t.target(use(some, 0.1), *some, maps=omp.map(tofrom=some), teams=1, iterations=max(sizes))
            for array in some:
                await t.host_access(array)
        async with t.target_data(omp.map(to=arrays)):
            await t.target(use(arrays, 1.0), *arrays, maps=omp.map(tofrom=arrays), teams=1, iterations=max(sizes))

    run, _ = run_body(body, program=program, overrides={**full(segments), **overrides}, threads=threads, phantom=True)
    assert not run.device().memory.blocks()


@examples(30)
@given(
    SIZES,
    st.integers(1, 6),
    st.integers(1, 2),
    st.sampled_from(["0", "0.6"]),
    st.sampled_from(["region", "data", "program"]),
    st.booleans(),
)
def test_no_object_is_ever_out_of_memory(
    sizes: list[int], segments: int, threads: int, threshold: str, leave: str, evicts: bool
) -> None:
    rules = {"otm.threshold": threshold, "otm.leave": leave, "otm.evicts": str(evicts).lower()}
    run_with(sizes, segments, rules, threads)


def test_an_object_takes_whole_segments() -> None:
    """Two objects of one byte more than half the memory's segments have no room side by side."""

    async def body(t: omp.HostThread) -> None:
        arrays = [t.array(name, BLOCK + 1, np.uint8, fill=1) for name in "ab"]
        await t.target(use(arrays, 1.0), *arrays, maps=omp.map(tofrom=arrays), teams=1, iterations=BLOCK)

    for segments, expected in ((3, ["explicit", "pinned"]), (4, ["explicit", "explicit"])):
        run, _ = run_body(body, program=ORDER, overrides={**full(segments), **ALL_EXPLICIT}, phantom=True)
        assert list(mechanisms(run).values()) == expected
        assert [one.nbytes for one in placements_on(run.program.devices)] == [BLOCK + 1] * 2


def test_sections_take_segments_of_their_own() -> None:
    async def body(t: omp.HostThread) -> None:
        (array,) = (t.array("a", 2 * BLOCK, np.uint8, fill=1),)
        ends = [omp.section(array, 0, BLOCK + 1), omp.section(array, BLOCK + 1, BLOCK - 1)]
        await t.target(use([array], 1.0), array, maps=omp.map(tofrom=ends), teams=1, iterations=BLOCK)

    for segments, expected in ((2, "pinned"), (3, "explicit")):
        run, _ = run_body(body, program=ORDER, overrides={**full(segments), **ALL_EXPLICIT}, phantom=True)
        assert mechanisms(run) == {"a": expected}
