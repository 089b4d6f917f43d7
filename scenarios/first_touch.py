"""When does it pay to fill the device's page table at a map, instead of by page faults?"""

from __future__ import annotations

from typing import Annotated, Literal

from offloadrt import Range, Run, scenario
from offloadrt.papers.figures import figures_of
from offloadrt.papers.zerocopy.first_touch import FirstTouch
from offloadrt.papers.zerocopy.memory_time import memory_overheads

LISTED_AS = "single mechanisms"

FIGURES = figures_of("zerocopy")


@scenario(
    machine="mi300a",
    figure=FIGURES["first_touch"],
    sweep={
        "bytes": tuple(1 << k for k in range(16, 33, 2)),
        "configuration": ("copy", "implicit_zero_copy", "eager_maps"),
        "remaps": (0, 10, 100),
    },
)
async def first_touch(
    run: Run,
    bytes: Annotated[int, Range(8, 1 << 36)] = 1 << 26,
    arrays: Annotated[int, Range(1, 100_000)] = 1,
    remaps: Annotated[int, Range(0, None)] = 0,
    filled: bool = False,
    configuration: Literal["copy", "usm", "implicit_zero_copy", "eager_maps"] = "implicit_zero_copy",
) -> dict[str, float | int]:
    """Fresh host arrays are mapped around a kernel that sweeps over them, and mapped again without being new.

    Filling at the map costs a call at every map and a little for each new page; a fault costs much more for each new
    page and nothing afterwards.

    Parameters:
        bytes: of all arrays together
        arrays: into which they are divided
        remaps: times that each array is mapped again
        filled: the host has written the arrays before: only the device lacks their pages
        configuration: what a map means
    """
    run.phantom = True
    program = FirstTouch(bytes, arrays, remaps, filled)
    await run.parallel(program.run)
    return {
        "maps": program.maps,
        **memory_overheads(run),
        "per_map_s": run.elapsed / program.maps,
    }
