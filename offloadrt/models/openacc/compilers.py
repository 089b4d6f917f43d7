"""Compiler models: what the run-time libraries of PGI and GCC do for the same program.

They differ in the calls that they make of the driver. PGI's library takes device memory from a pool, and a launch
passes its arguments through the driver. libgomp asks the driver for every block, and each launch has its addresses in
a block of device memory of its own (`ArgumentBlocks`). JACC gives libgomp two pools: U for the blocks that the program
asks for, I for libgomp's own. A launch keeps its block until it is over, so that pool I grows with the launches in
flight: what runs ahead of the device (`async`) pays an allocation for each, and a free for each when the program ends,
which only a program of few launches notices. How good each compiler's kernels are is an input of the program
(`Effects`).
"""

from __future__ import annotations

from typing import Final

import attrs

from offloadrt.runtime.allocators import DeviceAllocator, Direct, InternalPool


@attrs.frozen
class CompilerModel:
    """One run-time library.

    allocator: the name of the allocator of the program's data. arguments: where the blocks for the arguments of
    launches come from; None where launches need none. one_buffer: pageable memory is staged in one pinned buffer of
    each device (``NVCOMPILER_ACC_BUFFERSIZE``), one copy at a time, instead of by the driver for each stream.
    """

    name: str
    allocator: str
    arguments: type[DeviceAllocator] | None = None
    one_buffer: bool = False


COMPILERS: Final = {
    "pgi": CompilerModel("pgi", "pool", one_buffer=True),
    "gcc": CompilerModel("gcc", "direct", Direct),
}
GCC_WITH_POOLS: Final = CompilerModel("gcc", "pool", InternalPool)


def compiler_model(name: str, pools: bool = False) -> CompilerModel:
    """Return the model of that name; `pools` asks for GCC with JACC's two pools.

    PGI's library has its pool with or without `pools`. Raises ValueError for a name that does not exist.
    """
    if name not in COMPILERS:
        raise ValueError(f"no compiler {name!r}; there are: {', '.join(sorted(COMPILERS))}")
    return GCC_WITH_POOLS if pools and name == "gcc" else COMPILERS[name]
