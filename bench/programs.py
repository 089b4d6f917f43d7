"""Real, public programs: builds, records and replays them, and prints what came of each.

    python bench/programs.py TABLE.toml FOLDER [--work FOLDER] [--only WORD] [--missing] [--plain] [--limit SECONDS]

TABLE.toml is one of `bench/programs/`; it names the programs, where each is to lie in FOLDER, and how to build and run
it. FOLDER has the checked-out sources; nothing is fetched, and nothing is written into it: a copy in --work is built.
Results are kept in --work, so that --only runs a few programs again and the printed table still has all of them.
--plain also compares CPU times: of the program as clang alone builds it for the host as device, and of its recording.
Needs clang 22 (see README.md).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import multiprocessing
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

Answer = dict[str, Any]


@attrs.frozen
class Program:
    """A program of a table: `{cc}`, `{cxx}`, `{fc}` in its build command stand for the compilers."""

    name: str
    folder: str
    build: str
    run: str
    timed: str = ""
    """The run whose CPU time --plain compares, where `run` is over at once."""
    counts: tuple[dict[str, Any], ...] = ()
    """Closed forms: `kernel` is a pattern of its name, the others are numbers of all its launches together."""
    exit: int = 0
    """The exit code that it has when nothing goes wrong."""
    note: str = ""


def programs_of(table: Path, folder: Path) -> Iterator[Program]:
    """Yield a table's programs; an entry with `sources` makes one of each source that has its `pattern`."""
    for name, entry in tomllib.loads(table.read_text(encoding="utf-8")).items():
        if "sources" not in entry:
            yield Program(name=name, **{**entry, "counts": tuple(entry.get("counts", ()))})
            continue
        root = folder / entry["folder"]
        for source in sorted(path for pattern in entry["sources"] for path in root.glob(pattern)):
            if re.search(entry["pattern"], source.read_text(encoding="utf-8", errors="replace")):
                compiler = {".c": "{cc}", ".cpp": "{cxx}"}.get(source.suffix, "{fc}")
                words = {"compiler": compiler, "source": str(source.relative_to(root)), "program": source.stem}
                place = entry["build"].format(**words)
                yield Program(str(source.relative_to(root)), entry["folder"], place, f"./{source.stem}")


def compilers(work: Path, kind: str) -> dict[str, str]:
    """Write commands that makefiles can take as CC, CXX and FC: for recording, or (`plain`) clang alone."""
    folder = work / "bin" / kind
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for language in ("cc", "cxx", "fc"):
        command = f"-m offloadrt {language}" if kind == "recorded" else f"{Path(__file__).resolve()} plain-{language}"
        found[language] = str(folder / language)
        Path(found[language]).write_text(f'#!/bin/sh\nexec {sys.executable} {command} "$@"\n', encoding="utf-8")
        Path(found[language]).chmod(0o755)
    return found


def copy_sources(folder: Path, into: Path) -> None:
    """Copy sources, also over an earlier copy, whose links stay as they are."""

    def is_there(source: str, names: list[str]) -> list[str]:
        copied = into / Path(source).relative_to(folder)
        return [name for name in names if (copied / name).is_symlink()]

    shutil.copytree(folder, into, symlinks=True, ignore=is_there, dirs_exist_ok=True)


def compile_plainly(language: Any, arguments: list[str]) -> None:
    """Replace this process by the compiler, with the host as device and nothing else of the recorder."""
    from offloadrt.extensions.recording.toolchain import find_compiler, rewrite

    kept, openmp = rewrite(arguments)
    path = str(find_compiler(language).path)
    flags = ["-fopenmp", "-fopenmp-targets=x86_64-pc-linux-gnu"] if openmp else []
    os.execv(path, [path, *flags, *kept])


def cpu_of_children() -> float:
    """Return the CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def shell(command: str, folder: Path, log: Path, limit: float, **environment: str) -> tuple[int, float]:
    """Run a command with its output in a log; return exit code and CPU seconds; 124: it took longer than the limit."""
    before = cpu_of_children()
    with log.open("a", encoding="utf-8") as out:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            env={**os.environ, **environment},
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = 124
    return code, cpu_of_children() - before


def last_error(log: Path) -> str:
    """Return the line of a log that says best what went wrong."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    wrong = [line for line in lines if re.search(r"\berror\b|undefined|fatal|cannot|No such|rror:", line)]
    return " ".join((wrong[:1] or lines[-1:] or ["no output"])[0].split())[:160]


def recorded(program: Program, folder: Path, target: Path, limit: float, samples: int) -> Answer:
    """Record a run of a program. Called in a child process."""
    from offloadrt.extensions.recording.format import convert
    from offloadrt.extensions.recording.toolchain import RecordOptions, record

    os.chdir(folder)
    raw = target.with_suffix(".raw")
    (run,) = record(shlex.split(program.run), raw, [None], RecordOptions(samples, stop_seconds=limit))
    convert(raw, target)
    shutil.rmtree(raw)
    return {
        "ended": run.ending(),
        "ok": run.exit == program.exit,
        "samples": samples,
        "directives": run.directives,
        "seconds": run.seconds,
    }


def seconds_recorded(command: str, folder: Path, raw: Path, samples: int) -> Answer:
    """Return the CPU time of a program while it is recorded. Called in a child process."""
    from offloadrt.extensions.recording.toolchain import RecordOptions, record

    os.chdir(folder)
    os.environ["OMP_NUM_THREADS"] = "1"
    before = cpu_of_children()
    record(shlex.split(command), raw, [None], RecordOptions(samples, host_touches=samples > 0))
    return {"s": cpu_of_children() - before}


def overheads(program: Program, work: Path, log: Path, limit: float) -> Answer:
    """Return how many times its CPU time a program takes with counters, and with a traced launch of each shape.

    All run in turn with one thread, for the threads of clang's own host device spin while they wait.
    """
    command = program.timed or program.run
    taken: dict[str, list[float]] = {"plain": [], "counters": [], "traced": []}
    for _ in range(3):
        code, took = shell(command, work / "plain" / program.folder, log, limit, OMP_NUM_THREADS="1")
        if code != program.exit:
            return {}
        taken["plain"].append(took)
        for samples, way in enumerate(("counters", "traced")):
            folder, raw = work / "recorded" / program.folder, work / "timed.raw"
            answer = in_child(10 * limit, log, seconds_recorded, command, folder, raw, samples)
            taken[way] += [answer["s"]] if "s" in answer else []
    plain, *recorded = (sorted(seconds)[len(seconds) // 2] if seconds else math.nan for seconds in taken.values())
    return {"overheads": [round(seconds / plain, 2) for seconds in recorded], "plain_s": round(plain, 3)}


def replayed(program: Program, target: Path) -> Answer:
    """Replay a recording by `offloadrt run`, which says what is equal, and count. Called in a child process."""
    from offloadrt.cli import main
    from offloadrt.extensions.recording.format import RecordingFile, summary
    from offloadrt.extensions.recording.replay.program import requires_unified_shared_memory

    file = RecordingFile.read(target)
    answer: Answer = {"equal": 0, "moved": 0, "different": 0, "differences": []}
    for part in file.runs:  # one for each process
        process = [other for other in file.runs if other.threads == part.threads].index(part)
        needs_one_memory = requires_unified_shared_memory(file.meta(part))
        unified = ["configuration=usm", "--machine", "mi300a"] if needs_one_memory else []
        said = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with contextlib.redirect_stdout(said):
            code = main(["run", str(target), f"threads={part.threads}", f"process={process}", *unified, "--json"])
        if code:
            return {"error": "not replayed"}
        measured = json.loads(said.buffer.getvalue())["measured"]
        for name in ("equal", "moved", "different"):
            answer[name] += measured.get(f"operations_{name}", 0)
        answer["differences"] += [text for name, text in measured.items() if name.startswith("difference_")]
    recordings = [file.load(part) for part in file.runs]
    kernels = [kernel for recording in recordings for kernel in summary.kernels_of(recording)]
    costs = all(recording.meta.costs or not recording.dictionaries.kernels for recording in recordings)
    answer |= {"costs": costs, "counts": []}
    answer["launches"] = sum(kernel.launches for kernel in kernels)
    for expected in program.counts:
        of_name = [kernel for kernel in kernels if re.search(expected["kernel"], kernel.name)]
        for quantity in (name for name in expected if name != "kernel"):
            counted = sum(getattr(kernel, quantity) for kernel in of_name)
            answer["counts"].append((expected["kernel"], quantity, counted, expected[quantity]))
    return answer


def in_child(limit: float, log: Path, work: Any, *arguments: Any) -> Answer:
    """Call a function in a process of its own, which may crash or hang; return its answer, or {"error": why}."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)

    def call() -> None:
        os.setsid()
        with log.open("a", encoding="utf-8") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        try:
            there.send(work(*arguments))
        except BaseException as error:
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            # The log lies in the work folder, whose name says nothing.
            there.send({"error": f"{type(error).__name__}: {error}".replace(f"{log.parents[1]}/", "")})
            raise

    process = context.Process(target=call)
    process.start()
    answer: Answer = {"error": f"not ready after {limit:.0f} s"}
    assert process.pid is not None
    with contextlib.suppress(EOFError):
        there.close()
        if here.poll(limit):
            answer = {"error": "the process crashed"}
            answer = here.recv()
    if "error" in answer:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.join()
    return answer


@attrs.frozen
class Built:
    """A program that was built to be recorded, or the error of the build."""

    folder: Path
    log: Path
    target: Path
    """Where its recording is to lie."""
    error: str = ""


def built(program: Program, work: Path, limit: float) -> Built:
    """Build a program so that it can be recorded, and take away what an earlier run left."""
    slug = re.sub(r"\W+", "-", program.name)
    log, target = work / "logs" / f"{slug}.log", work / "recordings" / f"{slug}.rec"
    for path in (log, target):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    folder = work / "recorded" / program.folder
    code, _ = shell(program.build.format(**compilers(work, "recorded")), folder, log, 10 * limit)
    error = last_error(log).replace(f"{folder}/", "") or f"exit code {code}"
    return Built(folder, log, target, error if code else "")


def judged(program: Program, work: Path, limit: float, plain: bool) -> Answer:
    """Build, record and replay a program; return what came of it."""
    made = built(program, work, limit)
    folder, log, target = made.folder, made.log, made.target
    if made.error:
        return {"built": False, "error": made.error}
    answer: Answer = {"built": True}
    for samples in (1, 0):  # a launch whose every access is traced may take too long; then they are only counted
        answer |= in_child(2 * limit + 30, log, recorded, program, folder, target, limit, samples)
        if answer.get("ok") or not answer.get("ended", "").startswith("was stopped"):
            break
    if "error" not in answer:
        answer |= in_child(2 * limit + 30, log, replayed, program, target)
    if plain or not answer.get("ok"):
        folder = work / "plain" / program.folder
        code, _ = shell(program.build.format(**compilers(work, "plain")), folder, log, 10 * limit)
        code, _ = shell(program.run, folder, log, limit) if code == 0 else (127, 0.0)
        answer["plain"] = code
        if plain and answer.get("ok") and code == program.exit:
            answer |= overheads(program, work, log, limit)
    return answer


HEADS = (
    "program", "built", "ran", "directives", "launches", "costs", "equal", "moved", "differ", "counts", "counters",
    "traced",
)  # fmt: skip


def row(program: Program, answer: Answer) -> tuple[str, ...]:
    """Return a program's line of the table."""
    counts = answer.get("counts", [])
    right = sum(counted == expected for _, _, counted, expected in counts)
    ran = "–" if "ok" not in answer else "yes" if answer["ok"] else answer["ended"].replace("ended with ", "")
    times = [f"{times:.1f} x" for times in answer.get("overheads", ())] or ["–", "–"]
    numbers = [str(answer.get(name, "–")) for name in ("directives", "launches")]
    costs = {True: "yes", False: "no", None: "–"}[answer.get("costs")]
    compared = [str(answer.get(name, "–")) for name in ("equal", "moved", "different")]
    right_of = f"{right} of {len(counts)}" if counts else "–"
    return program.name, "yes" if answer["built"] else "no", ran, *numbers, costs, *compared, right_of, *times


def agrees(answer: Answer) -> bool:
    """Whether a program was recorded to its end with costs of its kernels, and replays with equal operations."""
    compared = answer.get("equal", 0) + answer.get("moved", 0)
    return bool(answer.get("ok") and answer.get("costs") and compared and answer["different"] == 0)


_MANY = 100
"""Of so many programs the table has only those that do not agree."""


def lines(programs: list[Program], answers: dict[str, Answer]) -> Iterator[str]:
    """Yield the table, what is wrong with which program, and the sums."""
    known = [program for program in programs if program.name in answers]
    shown = [program for program in known if len(known) < _MANY or not agrees(answers[program.name])]
    rows = [HEADS, *(row(program, answers[program.name]) for program in shown)]
    widths = [max(len(line[column]) for line in rows) for column in range(len(HEADS))]
    for line in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
    yield ""
    for program in shown:
        answer = answers[program.name]
        untraced = "" if answer.get("samples", 1) else "costs are counts; a traced launch takes too long"
        said = [program.note, untraced, answer.get("error", ""), *answer.get("differences", [])[:2]]
        if "plain" in answer and answer["plain"] != program.exit:
            code = answer["plain"]
            said.append(f"built by clang alone it ends with {code}" if code != 124 else "clang's takes too long, too")
        said += [
            f"{kernel}: {quantity} {counted}, not {expected}"
            for kernel, quantity, counted, expected in answer.get("counts", [])
            if counted != expected
        ]
        if any(said):
            yield f"{program.name}: {'; '.join(filter(None, said))}"
    found = [answers[program.name] for program in known]
    built = sum(answer["built"] for answer in found)
    ran = sum(bool(answer.get("ok")) for answer in found)
    yield f"\n{len(known)} programs: {built} built, {ran} ran to their end while recorded,"
    yield f"{sum(map(agrees, found))} of these were recorded with costs and replay with equal operations."


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1].startswith("plain-"):
        return compile_plainly(sys.argv[1].removeprefix("plain-"), sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/tmp/offloadrt-programs"))
    parser.add_argument("--only", default="", help="run only programs with this regular expression in their name")
    parser.add_argument("--missing", action="store_true", help="run only programs without a result in --work")
    parser.add_argument("--plain", action="store_true", help="also time them as the compiler alone builds them")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a run may take")
    given = parser.parse_args()
    programs = list(programs_of(given.table, given.folder))
    missing = sorted({program.folder for program in programs if not (given.folder / program.folder).is_dir()})
    if missing:
        print(f"{given.folder} lacks {', '.join(missing)}: check these programs out there", file=sys.stderr)
    programs = [program for program in programs if program.folder not in missing]
    work = given.work.resolve()
    for kind in ("recorded", "plain"):
        copy_sources(given.folder, work / kind)
    import offloadrt.cli.running
    import offloadrt.extensions.recording.replay
    import offloadrt.extensions.recording.scenario  # noqa: F401 -- once here, not in each child

    kept = work / f"{given.table.stem}.json"
    answers: dict[str, Answer] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for number, program in enumerate(programs, 1):
        if re.search(given.only, program.name) and not (given.missing and program.name in answers):
            print(f"{number} of {len(programs)}: {program.name}", file=sys.stderr, flush=True)
            answers[program.name] = judged(program, work, given.limit, given.plain)
            kept.write_text(json.dumps(answers, indent=1), encoding="utf-8")
    print("\n".join(lines(programs, answers)))
    return None


if __name__ == "__main__":
    main()
