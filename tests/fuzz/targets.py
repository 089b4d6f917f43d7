"""What is fuzzed: the readers of everything that a user hands over. Each takes bytes, and may raise no error but ours.

A target returns nothing. An exception that leaves it, and output that shows a traceback, are mistakes of offloadrt.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import shlex
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.cli import main
from offloadrt.extensions.evidence.conformance.conform import ConformanceFileError, read_cases, replay_case
from offloadrt.extensions.evidence.independent.prediction import read as read_measured
from offloadrt.extensions.exploring.schedules import PREFIX, ScheduleCase, Token
from offloadrt.extensions.exploring.strategies import Choice, Hold
from offloadrt.extensions.logs.statistics import statistics_of
from offloadrt.extensions.recording.format import RecordingError, RecordingFile
from offloadrt.extensions.recording.scenario import scenario_of
from offloadrt.sim import SimulationError
from offloadrt.study.errors import ScenarioRefused, ScriptFailed, UserError
from offloadrt.study.reporting.results import measured_of, to_json
from offloadrt.study.running import profiles
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts.registry import find
from offloadrt.study.sweep import check_other, finished_points

TESTS = Path(__file__).parents[1]
TOYS = TESTS / "study" / "toys.py"
MEASURED = TESTS.parent / "offloadrt" / "papers" / "independent" / "results.toml"
FOLDER = Path(tempfile.mkdtemp(prefix="offloadrt-fuzz-"))


def machine(data: bytes) -> None:
    """Load a machine's file, and offload a little on it."""
    path = FOLDER / "machine.toml"
    path.write_bytes(data)
    with contextlib.suppress(UserError):
        profiles.load(str(path))
        run = Run(machine=str(path))

        async def body(t: omp.HostThread) -> None:
            a = t.array("a", 64, fill=1.0)
            async with t.target_data(omp.map(tofrom=a)):
                await t.target_update(omp.to(a))

        async def program() -> None:
            await run.parallel(body, num_threads=2)

        with contextlib.suppress(SimulationError, omp.OffloadError):
            run.sim.run(program)


def recording(data: bytes) -> None:
    """Open a recording and load its runs."""
    path = FOLDER / "program.rec"
    path.write_bytes(data)
    with contextlib.suppress(RecordingError):
        opened = RecordingFile.read(path)
        for run in opened.runs:
            opened.load(run)


def columns(data: bytes) -> None:
    """Load a recording whose members are the bytes, one after the other: damage that no checksum of the zip hides."""
    path = FOLDER / "columns.rec"
    with zipfile.ZipFile(path, "w") as file:
        for name, content in zip(MEMBERS, unpacked(data), strict=False):
            file.writestr(name, content)
    recording(path.read_bytes())


def log(data: bytes) -> None:
    """Compute the statistics of a log."""
    path = FOLDER / "run.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(UserError):
        statistics_of(path)


def conformance(data: bytes) -> None:
    """Read recorded programs and replay them."""
    path = FOLDER / "cases.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(ConformanceFileError):
        for case in read_cases(path):
            replay_case(case)


def token(data: bytes) -> None:
    """Read a token of `offloadrt replay`, zipped as tokens are unless it begins as one."""
    text = data.decode("latin-1")
    if not text.startswith(PREFIX):
        text = PREFIX + base64.urlsafe_b64encode(zlib.compress(data)).decode()
    with contextlib.suppress(UserError):
        Token.decode(text)


def points(data: bytes) -> None:
    """Read the points that a sweep has finished."""
    path = FOLDER / "points.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(UserError):
        check_other(path, "queueing")
    for result in finished_points(path).values():
        assert result.elapsed_s < float("inf"), result


def measured(data: bytes) -> None:
    """Read measured results."""
    path = FOLDER / "measured.toml"
    path.write_bytes(data)
    with contextlib.suppress(UserError):
        read_measured(path)


def numbers(data: bytes) -> None:
    """Load a recording in which the bytes say which numbers of which columns are changed.

    Four bytes a change: a column (two), a place in it, and one of `_ODD`.
    """
    path = FOLDER / "numbers.rec"
    stored = _stored()
    source = stored[data[0] % len(stored)] if data else stored[0]
    members = _members(source)
    names = [name for name in members if name.endswith(".npy")]
    for change in range(1, len(data) - 3, 4):
        name = names[(data[change] << 8 | data[change + 1]) % len(names)]
        values = np.load(io.BytesIO(members[name]))
        if values.size:
            number = _ODD[data[change + 3] % len(_ODD)]
            values = values.astype(np.uint64 if number >= 1 << 63 else np.int64)
            values.reshape(-1)[data[change + 2] % values.size] = number
            written = io.BytesIO()
            np.save(written, values)
            members[name] = written.getvalue()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    with contextlib.suppress(RecordingError):
        opened = RecordingFile.read(path)
        for run in opened.runs:
            opened.load(run)


def parts(data: bytes) -> None:
    """Play a recording of MPI, of parallel algorithms or of both, in which the bytes say which numbers are changed.

    Of MPI's ranks, which play together, these are the numbers of its calls, else all. Four bytes a change: a column, a
    place in it (two), and one of `_ODD` or a small number. Some changes are a byte of a text.
    """
    path = FOLDER / "parts.rec"
    stored, parameters = _PLAYED[data[0] % len(_PLAYED)] if data else _PLAYED[0]
    members = _members(TESTS / "recording" / "stored" / f"{stored}.rec")
    names = [name for name in members if name.endswith(".npy")]
    if not parameters:
        names = [name for name in names if "/columns/part" in name or name.endswith("record.step.npy")]
    texts = [name for name in members if name.endswith(".json")]
    for change in range(1, len(data) - 3, 4):
        what, place, odd = data[change], data[change + 1] << 8 | data[change + 2], data[change + 3]
        number = _ODD[odd % len(_ODD)] if odd < 128 else odd - 130
        if what % 8 == 7:
            name = texts[what % len(texts)]
            text = bytearray(members[name])
            text[place % len(text)] = odd
            members[name] = bytes(text)
            continue
        name = names[(what + 256 * odd) % len(names)]
        values = np.load(io.BytesIO(members[name]))
        if values.size:
            values = values.astype(np.uint64 if number >= 1 << 63 else np.int64)
            values.reshape(-1)[place % values.size] = number
            written = io.BytesIO()
            np.save(written, values)
            members[name] = written.getvalue()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    try:
        result = execute(scenario_of(path), parameters)
    except UserError:
        return
    except ScriptFailed as error:
        if not isinstance(error.__cause__, SimulationError):  # ranks that wait for one another
            raise
        return
    figures = [result.elapsed_s, *(value for value in result.measured.values() if isinstance(value, (int, float)))]
    assert all(0 <= figure < 1e12 for figure in figures), result.measured


_ODD = (-1, -7, 1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63), (1 << 64) - 1, 255, 65536, 1 << 32)


def scenario(data: bytes) -> None:
    """Take figures that a scenario returned: a value of a kind that the first byte chooses."""
    with contextlib.suppress(ScenarioRefused):
        measured_of(
            {"figure": _value(data), "other": [_value(data)]} if len(data) % 2 else {"figure": _value(data)}, "s"
        )


def _value(data: bytes) -> object:
    """Return a value of a kind that the first byte chooses, made of the others."""
    rest = data[1:]
    kinds = (
        lambda: np.frombuffer(rest, np.uint8),
        lambda: np.frombuffer(rest[: len(rest) // 8 * 8], np.float64),
        lambda: set(rest),
        lambda: rest,
        lambda: rest.decode("utf-8", "surrogateescape"),
        lambda: int.from_bytes(rest * 40, "big", signed=True),
        lambda: {"nested": list(rest)},
        lambda: float.fromhex("inf") if rest[:1] > b"m" else float("nan"),
        lambda: np.array(rest.hex()),
        object,
    )
    return kinds[data[0] % len(kinds)]() if data else None


def command_line(data: bytes) -> None:
    """Run a command with its words."""
    with contextlib.suppress(ValueError):  # what a shell would not take
        words = shlex.split(data.decode("utf-8", "ignore").replace("\0", "").replace("TOYS", str(TOYS)))
        if not words or words[0] in ("cc", "cxx", "fc", "record", "calibrate", "validate", "replay"):
            return  # these start compilers and programs, or long studies
        if any(word.lstrip("-")[:4] in ("out", "out=", "log", "log=", "perf", "jobs", "exec") for word in words):
            return  # these write files and start processes
        told = FOLDER / "stderr"
        with (FOLDER / "stdout").open("w") as out, told.open("w") as err:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(words)
        assert code in (0, 1, 2, 3), f"exit code {code}"
        assert "Traceback" not in told.read_text(), told.read_text()


@attrs.frozen
class Target:
    """A target, and inputs to begin with."""

    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]


def packed(members: list[bytes]) -> bytes:
    """Join members to one input: each after its length in hexadecimal and a line's end."""
    return b"".join(b"%x\n%s" % (len(member), member) for member in members)


def unpacked(data: bytes) -> list[bytes]:
    """Split what `packed` made, as far as it goes."""
    members = []
    while data:
        head, _, data = data.partition(b"\n")
        try:
            size = int(head, 16)
        except ValueError:
            break
        members.append(data[:size])
        data = data[size:]
    return members


def _stored() -> list[Path]:
    return sorted((TESTS / "recording" / "stored").glob("*.rec"))


def _members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in sorted(file.namelist())}


_PLAYED: list[tuple[str, dict[str, Any]]] = [
    ("halo", {}),
    ("calls_of_mpi", {}),
    ("algorithms/triads", {"implementation": "acpp"}),
    ("algorithms/triads", {"implementation": "nvcpp", "heuristic": "auto"}),
    ("algorithms/reduced", {"process": 0}),
    ("algorithms/reduced", {"process": 1, "implementation": "host"}),
]
"""Recordings with parts of MPI and of parallel algorithms, and with both; with the parameters that play them."""
MEMBERS = list(_members(_stored()[0]))


def _logged() -> list[bytes]:
    path = FOLDER / "seed.jsonl"
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["run", "overlap", "threads=2", "--log", str(path)]) == 0
    return [path.read_bytes()[:6000]]


def _points() -> list[bytes]:
    result = to_json(execute(find(f"{TOYS}:queueing"), {"threads": 1})).decode()
    point = '{"scenario":"queueing","parameters":{"threads":1}}'
    return [f'{{"key":"{key}","point":{point},"result":{result}}}\n'.encode() * 2 for key in ("aa", "bb")]


def _cases() -> list[bytes]:
    import gzip

    folder = TESTS / "data" / "conformance"
    return [line for path in sorted(folder.glob("*.gz")) for line in gzip.decompress(path.read_bytes()).splitlines()]


def _machines() -> list[bytes]:
    folder = TESTS.parent / "offloadrt" / "machine" / "profiles"
    head = b'[machine]\nname = "mine"\nbase = "alex-a100"\n\n'
    small = head + b'[entry."mem.size"]\nvalue = 40\nunit = "GiB"\nsource_type = "measured"\n'
    topology = head + b'[entry."nvlink.topology"]\nvalue = "all"\n'
    return [small, topology, *(path.read_bytes() for path in sorted(folder.glob("*.toml")))]


def _tokens() -> list[bytes]:
    case = ScheduleCase("pct", 3, 3, 100, 1e-3, (Choice(4, 1), Hold(2, 5, 1e-5)))
    made = Token("exahype", {"threads": 2}, {"strategy": "pct:3"}, ("elapsed",), case, {"machine": "0"}, "", "0")
    text = made.encode()
    body = text.removeprefix(PREFIX)
    return [text.encode(), zlib.decompress(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))]


def _commands() -> list[bytes]:
    return [
        b"list --json",
        b"show TOYS:queueing",
        b"run TOYS:queueing threads=4 hold_s=0.25 --seed 3 --gear native --json",
        b"run TOYS:picky left=1 right=3 --machine alex-a100 --set alloc.cudaFree=20us",
        b"compare TOYS:queueing policy=fair,rude threads=1,2 --baseline policy=fair",
        b"run overlap threads=2 --configuration usm --machine mi300a --runtime llvm22",
        b"machines alex-a100 mi300a --json",
        b"kernels TOYS",
        b"stats nowhere.jsonl",
        b"schema run",
        b"check TOYS:queueing threads=2",
        b"explore TOYS:queueing --runs 3 --strategy pct:3",
        b"why TOYS:queueing threads=2 --budget 0s",
        json.dumps({"run": 1}).encode(),
    ]


TARGETS = {
    "machine": Target(machine, _machines),
    "recording": Target(recording, lambda: [path.read_bytes() for path in _stored()]),
    "columns": Target(columns, lambda: [packed(list(_members(path).values())) for path in _stored()]),
    "log": Target(log, _logged),
    "conformance": Target(conformance, _cases),
    "token": Target(token, _tokens),
    "points": Target(points, _points),
    "measured": Target(measured, lambda: [MEASURED.read_bytes()[:20_000]]),
    "parts": Target(parts, lambda: [bytes(range(start, start + 13)) for start in range(0, 240, 11)]),
    "numbers": Target(numbers, lambda: [bytes(range(start, start + 17)) for start in range(0, 240, 16)]),
    "scenario": Target(scenario, lambda: [bytes([kind, *b"a text 1.5"]) for kind in range(10)]),
    "command_line": Target(command_line, _commands),
}
