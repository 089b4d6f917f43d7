"""The commands `stats` and `compare-logs`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from offloadrt.cli.options import Json
from offloadrt.cli.terminal import console, print_json

if TYPE_CHECKING:
    from rich.console import RenderableType

    from offloadrt.extensions.logs.statistics import TraceStatistics


def stats(log: Path, /, *, json: Json = False) -> None:
    """Show a log's statistics: API calls, locks, engines and bytes; of a recorded program, what its real runtime did.

    Each entry of the present table has a lock. A log has those that somebody held for some time or waited for.
    `offloadrt run` counts also those that were free when a look-up took and released them at once.

    Parameters
    ----------
    log:
        A file that `offloadrt run --log` wrote, or a recording.
    """
    from offloadrt.extensions.logs.statistics import statistics_of
    from offloadrt.study.scripts.definition import reader_of

    reader = reader_of(str(log))
    if json:
        print_json(statistics_of(log).record() if reader is None else reader.statistics_record(log))
        return
    if reader is not None:
        console().print(*reader.statistics(log), sep="\n")
        return
    console().print(*shown(statistics_of(log)), sep="\n")


def shown(log: TraceStatistics) -> Iterable[RenderableType]:
    """Yield tables of a log's API calls, locks, engines and kernels, and the bytes copied."""
    from rich.markup import escape

    from offloadrt.cli.render import table_of
    from offloadrt.study.reporting.words import seconds, size

    table = table_of(
        "API calls", "name", "calls", "total", "mean", "min", "max", "of all calls", right=(1, 2, 3, 4, 5, 6)
    )
    for name, call in log.calls.table().items():
        times = map(seconds, (call.total_s, call.mean_s, call.min_s, call.max_s))
        table.add_row(escape(name), str(call.count), *times, f"{call.percent:.1f} %")
    yield table
    table = table_of(
        "\nlocks", "lock", "acquired", "contended", "waited", "held", "longest wait", right=(1, 2, 3, 4, 5)
    )
    for name, lock in sorted(log.locks.items(), key=lambda item: -item[1].wait_s):
        times = map(seconds, (lock.wait_s, lock.hold_s, lock.longest_wait_s))
        table.add_row(escape(name), str(lock.acquired), str(lock.contended), *times)
    yield table
    table = table_of("\ncopy engines", "device", "engine", "copies", "bytes", "busy", right=(2, 3, 4))
    for (device, engine), use in log.engines.items():
        table.add_row(str(device), escape(engine), str(use.copies), size(use.bytes), seconds(use.busy_s))
    yield table
    table = table_of("\nkernels", "device", "kernel", "launched", "resident", right=(2, 3))
    for (device, name), kernel in log.kernels.items():
        table.add_row(str(device), escape(name), str(kernel.launched), seconds(kernel.resident_s))
    yield table
    yield "\nbytes: " + (
        ", ".join(f"{direction} ({memory}) {size(n)}" for (direction, memory), n in log.bytes.items()) or "none"
    )


_PICTURES = (".pftrace", ".perfetto-trace", ".pb")


def of_logs(tokens: Sequence[str]) -> list[str]:
    """Replace the command `compare` by `compare-logs` if its arguments are two logs, and no scenario.

    tokens: the words of the command line. Raises UserError for a log beside something else, and for a Perfetto trace.
    """
    from offloadrt.study.errors import UserError

    names = [token for token in tokens[1:] if not token.startswith("-")]
    for name in names[:2]:
        if name.endswith(_PICTURES) and Path(name).is_file():
            raise UserError(f"{name}: is a picture for Perfetto; `compare` reads logs, which `run --log FILE` writes")
    logs = [name for name in names if _is_log(name)]
    if not logs or not _is_log(names[0]):
        return list(tokens)
    if len(names) != 2 or len(logs) != 2:
        others = ", ".join(name for name in names if name not in logs) or "nothing else"
        raise UserError(f"compare {' '.join(logs)}: two logs are compared, or a scenario's runs; here is {others}")
    return ["compare-logs", *tokens[1:]]


def _is_log(name: str) -> bool:
    if name.endswith(".jsonl"):
        return True
    with contextlib.suppress(OSError):
        if Path(name).is_file():
            with Path(name).open("rb") as file:
                return file.read(1) == b"{"
    return False


def compare_logs(one: Path, other: Path, /, *, json: Json = False) -> None:
    """Compare two logs: what took most more or less time, and where they first differ (`compare A.jsonl B.jsonl`).

    Parameters
    ----------
    one:
        A file that `offloadrt run --log` wrote.
    other:
        A second one.
    """
    from offloadrt.extensions.logs import compared

    found = compared.compared(one, other)
    if json:
        print_json(found)
    else:
        console().print(*compared.printed(found), sep="\n")
