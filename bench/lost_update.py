"""Draws the timeline of the scenario `lost_update`: where a copy back overtakes a kernel, and the runtime without that.

    python -m bench.lost_update [bench/figures/lost_update.png]

Each row is a host thread or a part of the device; what it does is read from the logs of two runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs

ROWS = ("host thread 0", "host thread 1", "references to a", "kernels", "copies")
COLOURS = {"host thread 0": "#4878a8", "host thread 1": "#d08030", "none": "#a0a0a0"}
BEGIN_US = 275.0
END_US = 450.0
"""The picture begins when both threads have mapped the array and run their first kernels."""
RUNS = (
    ("as LLVM is: the region counts down when its kernel is launched", ()),
    ("table.count_down = kernel: the region waits for its kernel first", ("--set", "table.count_down=kernel")),
)


@attrs.frozen
class Span:
    """Something that goes on from one virtual time to another. Microseconds."""

    row: str
    name: str
    begin: float
    end: float
    by: str


def logged(options: tuple[str, ...]) -> list[dict[str, Any]]:
    """Run the scenario and return its events."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.jsonl"
        command = [sys.executable, "-m", "offloadrt", "run", "lost_update", "--log", str(log), *options]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def spans(events: list[dict[str, Any]]) -> Iterator[Span]:
    """Yield the directives of the threads, the kernels and the copies."""
    begun: dict[tuple[str, object], dict[str, Any]] = {}
    threads: dict[int, str] = {}
    ends = {"DirectiveEnd": "DirectiveBegin", "KernelEnd": "KernelStart", "CopyEnd": "CopyBegin"}
    for event in events:
        kind = event["event"]
        key = event.get("directive" if kind.startswith("Directive") else "kernel" if "Kernel" in kind else "copy")
        if kind == "DirectiveBegin":
            threads[event["directive"]] = event["actor_name"]
        if kind in ends.values():
            begun[kind, key] = event
        elif kind in ends and (first := begun.pop((ends[kind], key), None)) is not None:
            by = threads.get(first.get("cause", -1), "none")
            row = {"DirectiveEnd": first["actor_name"], "KernelEnd": "kernels", "CopyEnd": "copies"}[kind]
            name = first["name"] if kind == "DirectiveEnd" else "kernel" if kind == "KernelEnd" else "copy back"
            yield Span(row, name, first["time_ns"] / 1e3, event["time_ns"] / 1e3, by)
    counts = [event for event in events if event["event"] in ("MapCount", "MapRemove")]
    for event, following in pairwise(counts):
        count = str(event["dynamic"])
        yield Span("references to a", count, event["time_ns"] / 1e3, following["time_ns"] / 1e3, "none")


def draw(path: Path) -> None:
    """Draw both runs, one below the other."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    canvas, areas = pyplot.subplots(2, 1, figsize=(9, 5.0), sharex=True, layout="constrained")
    for area, (title, options) in zip(areas, RUNS, strict=True):
        events = logged(options)
        shown = [span for span in spans(events) if span.end > BEGIN_US]
        for span in shown:
            height, begin = len(ROWS) - 1 - ROWS.index(span.row), max(span.begin, BEGIN_US)
            on_device = span.row in ("kernels", "copies")
            area.barh(
                height, span.end - begin, left=begin, height=0.62, color=COLOURS[span.by],
                edgecolor="white", alpha=1.0 if on_device else 0.4,
            )  # fmt: skip
            beside = span.end + 0.2 if on_device else begin + 0.3
            if on_device or len(span.name) == 1 or span.end - begin > 3.0:  # else the next one's name would cover it
                area.text(beside, height, span.name, va="center", fontsize="small", clip_on=True)
        area.set_yticks(range(len(ROWS)), [*reversed(ROWS)])
        area.set_title(title, fontsize="medium", loc="left")
        area.spines[["top", "right"]].set_visible(False)
    areas[0].set_xlim(BEGIN_US, END_US)
    areas[1].set_xlabel("virtual time (us)")
    canvas.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(Path(sys.argv[1] if len(sys.argv) > 1 else "bench/figures/lost_update.png"))
