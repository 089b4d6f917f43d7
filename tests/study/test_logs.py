"""Two logs beside one another: nothing differs between a log and itself, and what differs is told with its numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.extensions.logs.compared import compared
from offloadrt.study import execute, find_scenario


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Logs of the same program, where frees cost nothing in the second one."""
    folder = tmp_path_factory.mktemp("logs")
    paths = folder / "a.jsonl", folder / "b.jsonl"
    for path, more in zip(paths, ([], ["--set", "alloc.cudaFree=0us"]), strict=True):
        words = ["run", "exahype", "threads=2", "patches=4", "batch=2", "--log", str(path), "--draws", "0", *more]
        assert main(words) == 0
    return paths


def test_a_log_does_not_differ_from_itself(logs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(logs[0], logs[0])
    assert (found.equal, found.first, found.differences) == (found.events[0], None, ())
    assert main(["compare", str(logs[0]), str(logs[0])]) == 0
    assert "the two logs are the same, event by event" in capsys.readouterr().out


def test_what_a_change_saves_is_told_as_the_runs_count_it(logs: tuple[Path, Path]) -> None:
    found = compared(*logs)
    given = {"threads": 2, "patches": 4, "batch": 2}
    chosen = find_scenario("exahype")
    runs = [execute(chosen, given), execute(chosen, given, overrides={"alloc.cudaFree": "0us"})]
    (frees,) = [one for one in found.differences if (one.what, one.name) == ("call", "cuMemFree")]
    calls = [run.all_calls()["cuMemFree"] for run in runs]
    assert frees.counts == (calls[0].count, calls[1].count)
    assert frees.seconds == pytest.approx([call.total_s for call in calls], abs=1e-9 * calls[0].count)
    assert [abs(one.more_s) for one in found.differences] == sorted(abs(d.more_s) for d in found.differences)[::-1]
    assert found.elapsed_s[0] > found.elapsed_s[1]


def test_the_first_event_that_differs_is_named(logs: tuple[Path, Path], tmp_path: Path) -> None:
    lines = logs[0].read_text().splitlines(keepends=True)
    changed = json.loads(lines[40])
    changed["time_ns"] += 1
    other = tmp_path / "changed.jsonl"
    other.write_text("".join([*lines[:40], json.dumps(changed) + "\n", *lines[41:]]))
    found = compared(logs[0], other)
    assert found.equal == 40 and found.first is not None
    assert all(said.startswith(changed["event"]) for said in found.first)
    shorter = tmp_path / "shorter.jsonl"
    shorter.write_text("".join(lines[:40]))
    first = compared(logs[0], shorter).first
    assert first is not None and first[1] == "has ended"


def test_the_command_shows_both_and_gives_all_as_json(
    logs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", *map(str, logs)]) == 0
    printed = capsys.readouterr().out
    assert "times as long as the second" in printed and "cuMemFree" in printed
    assert main(["compare", *map(str, logs), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["differences"]) == len(compared(*logs).differences)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{a}"], "two logs are compared"),
        (["{a}", "exahype"], "two logs are compared"),
        (["{a}", "nosuch.jsonl"], "nosuch.jsonl: cannot be read"),
        (["{a}", "{picture}"], "`compare` reads logs, which `run --log FILE` writes"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    words: list[str], said: str, logs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "a.pftrace"
    picture.write_bytes(b"\n")
    assert main(["compare", *(word.format(a=logs[0], picture=picture) for word in words)]) == 2
    assert said in capsys.readouterr().err


def test_a_log_whose_time_goes_back_is_none(
    logs: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turned = tmp_path / "turned.jsonl"
    turned.write_text("".join(reversed(logs[0].read_text().splitlines(keepends=True))))
    for words in (["stats", turned], ["compare", logs[0], turned]):
        assert main([*map(str, words)]) == 2
        assert re.search(
            r"turned\.jsonl, line \d+: .* \(its time_ns is \d+, but \d+ in a line", capsys.readouterr().err
        )
