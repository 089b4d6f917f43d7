"""No input that is damaged ends in a traceback: what fuzzing found (`fuzz.py`), and some new inputs each time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from mutations import mutated
from targets import TARGETS

CORPUS = sorted(path for path in Path(__file__).with_name("corpus").glob("*/*") if path.is_file())
INPUTS = {"command_line": 10}  # each runs a whole command


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_input_that_once_failed(path: Path) -> None:
    TARGETS[path.parent.name].run(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_damaged_inputs_get_an_error_of_ours(name: str) -> None:
    target, draw = TARGETS[name], random.Random(20)
    seeds = target.seeds()
    for _ in range(INPUTS.get(name, 40)):
        target.run(mutated(seeds, draw))


@pytest.mark.parametrize("name", TARGETS)
def test_what_the_damaged_inputs_were_made_of_is_right(name: str) -> None:
    for seed in TARGETS[name].seeds()[:2]:
        TARGETS[name].run(seed)


@pytest.mark.parametrize("name", ["machine", "log", "conformance", "token", "measured", "points"])
@pytest.mark.parametrize(("begin", "end"), [("x = [", "]"), ("[", "]"), ('{"event": ', "}")])
def test_what_is_nested_too_deeply_is_no_input(name: str, begin: str, end: str) -> None:
    depth = 100_000
    TARGETS[name].run((begin + begin[-1] * depth + end * depth).encode())
    TARGETS[name].run((begin * depth).encode())


@pytest.mark.parametrize("row", ['{"key":"a","result":"x"}', '{"key":"a","result":[1]}', '{"key":["a"],"result":{}}'])
def test_rows_of_a_sweep_that_are_none(row: str) -> None:
    TARGETS["points"].run(row.encode())
