"""The stored answers to users' questions are complete, of the present scenarios, and come out again if cheap."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bench() -> Any:
    spec = importlib.util.spec_from_file_location("bench_questions", ROOT / "bench" / "questions.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules["bench_questions"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(bench: Any) -> list[str]:
    return [line for line in bench.ANSWERS.read_text(encoding="utf-8").splitlines() if line.startswith("| [")]


def test_the_table_is_of_the_present_questions_and_scenarios(bench: Any) -> None:
    text = bench.ANSWERS.read_text(encoding="utf-8")
    assert f"Digest of questions and scenarios: {bench.digest()}." in text, "make it anew: python -m bench.questions"


def test_each_question_has_its_line(bench: Any) -> None:
    questions = bench.read()
    assert len({question.id for question in questions}) == len(questions)
    for question, row in zip(questions, rows(bench), strict=True):
        assert row.startswith(f"| [{question.title}]({question.url})")
        assert row.count("**") == 2 * len(question.answer)


def test_verdicts_add_up_and_say_why(bench: Any) -> None:
    questions, text = bench.read(), bench.ANSWERS.read_text(encoding="utf-8")
    verdicts = [row.removesuffix(" |").split(" | ")[3] for row in rows(bench)]
    for verdict in bench.VERDICTS:
        assert re.search(rf"\b{verdicts.count(verdict)} {verdict}\b", text)
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in bench.VERDICTS)
    assert counts in (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(question.why for question, verdict in zip(questions, verdicts, strict=True) if verdict != "right")


def test_every_run_can_be_asked_for(bench: Any) -> None:
    for question in bench.read():
        for answer in question.answer:
            assert answer.expected(), f"{question.id}: {answer.says}: nothing is expected"
            for which in bench.runs_of(answer):
                bench.point(which)


CHEAP = ("nowait-helpers", "acc-async-launch", "p2p-nvlink", "zerocopy-slower")


def test_cheap_answers_come_out_as_stored(bench: Any) -> None:
    chosen = [question for question in bench.read() if question.id in CHEAP]
    values = bench.figures(chosen)
    assert {bench.row(question, values[question.id]) for question in chosen} <= {*rows(bench)}


def test_a_verdict_follows_from_the_figures(bench: Any) -> None:
    run = bench.Which("questions/streams")
    answer = bench.Answer(says="a ratio", run=run, at_least=1.1, reported=4.0)
    question = bench.Question(id="q", title="", url="", question="", truth="", machine="", answer=(answer,))
    assert [question.verdict([figure]) for figure in (1.0, 1.2, 2.0, 8.0, 9.0)] == [
        "wrong",
        "partly",
        "right",
        "right",
        "partly",
    ]
