"""Predict what many threads' offloading takes on a machine on which it was measured, and compare.

    uv run python bench/hardware/predict.py bench/hardware/h200 --machine h200-vm --draws 8 \\
        --figure bench/figures/h200.png

The folder has `offload.jsonl` (of `offload.cu`), which the scenario `offloaded_patches` predicts, and may have
`openmp.jsonl` (of `openmp/offload_openmp.c`). Of that program, recordings are made here and replayed, for which
`offloadrt cc` needs clang 22. Nothing of the machine's profile may be fitted to either.

With `--draws`, each prediction has the interval of so many draws in the machine's uncertain entries. The last lines say
how many measured values lie in it, and how many where it is made wider by what four in five predictions of programs on
other machines keep to.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from offloadrt.extensions.certainty.draws import MEASURED_KINDS, sample
from offloadrt.extensions.evidence.independent.outcome import Accuracy
from offloadrt.study.certainty import Effort
from offloadrt.study.reporting.results import Interval, Result
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point, executor, processors, sweep

HERE = Path(__file__).parent
PROGRAM = HERE / "openmp" / "offload_openmp.c"
REPEATS = 10, 20
"""Of two recordings, whose difference has neither start nor end. Before them the program does a fifth, and one more."""
RECORDED_BYTES = 1 << 20
"""Rows of more are left out, as a recording of them takes long."""

Case = tuple[Any, ...]
"""Mode, what else is the same in a line of the figure, and the number of threads last."""
Predicted = Sequence[float]
"""Seconds that are predicted, followed by those in each draw."""
Pairs = dict[Case, tuple[Sequence[float], Predicted]]
"""Seconds that were measured, each time, and those that are predicted."""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    measured = _measured(options.folder / "offload.jsonl", _patch_case, "median_s")
    patches = _beside(measured, _patches(list(measured), options))
    print(_table("Patches with CUDA's calls (mode, patch bytes, batch, threads)", patches))
    recorded: Pairs = {}
    if (openmp := options.folder / "openmp.jsonl").exists():
        measured = _measured(openmp, _openmp_case, "per_repeat_s")
        with tempfile.TemporaryDirectory() as folder:
            recorded = _beside(measured, _replays(_recorded(measured, Path(folder)), measured, options))
        print("\n" + _table("OpenMP, a repetition (mode, bytes, items, threads)", recorded))
    if options.draws:
        print("\n" + _coverage({**patches, **recorded}, options.draws))
    if options.figure:
        _draw(patches, recorded, options.machine, options.figure)
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the folder with the measured rows")
    parser.add_argument("--machine", required=True, help="a profile's name or file")
    parser.add_argument("--draws", type=int, default=0, help="how many draws each prediction's interval is of")
    parser.add_argument("--figure", type=Path, help="where to draw them")
    return parser.parse_args(arguments)


def _measured(file: Path, case: Callable[[Mapping[str, Any]], Case], seconds: str) -> dict[Case, list[float]]:
    found = defaultdict(list)
    for line in file.read_text().splitlines():
        row = json.loads(line)
        if row["what"] != "machine":
            found[case(row)].append(row[seconds])
    return {case: found[case] for case in sorted(found)}


def _patch_case(row: Mapping[str, Any]) -> Case:
    sizes = row["patches"], row["volumes"], row["flops"]
    return row["mode"], row["patch_bytes"], row["batch"], sizes, row["threads"]


def _openmp_case(row: Mapping[str, Any]) -> Case:
    return row["mode"], row["bytes"], row["items"], row["threads"]


def _beside(measured: Mapping[Case, Sequence[float]], predicted: Mapping[Case, Predicted]) -> Pairs:
    return {case: (times, predicted[case]) for case, times in measured.items() if case in predicted}


def _patches(cases: Sequence[Case], options: argparse.Namespace) -> dict[Case, Predicted]:
    points = []
    for memory, nbytes, batch, (patches, volumes, flops), threads in cases:
        given = {"memory": memory, "threads": threads, "batch": batch, "patches": patches, "patch_bytes": nbytes}
        points.append(_point("offloaded_patches", {**given, "volumes": volumes, "flops": flops}, options.machine))
    rows = _runs(points, options.draws)
    seconds = [[cast(float, result.measured["round_s"]) for result in row] for row in rows]
    return dict(zip(cases, zip(*seconds, strict=True), strict=True))


def _recorded(measured: Mapping[Case, object], folder: Path) -> dict[Case, list[Path]]:
    """Compile the program and record each of its cases, with all numbers of threads."""
    program, threads = folder / "offload_openmp", ",".join(str(n) for n in sorted({case[-1] for case in measured}))
    _offloadrt("cc", "-O2", "-fopenmp", str(PROGRAM), "-o", str(program))
    files: dict[Case, list[Path]] = {}
    for mode, nbytes, items in sorted({case[:-1] for case in measured if case[1] <= RECORDED_BYTES}):
        for repeats in REPEATS:
            file = folder / f"{mode}_{nbytes}_{items}_{repeats}.rec"
            words = [str(program), mode, str(repeats), str(nbytes), str(items)]
            _offloadrt("record", "--threads", threads, "-o", str(file), *words)
            files.setdefault((mode, nbytes, items), []).append(file)
    return files


def _replays(
    files: Mapping[Case, Sequence[Path]], measured: Mapping[Case, object], options: argparse.Namespace
) -> dict[Case, Predicted]:
    """Return what a repetition takes: the difference between the longer and the shorter recording, for each."""
    cases = [case for case in measured if case[:-1] in files]
    lengths = range(len(REPEATS))
    points = [
        _point(str(files[case[:-1]][length]), {"threads": case[-1]}, options.machine)
        for length in lengths
        for case in cases
    ]
    rows = _runs(points, options.draws)  # one call, so that both lengths are run at the same draws
    few, many = (repeats + repeats // 5 + 1 for repeats in REPEATS)
    return {
        case: [(row[len(cases) + number].elapsed_s - row[number].elapsed_s) / (many - few) for row in rows]
        for number, case in enumerate(cases)
    }


def _point(reference: str, parameters: Mapping[str, Any], machine: str) -> Point:
    scenario = registry.find(reference)
    return Point(registry.reference(scenario), scenario.bind(parameters), RunSpec(machine=machine))


def _runs(points: Sequence[Point], draws: int) -> list[Sequence[Result]]:
    """Return the results of all points as they stand, then in each draw."""
    with executor("process", processors()) as pool:
        outcome = sweep(points, pool, jobs=processors())
        if outcome.failures:
            raise SystemExit(f"{outcome.failures[0].point.parameters}: {outcome.failures[0].message}")
        drawn = sample(points, outcome.finished, pool, Effort(draws=draws), jobs=processors())
    if drawn.failed:
        raise SystemExit(f"{drawn.failed} of {draws} draws failed")
    return [outcome.finished, *(cast("Sequence[Result]", row) for row in drawn.rows)]


def _offloadrt(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "offloadrt", *words], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"offloadrt {' '.join(words)}: {done.stderr}")


def _table(title: str, pairs: Pairs) -> str:
    lines = [f"{title}: measured (median), predicted, ratio"]
    groups: dict[str, list[float]] = defaultdict(list)
    for case, (measured, predicted) in pairs.items():
        median = statistics.median(measured)
        groups[case[0]].append(abs(math.log(predicted[0] / median)))
        words = " ".join(str(word) for word in case if not isinstance(word, tuple))
        line = f"  {words:28} {median * 1e3:10.3f} ms {predicted[0] * 1e3:10.3f} ms {predicted[0] / median:6.2f}"
        if len(predicted) > 1:
            interval = Interval.of(predicted[0], predicted[1:], seed=0)
            line += f" {interval.low * 1e3:10.3f} to {interval.high * 1e3:.3f} ms"
        lines.append(line)
    for name, errors in [*groups.items(), ("all", [error for one in groups.values() for error in one])]:
        of = Accuracy.of(errors)
        factors = f"median factor {math.exp(of.median):.2f}, 90 % within {math.exp(of.p90):.2f}"
        lines.append(f"  {name}: {of.values} rows, {factors}")
    return "\n".join(lines)


def _coverage(pairs: Pairs, draws: int) -> str:
    """Count the measured values in the intervals, as these are and made wider by the error on other machines."""
    others = MEASURED_KINDS[0]
    within = {1.0: 0, others.most: 0}
    for measured, predicted in pairs.values():
        interval, median = Interval.of(predicted[0], predicted[1:], seed=0), statistics.median(measured)
        for times in within:
            within[times] += interval.low / times <= median <= interval.high * times
    alone, wider = within.values()
    return (
        f"of {len(pairs)} values, {alone} lie in 80 % of {draws} draws, and {wider} where the interval is made\n"
        f"wider by {others.most:.2g}, which four in five predictions of {others.programs} ({others.where}) keep to"
    )


def _draw(patches: Pairs, recorded: Pairs, machine: str, path: Path) -> None:
    """Draw measured times as points, and the predicted ones as lines, over the threads."""
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.6), constrained_layout=True)
    small = min(case[1] for case in patches)
    lines = [
        {case: both for case, both in patches.items() if case[1] == small and case[2] == 4},
        {case: both for case, both in recorded.items() if case[1:3] in ((8192, 1), (11552, 4), (1 << 20, 1))},
    ]
    titles = f"Patches of {small} B in batches of 4 (CUDA)", "OpenMP under LLVM 22, recorded"
    for panel, pairs, title in zip(panels, lines, titles, strict=True):
        for number, line in enumerate(sorted({case[:-1] for case in pairs})):
            cases = [case for case in pairs if case[:-1] == line]
            threads, colour = [case[-1] for case in cases], f"C{number}"
            label = line[0] if panel is panels[0] else f"{line[0]} {line[1]} B" + f" x {line[2]}" * (line[2] > 1)
            panel.plot(threads, [pairs[case][1][0] * 1e3 for case in cases], color=colour, label=label)
            for case in cases:
                times = [seconds * 1e3 for seconds in pairs[case][0]]
                panel.plot([case[-1]] * len(times), times, "o", color=colour, markersize=4, alpha=0.7)
        panel.set(title=title, xscale="log", yscale="log", xlabel="host threads", ylabel="ms")
        panel.set_xticks(sorted({case[-1] for case in pairs}), [str(n) for n in sorted({case[-1] for case in pairs})])
        panel.legend(fontsize=8)
        panel.grid(alpha=0.3)
    figure.suptitle(f"Measured (points) and predicted by {machine} (lines)")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    sys.exit(main())
