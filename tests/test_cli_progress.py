"""What commands tell while they work, where no bar is shown."""

from __future__ import annotations

import re

import pytest

from offloadrt.cli import terminal
from offloadrt.cli.render import slowdown


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the process's clock shows, which a test sets."""
    now = [100.0]
    monkeypatch.setattr("offloadrt.cli.terminal.time.monotonic", lambda: now[0])
    return now


def test_the_estimate_goes_by_what_was_done_since_the_start(clock: list[float]) -> None:
    steps = terminal.StepProgress()
    assert steps.line("runs") == ""
    steps.reached("sweep", 40, 100)  # kept from earlier
    assert steps.line("runs") == "40 of 100 runs"
    clock[0] += 10.0
    steps.reached("sweep", 50, 100)
    assert steps.line("runs") == "50 of 100 runs, about 50 s left"


@pytest.mark.parametrize("title", ["two", "one"])  # a stage may come again
def test_each_stage_begins_anew(clock: list[float], title: str) -> None:
    steps = terminal.StepProgress()
    steps.reached("one", 0, 2)
    clock[0] += 1000.0
    steps.reached("one", 2, 2)
    steps.reached(title, 0, 4)
    clock[0] += 10.0
    steps.reached(title, 1, 4)
    assert steps.line("runs") == "1 of 4 runs, about 30 s left"


@pytest.mark.parametrize(("seconds", "text"), [(40.4, "40 s"), (180.0, "3 min"), (9000.0, "2.5 h")])
def test_a_duration_is_told_in_its_unit(seconds: float, text: str) -> None:
    assert terminal.duration(seconds) == text


@pytest.mark.parametrize(
    ("elapsed_s", "took_s", "said"),
    [
        (0.01, 0.2, "200 ms of .*: 20 times slower"),
        (2.0, 0.5, "500 ms of .*: 4 times faster"),
        (0.0, 0.5, "took 500 ms"),
    ],
)
def test_a_run_says_how_much_slower_it_is_than_what_it_emulates(elapsed_s: float, took_s: float, said: str) -> None:
    assert re.search(said, slowdown(elapsed_s, took_s))
