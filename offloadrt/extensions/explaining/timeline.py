"""`offloadrt timeline`: a still picture of a run, for a slide or a paper: who did what when, and who held which lock.

It draws what the report's timeline shows (`tracks.timeline_of`) with matplotlib, as PNG, SVG or PDF. A colour stands
for a kind of work (`tracks.KINDS`), the same on every track.
"""

from __future__ import annotations

import fnmatch
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter

from offloadrt.cli.options import DEFAULTS, ParameterValues, ScenarioName, single
from offloadrt.extensions.drawing.panels import new_canvas
from offloadrt.study.errors import UserError, library
from offloadrt.study.spec import RunSpec

if TYPE_CHECKING:
    from offloadrt.extensions.explaining.sentence import Observed
    from offloadrt.extensions.explaining.tracks import TimelineTrack

_LEVELS = 3
"""So many levels of nested slices are drawn apart; deeper ones are drawn on the last level."""
_ROW = 0.17
"""The height of a level of a track, in inches, if the page has room for it."""
_HIGHEST = 14.0
"""The greatest height of a picture, in inches; with more tracks, each is lower."""
_LETTER = 0.062
"""The width of a letter of a label, in inches."""
_MOST_LABELS = 500
_UNITS = ((1e12, "s"), (1e9, "ms"), (1e6, "µs"), (1e3, "ns"))

Tracks = Annotated[
    list[str] | None,
    Parameter(
        help="Draw only tracks of this name, as in `--track 'host thread 1?' --track 'device table'`; may be repeated.",
        name="--track",
        negative=(),
    ),
]


def timeline_command(
    out: Path,
    scenario: ScenarioName,
    /,
    *parameters: ParameterValues,
    window: str = "",
    track: Tracks = None,
    spec: RunSpec = DEFAULTS,
) -> None:
    """Draw a run over virtual time to a PNG, SVG or PDF file: threads, device, locks, and the critical path.

    Parameters
    ----------
    out:
        The file to draw; its ending says of which kind it is.
    window:
        What to show of a long run, in virtual time, as in 1ms:2.5ms; by default all that is measured.
    """
    from offloadrt.cli.options import check_files
    from offloadrt.extensions.drawing.panels import check_type, save
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.parameters import split_assignments

    check_type(out, "timeline")
    chosen = registry.find(scenario)
    check_files({"timeline": out}, [chosen.path])
    canvas = drawn_of(chosen, split_assignments(parameters), single(spec), window_of(window), track or ())
    save(canvas, out)
    print(out)


def window_of(text: str) -> tuple[int, int] | None:
    """Return begin and end, in picoseconds, of a window written as FROM:TO; None for no text. Raises UserError."""
    if not text:
        return None
    wanted = f"--window {text}: a window is written FROM:TO in virtual time, as in 1ms:2.5ms"
    try:
        begin, end = (round(_seconds(part) * 1e12) for part in text.split(":"))
    except ValueError:
        raise UserError(wanted) from None
    if not 0 <= begin < end:
        raise UserError(wanted)
    return begin, end


def check_window(runs: Sequence[Observed], window: tuple[int, int]) -> None:
    """Raise UserError for a window, in picoseconds, that begins when all runs have ended."""
    from offloadrt.study.reporting.words import seconds

    last_ps = max((row[1] for run in runs for row in run.rows[-1:]), default=0)
    if window[0] >= last_ps:
        begin, end, last = (seconds(instant * 1e-12) for instant in (*window, last_ps))
        raise UserError(f"nothing happened from {begin} to {end} of virtual time: the run ended at {last}")


def _seconds(text: str) -> float:
    for unit, scale in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * scale
    raise ValueError(text)


def drawn_of(
    chosen: Any, given: Mapping[str, Any], spec: RunSpec, window: tuple[int, int] | None, patterns: Sequence[str]
) -> Any:
    """Run a scenario and draw it as a figure of matplotlib.

    chosen, given, spec: the scenario, its parameters by name, and the options of the run. window: begin and end in
    picoseconds; None: all that was measured. patterns: names of the tracks to draw; none: all. Raises UserError if
    window or patterns show nothing, and what `execute` raises.
    """
    from offloadrt.extensions.explaining.sentence import observe

    library("matplotlib")
    parameters = chosen.bind(given)
    return drawn(observe(chosen, parameters, attrs.evolve(spec, sample_phases=True)), window, patterns)


def drawn(observed: Observed, window: tuple[int, int] | None = None, patterns: Sequence[str] = ()) -> Any:
    """Draw a recorded run as a figure of matplotlib.

    window: begin and end in picoseconds; None: all that was measured. patterns: names of the tracks to draw, with
    wildcards as of a shell; none: all. Raises UserError if window or patterns show nothing.
    """
    from offloadrt.extensions.explaining.tracks import KINDS, overview, timeline_of
    from offloadrt.study.reporting.words import named, seconds, where

    shown = window or (observed.windows[0][0], observed.windows[-1][1])
    whole = timeline_of(observed.rows, observed.path, shown, observed.causal_log)
    names = [track.name for track in whole.tracks]
    if window is not None:
        check_window([observed], window)
    if not names:
        begin, end = (seconds(instant * 1e-12) for instant in shown)
        raise UserError(f"nothing happened from {begin} to {end} of virtual time")
    if patterns:
        whole.tracks = [one for one in whole.tracks if any(fnmatch.fnmatchcase(one.name, each) for each in patterns)]
    if not whole.tracks:
        raise UserError(f"--track {' '.join(patterns)}: no track has such a name; there are {', '.join(names)}")
    tracks, _ = overview(whole)
    rows = [min(_LEVELS, 1 + max((one.level for one in track.slices), default=0)) for track in tracks]
    gaps = [0.0, *(0.9 if one.group != before.group else 0.25 for before, one in itertools.pairwise(tracks))]
    height = min(_HIGHEST, 1.5 + _ROW * (sum(rows) + sum(gaps)))
    canvas = new_canvas(11.0, height)
    area = canvas.subplots()
    factor, unit = next(((one, name) for one, name in _UNITS if shown[1] - shown[0] >= one), _UNITS[-1])
    painter = _Painter(area, factor, 9.0 / ((shown[1] - shown[0]) / factor))
    y, ticks, labels = 0.0, [], []
    for track, levels, gap in zip(tracks, rows, gaps, strict=True):
        y += gap
        painter.paint(track, y)
        ticks.append(y + levels / 2)
        labels.append(track.name)
        y += levels
    area.set_ylim(y + 0.3, -0.3)
    area.set_xlim(shown[0] / factor, shown[1] / factor)
    area.set_yticks(ticks, labels, fontsize=min(7.0, 72 * _HIGHEST / max(len(tracks), 1) * 0.8))
    area.tick_params(axis="y", length=0)
    area.set_xlabel(f"virtual time ({unit})")
    area.spines[["top", "right", "left"]].set_visible(False)
    result = observed.result
    area.set_title(
        f"{result.scenario} {named(result.parameters)} on {where(result)}: {seconds(result.elapsed_s)}",
        fontsize="small", wrap=True,
    )  # fmt: skip
    patch = library("matplotlib.patches").Patch
    handles = [patch(color=colour, label=kind) for kind, colour in KINDS.items() if kind in painter.kinds]
    canvas.legend(handles=handles, loc="outside lower center", ncols=5, fontsize="x-small", frameon=False)
    return canvas


@attrs.define
class _Painter:
    """Draws tracks on axes of matplotlib, and remembers which kinds of work were on them, for the legend.

    factor: picoseconds per unit of the time axis.
    """

    area: Any
    factor: float
    inches: float
    """The width of a unit of the time axis, in inches."""
    kinds: set[str] = attrs.field(factory=set)
    labels: int = 0

    def paint(self, track: TimelineTrack, y: float) -> None:
        """Draw a track from `y` downwards; a nested slice is drawn below the slice that contains it."""
        from offloadrt.extensions.explaining.tracks import KINDS, kind_of

        spans: dict[tuple[int, str], list[tuple[float, float]]] = {}
        for one in track.slices:
            level, kind = min(one.level, _LEVELS - 1), kind_of(track, one)
            begin, width = one.begin_ps / self.factor, one.ps / self.factor
            spans.setdefault((level, kind), []).append((begin, width))
            if len(one.name) * _LETTER < width * self.inches and self.labels < _MOST_LABELS:
                self.labels += 1
                dark = kind in ("directive of the program", "call of the driver", "waits for the device", "other work")
                self.area.text(
                    begin + width / 2, y + level + 0.5, one.name, ha="center", va="center", fontsize=5.5, clip_on=True,
                    color="black" if dark else "white",
                )  # fmt: skip
        for (level, kind), places in sorted(spans.items()):
            self.kinds.add(kind)
            self.area.broken_barh(places, (y + level + 0.04, 0.92), facecolors=KINDS[kind], linewidth=0)
