"""The paper's programs in their public versions, recorded: which algorithms they call, how often, on how much data.

Compiled by ``CXX="offloadrt cxx -stdpar"`` with CMake's release flags (LULESH: ``-O2``), and recorded in `recorded/`:

================  ==================================  =================================================================
babelstream       UoB-HPC/BabelStream, src/std        ``STDIMPL=INDICES``; `-data`: ``DATA17``; ``-s SIZE -n 11``
minibude          UoB-HPC/miniBUDE, std-indices       ``--deck data/bm1 -n SIZE -p 4 -i 8``
cloverleaf        UoB-HPC/CloverLeaf, std-indices     `clover_bm4.in` with SIZE cells a row, six steps
tealeaf           UoB-HPC/TeaLeaf, std-indices        `tea_bm_5.in` with SIZE cells a row, until 500 directives
lulesh            LLNL/LULESH 2.0.2-dev, stdpar       ``-s SIZE -i 11``
================  ==================================  =================================================================

`bench/stdpar_recordings.sh` does so. A recording has one size. The host's own work is left out, because it was measured
on another machine. LULESH uses the policy `par`, under which neither AdaptiveCpp nor roc-stdpar offloads to an AMD GPU.
As the paper has figures for AMD GPUs, all programs run under `par_unseq` here. Under `sycl` and `native`, data lies in
device memory, as in the programs' versions for these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from offloadrt.extensions import stdpar as std
from offloadrt.extensions.recording.format import RecordingFile
from offloadrt.extensions.recording.replay.algorithms import Timed, replay_on
from offloadrt.extensions.stdpar.implementations import HostPointer
from offloadrt.study import Run

FOLDER: Final = Path(__file__).parent / "recorded"


@attrs.frozen
class Timing:
    """Says which part of a run the application's authors time, and which rates they compute."""

    round: str
    """The source position of a call that each iteration makes. What is timed lies between its first and last call."""
    warm_up: int = 0
    """The number of iterations at the beginning that are not timed."""
    rates: Mapping[str, tuple[str, int]] = attrs.field(factory=dict)
    """For each kernel that is timed on its own: where it is called, and how many arrays it reads or writes once."""
    by_reference: str = ""
    """The object that its kernels capture by reference; empty for none."""


def _babelstream(source: str, lines: tuple[int, int, int, int, int]) -> Timing:
    names = ("copy", "mul", "add", "triad", "dot")
    arrays = (2, 2, 3, 3, 2)
    places = [f"{source}:{line}" for line in lines]
    return Timing(places[0], rates=dict(zip(names, zip(places, arrays, strict=True), strict=True)))


TIMINGS: Final[Mapping[str, Timing]] = {
    "babelstream": _babelstream("BabelStream/src/std/STDStream.cpp", (95, 110, 125, 140, 186)),
    "babelstream-data": _babelstream("BabelStream/src/std/STDStream.cpp", (93, 108, 123, 138, 183)),
    "minibude": Timing("miniBUDE/src/std-indices/fasten.hpp:93", warm_up=2),
    "cloverleaf": Timing("CloverLeaf/src/std-indices/calc_dt.cpp:55"),
    "tealeaf": Timing("TeaLeaf/src/std-indices/cg.cpp:125"),
    "lulesh": Timing("LULESH/stdpar/src/lulesh.cc:976", by_reference="domain"),
}
"""The timing of each application, by its name."""


def sizes(application: str) -> list[int]:
    """Return the problem sizes for which there is a recording of an application."""
    names = (path.stem.rpartition("-") for path in FOLDER.glob("*.rec"))
    return sorted(int(size) for name, _, size in names if name == application)


@attrs.frozen
class RecordedApplication:
    """Replays `steps` iterations (0: all) of a recorded application. Raises ValueError for an unrecorded size.

    A recording has the algorithm calls and kernels of the real C++ program at one problem size.
    """

    application: str
    size: int = attrs.field()
    steps: int = 0

    @size.validator
    def _check_size(self, attribute: attrs.Attribute[int], size: int) -> None:
        if size not in (known := sizes(self.application)):
            raise ValueError(f"{size}, but {self.application} was recorded at {', '.join(map(str, known))}")

    async def run(self, t: std.HostThread, run: Run) -> dict[str, float | int]:
        """Run the whole program, and time its iterations. Returns their number, and rates in GB/s.

        A rate is that of the fastest iteration, without the first. Raises CompilationRefused where kernels capture by
        reference and the compiler does not accept that (icpx).
        """
        timing = TIMINGS[self.application]
        implementation = t.runtime.implementation
        if timing.by_reference and implementation.host_pointer is HostPointer.REFUSED:
            raise std.CompilationRefused(
                f"{implementation.name} does not compile kernels that capture {timing.by_reference!r} by reference"
            )
        file = RecordingFile.read(FOLDER / f"{self.application}-{self.size}.rec")
        recording, program = file.load(file.runs[0]), t.program
        assert isinstance(program, std.StdPar)
        laps: dict[str, list[float]] | None = {} if timing.rates else None
        timed = Timed.at(timing.round, recording, run.measure, self.steps, skipped=timing.warm_up, laps=laps)
        await replay_on(t, program, recording, timed)
        figures: dict[str, float | int] = {"steps": len(run.windows.spans)}
        for name, (place, arrays) in timing.rates.items():
            assert laps is not None
            figures[f"{name}_gbs"] = arrays * 8 * self.size / min(laps[place][1:] or laps[place]) / 1e9
        if timing.rates:
            figures["fraction_of_peak"] = figures["triad_gbs"] * 1e9 / run.spec.value("mem.bw_peak")
        return figures
