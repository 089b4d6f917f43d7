"""What users asked in public threads, and what offloadrt answers: `python -m bench.questions [--check] [--only ID...]`.

`bench/questions/questions.toml` says for each question what was asked, what turned out to be true, which runs answer it
and what they should show. The runs are made anew, and the table of answers goes to `bench/questions/answers.md`.

An answer is *right* if every figure lies where the truth wants it, and within a factor of 2 of each number that is
known. It is *partly* right if only numbers are missed, or if a part of the question cannot be put (`cannot_ask_part`).
It is *wrong* if a direction is. `--check` makes the table and compares it with the stored one.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from offloadrt.study import Result, find_scenario
from offloadrt.study.scripts import listing, registry
from offloadrt.study.scripts.parameters import Value
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import Point, executor, processors, sweep

FOLDER = Path(__file__).parent / "questions"
QUESTIONS, ANSWERS = FOLDER / "questions.toml", FOLDER / "answers.md"
FACTOR = 2.0
"""A magnitude is right within this factor."""
ROUNDING = 1e-9
"""By how much of itself a time may miss a bound: it is a sum of floating-point numbers."""

Verdict = Literal["right", "partly", "wrong", "cannot be asked"]
VERDICTS: tuple[Verdict, ...] = ("right", "partly", "wrong", "cannot be asked")


class Which(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A run, as far as it differs from the one that it stands beside."""

    scenario: str | None = None
    machine: str | None = None
    runtime: str | None = None
    parameters: Mapping[str, Value] = msgspec.field(default_factory=dict)
    set: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Entries of the machine."""
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    figure: str | None = None


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One figure that answers a question, or a part of it."""

    says: str
    """What the figure is."""
    run: Which
    over: Which | None = None
    """The run by whose figure that of `run` is divided; what it does not say is as in `run`."""
    at_least: float | None = None
    at_most: float | None = None
    """Where the truth says that the figure lies."""
    reported: float | None = None
    """The number that is known."""
    excess: bool = False
    """Whether the figure is the quotient less 1: how much longer something takes."""

    def expected(self) -> str:
        """Say where the figure should be."""
        bounds = [("at least", self.at_least), ("at most", self.at_most), ("reported", self.reported)]
        return ", ".join(f"{what} {bound:g}" for what, bound in bounds if bound is not None)

    def is_there(self, figure: float) -> bool:
        """Whether a figure has the right direction; virtual times are sums, which are rounded."""
        above = self.at_least is None or figure >= self.at_least - ROUNDING * abs(self.at_least)
        return above and (self.at_most is None or figure <= self.at_most + ROUNDING * abs(self.at_most))

    def is_close(self, figure: float) -> bool:
        """Whether a figure is as large as reported."""
        return self.reported is None or self.reported / FACTOR <= figure <= self.reported * FACTOR


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One question, with all that is stored of it."""

    id: str
    title: str
    url: str
    question: str
    truth: str
    machine: str
    """Of the user."""
    answer: tuple[Answer, ...] = ()
    cannot_ask_part: bool = False
    """Whether a part of the question cannot be put, so that it cannot be more than partly right."""
    why: str = ""
    """Why the answer is not right, or what to know of one that is."""

    def verdict(self, figures: Sequence[float]) -> Verdict:
        """Judge the figures of the answers."""
        pairs = [*zip(self.answer, figures, strict=True)]
        if not pairs:
            return "cannot be asked"
        if not all(answer.is_there(figure) for answer, figure in pairs):
            return "wrong"
        close = all(answer.is_close(figure) for answer, figure in pairs)
        return "right" if close and not self.cannot_ask_part else "partly"


def read() -> list[Question]:
    """Read the questions."""
    return msgspec.convert(tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["question"], list[Question])


def point(which: Which) -> Point:
    """Return the run. Raises ScenarioNotFound and ParameterError."""
    assert which.scenario is not None
    scenario = find_scenario(which.scenario)
    options = RunSpec(machine=which.machine, runtime=which.runtime, overrides=which.set, environment=which.env)
    return Point(registry.reference(scenario), scenario.bind(which.parameters), options)


def merged(run: Which, over: Which) -> Which:
    """Return the run that another one is compared with."""
    return Which(
        over.scenario or run.scenario,
        over.machine or run.machine,
        over.runtime or run.runtime,
        {**run.parameters, **over.parameters},
        {**run.set, **over.set},
        {**run.env, **over.env},
        over.figure or run.figure,
    )


def runs_of(answer: Answer) -> list[Which]:
    """Return the runs that an answer needs: one, or two that are divided."""
    return [answer.run, *([merged(answer.run, answer.over)] if answer.over is not None else [])]


def made(wanted: Iterable[Point], jobs: int, file: Path | None = None) -> dict[str, Result]:
    """Make each run once; return the results by the run's text. SystemExit if one cannot be made."""
    points = {repr(one): one for one in wanted}
    with executor("process", jobs) as pool:
        outcome = sweep([*points.values()], pool, jobs=jobs, file=file)
    if outcome.failures:
        raise SystemExit("\n".join(failure.message for failure in outcome.failures))
    return dict(zip(points, outcome.finished, strict=True))


def figure_of(result: Result, name: str | None) -> float:
    """Return a figure that a scenario measured, or the time that it took."""
    value: Any = result.elapsed_s if name in (None, "elapsed_s") else result.measured[str(name)]
    return float(value)


def figures(questions: Sequence[Question], jobs: int = 1, file: Path | None = None) -> dict[str, list[float]]:
    """Make all runs; return the figures of each question's answers."""
    wanted = [point(which) for question in questions for answer in question.answer for which in runs_of(answer)]
    results = made(wanted, jobs, file)

    def value(answer: Answer) -> float:
        top, *below = [figure_of(results[repr(point(which))], which.figure) for which in runs_of(answer)]
        return (top / below[0] if below else top) - answer.excess

    return {question.id: [value(answer) for answer in question.answer] for question in questions}


def number(value: float) -> str:
    """Write a number with three digits; what is smaller than a picosecond is 0."""
    return f"{round(value, 12) + 0.0:.3g}"


def row(question: Question, values: Sequence[float]) -> str:
    """Write the line of a question."""
    said = [
        f"{answer.says}: **{number(value)}** ({answer.expected()})"
        for answer, value in zip(question.answer, values, strict=True)
    ]
    cells = [
        f"[{question.title}]({question.url}) ({question.machine}): {question.question}",
        question.truth,
        "<br>".join(said) or "–",
        question.verdict(values),
        question.why,
    ]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def digest() -> str:
    """Return a digest of the questions and of the scenarios that were written for them."""
    state = hashlib.sha256(QUESTIONS.read_bytes())
    for path in sorted((listing.folder() / "questions").glob("*.py")):
        state.update(path.name.encode() + b"\0" + path.read_bytes())
    return state.hexdigest()[:16]


HEAD = """# What users asked, and what offloadrt answers

Made by `python -m bench.questions` from [questions.toml](questions.toml), which says how each question is put. A figure
in bold is the emulator's; beside it stands where the truth wants it. Questions are paraphrased, and "truth" is what
came out in the thread. No cost of a machine was chosen for any of them.

A verdict is *right* if every figure has the right direction and lies within a factor of 2 of the number that is known,
*partly* if a number is missed or a part cannot be asked, *wrong* if a direction is.
"""


def table(questions: Sequence[Question], values: Mapping[str, Sequence[float]]) -> str:
    """Write the whole table."""
    verdicts = [question.verdict(values[question.id]) for question in questions]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS)
    rows = "\n".join(row(question, values[question.id]) for question in questions)
    heads = "| question | truth | offloadrt | verdict | why, or what to know |\n| --- | --- | --- | --- | --- |"
    sums = f"{len(questions)} questions: {counts}. Digest of questions and scenarios: {digest()}."
    return f"{HEAD}\n{sums}\n\n{heads}\n{rows}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the stored table")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="answer these questions, store nothing")
    parser.add_argument("--jobs", type=int, default=processors())
    parser.add_argument("--kept", type=Path, help="keep finished runs in this file, and do not make them again")
    given = parser.parse_args()
    questions = read()
    if given.only:
        chosen = [question for question in questions if question.id in given.only]
        values = figures(chosen, given.jobs, given.kept)
        print("\n".join(row(question, values[question.id]) for question in chosen))
        return 0
    text = table(questions, figures(questions, given.jobs, given.kept))
    if given.check:
        stored = ANSWERS.read_text(encoding="utf-8")
        print("".join(difflib.unified_diff(stored.splitlines(True), text.splitlines(True), "stored", "now")), end="")
        return int(stored != text)
    ANSWERS.write_text(text, encoding="utf-8")
    print(text.split("\n\n")[-2])
    return 0


if __name__ == "__main__":
    sys.exit(main())
