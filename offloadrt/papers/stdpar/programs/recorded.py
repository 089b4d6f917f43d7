"""The public version of LULESH, compiled by `offloadrt cxx -stdpar` and recorded: what it does is its own.

Recorded was branch 2.0.2-dev of LLNL/LULESH, folder stdpar, with ``-O2`` and ``-s SIZE -i 11``. A recording has one
size, and it has no copies of its own. The host's own work is left out, for it was that of another machine. LULESH's
policy is `par`, under which neither AdaptiveCpp nor roc-stdpar offloads to an AMD GPU; as the paper has figures of
that, it runs under `par_unseq` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from offloadrt.extensions import stdpar as std
from offloadrt.extensions.recording.format import RecordingFile
from offloadrt.extensions.recording.replay.algorithms import Timed, replay_on
from offloadrt.papers.stdpar.programs.frame import ApplicationOutcome, captured_by_reference
from offloadrt.papers.stdpar.programs.frame import Timed as Measured

FOLDER: Final = Path(__file__).parents[1] / "recorded"
ROUNDS: Final[Mapping[str, str]] = {
    "lulesh": "LULESH/stdpar/src/lulesh.cc:976",
}
"""Where an application calls an algorithm once in each iteration that its authors time."""


def sizes(application: str) -> list[int]:
    """List the sizes at which an application was recorded."""
    names = (path.stem.rpartition("-") for path in FOLDER.glob("*.rec"))
    return sorted(int(size) for name, _, size in names if name == application)


@attrs.frozen
class RecordedApplication:
    """`steps` iterations of a recorded application; all, if 0. ValueError where it was not recorded at that size."""

    application: str
    size: int
    steps: int

    def __attrs_post_init__(self) -> None:
        known = sizes(self.application)
        if self.size not in known:
            raise ValueError(f"{self.size}, but {self.application} was recorded at {', '.join(map(str, known))}")

    async def run(self, t: std.HostThread, timed: Measured) -> ApplicationOutcome:
        """Run the whole program, and time its iterations."""
        captured_by_reference(t, "domain")
        file = RecordingFile.read(FOLDER / f"{self.application}-{self.size}.rec")
        recording = file.load(file.runs[0])
        program = t.program
        assert isinstance(program, std.StdPar)
        await replay_on(t, program, recording, Timed.at(ROUNDS[self.application], recording, timed, self.steps))
        return ApplicationOutcome()
