"""What `offloadrt check` says of real, public programs whose mistakes are known: builds, records and checks each.

    python -m bench.mistakes TABLE.toml FOLDER [--work FOLDER] [--only WORD] [--part 0,2/5]

TABLE.toml and FOLDER are as in `bench/programs.py`. An entry's `notes`, or `judged.toml`, judge a program by its name,
or by a word of it. A name that ends in `yes` or `other` has a mistake, one that ends in `no` has none. `--part 0,2/5`
takes the first and the third of every five programs. Results are kept in --work.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

from bench.programs import Answer, Program, built, copy_sources, in_child, programs_of


def recorded_and_checked(program: Program, folder: Path, target: Path, limit: float) -> Answer:
    """Record a run of a program for a check, and check it. Called in a child process."""
    import os

    from offloadrt.extensions.checking.checked import check
    from offloadrt.extensions.recording.format import convert
    from offloadrt.extensions.recording.toolchain import RecordOptions, record
    from offloadrt.study.scripts import registry
    from offloadrt.study.spec import RunSpec

    os.chdir(folder)
    raw = target.with_suffix(".raw")
    (run,) = record(shlex.split(program.run), raw, [4], RecordOptions(check=True, stop_seconds=limit))
    if run.stopped:
        return {"error": f"not at its end after {limit:.0f} s"}
    convert(raw, target)
    shutil.rmtree(raw)
    scenario = registry.find(str(target))
    report = check(scenario, scenario.bind({}), RunSpec())
    return {
        "ended": run.ending(),
        "mistakes": [(one.kind, one.subject, one.times) for one in report.mistakes],
        "unknown": len(report.unknown_kernels),
    }


def judged(program: Program, work: Path, limit: float) -> Answer:
    """Build, record and check a program."""
    made = built(program, work, limit)
    if made.error:
        error = re.sub(r"^\S+:\d+: (error: )?", "", made.error)  # without the place in the source
        return {"error": f"not built: {error}"}
    return in_child(4 * limit + 60, made.log, recorded_and_checked, program, made.folder, made.target, limit)


def expected(program: Program) -> str:
    found = re.search(r"[-_](yes|no|other)\.\w+$", program.name)
    return "–" if found is None else "none" if found[1] == "no" else "a mistake"


def reported(answer: Answer) -> str:
    """Say which kinds of mistakes were reported, and of which data."""
    if "mistakes" not in answer:
        return f"– ({answer['error']})"
    kinds: dict[str, Counter[str]] = {}
    for kind, subject, _ in answer["mistakes"]:
        kinds.setdefault(kind, Counter())[subject.removesuffix(" on device 0")] += 1
    told = "; ".join(f"{kind}: {', '.join(subjects)}" for kind, subjects in kinds.items())
    return re.sub(r"0x[0-9a-f]+", "0x…", told) or "nothing"


def verdict(program: Program, answer: Answer) -> str:
    if "mistakes" not in answer:
        return "not recorded"
    return {
        ("a mistake", True): "found", ("a mistake", False): "missed", ("none", True): "reported",
        ("none", False): "none", ("–", True): "reported", ("–", False): "none",
    }[expected(program), bool(answer["mistakes"])]  # fmt: skip


def notes_of(table: Path) -> dict[str, str]:
    """Return what is known of the programs by words of their names: a table's own notes, and those of `judged.toml`."""
    entries = tomllib.loads(table.read_text(encoding="utf-8")).values()
    own = {word: note for entry in entries for word, note in entry.get("notes", {}).items()}
    return own or tomllib.loads((table.parent / "judged.toml").read_text(encoding="utf-8"))["notes"]


def lines(programs: list[Program], answers: dict[str, Answer], notes: dict[str, str]) -> list[str]:
    """Return the table as Markdown, and the sums."""
    told = ["| program | has | check reports | so it is | why |", "| --- | --- | --- | --- | --- |"]
    sums: Counter[tuple[str, str]] = Counter()
    for program in programs:
        if (answer := answers.get(program.name)) is None:
            continue
        judged = verdict(program, answer)
        sums[expected(program), judged] += 1
        words = [program.name] if program.name in notes else [word for word in notes if word in program.name]
        note = "; ".join(notes[word] for word in words)
        name = Path(program.name).stem
        told.append(f"| {name} | {expected(program)} | {reported(answer)} | {judged} | {note} |")
    told.append("")
    told += [f"- {has}, {judged}: {count}" for (has, judged), count in sorted(sums.items())]
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, default=Path("/tmp/offloadrt-mistakes"))
    parser.add_argument("--only", default="", help="run only programs with this regular expression in their name")
    parser.add_argument("--part", default="0/1", help="of every m programs, run those of these numbers: k,l/m")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a run may take")
    given = parser.parse_args()
    programs: list[Any] = list(programs_of(given.table, given.folder))
    work = given.work.resolve()
    programs = [program for program in programs if (given.folder / program.folder).is_dir()]
    numbers, step = given.part.split("/")
    chosen = {int(number) for number in numbers.split(",")}
    programs = [program for number, program in enumerate(programs) if number % int(step) in chosen]
    for folder in sorted({Path(program.folder).parts[0] for program in programs}):
        copy_sources(given.folder / folder, work / "recorded" / folder)
    kept = work / f"{given.table.stem}.json"
    answers: dict[str, Answer] = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {}
    for number, program in enumerate(programs, 1):
        if re.search(given.only, program.name):
            print(f"{number} of {len(programs)}: {program.name}", file=sys.stderr, flush=True)
            answers[program.name] = judged(program, work, given.limit)
            kept.write_text(json.dumps(answers, indent=1), encoding="utf-8")
    print("\n".join(lines(programs, answers, notes_of(given.table))))


if __name__ == "__main__":
    main()
