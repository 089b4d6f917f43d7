"""Policies in a file of one's own, on the command line: no package, no change of the scenario."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.study import execute, find_scenario
from offloadrt.study.reporting.compare import compare
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, Point

POLICIES = """
from offloadrt.runtime.allocators import Direct

class Lifo:
    name, hands_over, shares = "lifo", True, False

    def admit(self, holders, waiting):
        return () if holders else waiting[-1:]

class Slow(Direct):
    def __init__(self, site):
        super().__init__(site)
        self.site = site

    async def allocate(self, nbytes, phantom):
        await self.site.work(1e-3)
        return await super().allocate(nbytes, phantom)
"""
MANY = {"threads": 4, "n": 64}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(POLICIES)
    return path


def test_a_policy_in_a_file_is_compared_with_the_default_one(file: Path) -> None:
    axes = {**{name: (value,) for name, value in MANY.items()}, "table_policy": ("fifo", f"{file}:Lifo")}
    variants = compare(find_scenario("overlap"), axes, InProcess()).cases[0].variants
    assert [variant.parameters["table_policy"] for variant in variants] == ["fifo", f"{file}:Lifo"]
    orders = [execute(find_scenario("overlap"), MANY, table_policy=name, hash=True) for name in axes["table_policy"]]
    assert orders[0].trace_hash != orders[1].trace_hash, "another thread is let in"
    assert [variant.figures["elapsed_s"].value for variant in variants] == [run.elapsed_s for run in orders]


def test_an_allocator_in_a_file_allocates(file: Path) -> None:
    llvm, mine = (execute(find_scenario("overlap"), MANY, allocator=name) for name in ("direct", f"{file}:Slow"))
    assert mine.elapsed_s > llvm.elapsed_s + 3.9e-3, "four threads work a millisecond each, under the table's lock"


def test_a_sweep_does_not_keep_runs_of_a_policy_that_has_changed(file: Path) -> None:
    point = Point("overlap", {}, RunSpec(table_policy=f"{file}:Lifo"))
    before = point.key
    file.write_text(POLICIES.replace("-1:", "-2:-1"))
    assert point.key != before


WRONG = """
from offloadrt.runtime.allocators import Direct
from offloadrt.runtime.configurations import Copy

class Raises:
    def __init__(self):
        self.name = [][0]

class NoLocks(Direct):
    locks = None

class NoAccess(Copy):
    host_access = "in place"

class NoHooks(Copy):
    def hooks(self, device): ...

class NoSections(Copy):
    def sections(self, devices): ...

class Elsewhere(Copy):
    def for_program(self, host_program): ...

class Mistaken(Direct):
    def __init__(self, site):
        super().__init__(site.sight)

def number(site):
    return 7
"""


@pytest.mark.parametrize(
    ("option", "name", "message", "code"),
    [
        ("--table-policy", "Raises", r"the lock policy '.*wrong.py:Raises': IndexError: .* \(.*wrong.py:7\)", 2),
        ("--allocator", "NoLocks", "NoLocks is no allocator: it lacks locks", 2),
        ("--allocator", "number", r"allocator 'int' \(class int\): lacks allocate, free, release_pooled, locks", 3),
        ("--allocator", "Mistaken", "'AllocatorSite' object has no attribute 'sight'", 3),
        ("--configuration", "NoAccess", "NoAccess is no memory configuration: its host_access is 'in place'", 2),
        ("--configuration", "NoHooks", r"'copy' \(class NoHooks\): hooks returns None, no MapHooks", 3),
        ("--configuration", "NoSections", r"'copy' \(class NoSections\): sections returns None, no ResultSection", 3),
        ("--configuration", "Elsewhere", "NoneType is no memory configuration: it lacks name, host_access, place", 2),
    ],
)
def test_a_policy_that_breaks_its_interface_is_told_by_its_class(
    option: str, name: str, message: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    assert main(["run", "overlap", "n=64", option, f"{tmp_path / 'wrong.py'}:{name}"]) == code
    told = capsys.readouterr().err
    assert re.search(message, told) and "/offloadrt/" not in told.replace(str(tmp_path), "")


@pytest.mark.parametrize("machine", ["alex-a100", "t4"])
def test_an_eviction_policy_that_cannot_be_made_is_wrong_use_before_anything_runs(
    machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    words = ["run", "overlap", "n=64", "--machine", machine, "--set", f"evict.policy={tmp_path / 'wrong.py'}:Raises"]
    assert main(words) == 2
    assert "--set evict.policy: the eviction policy" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--allocator", "{0}:Slo"], "mine.py: has no Slo"),
        (["--allocator", "{0}:Lifo"], "Lifo is no allocator: it lacks allocate, free, release_pooled, locks"),
        (["--table-policy", "{0}:Slow"], "missing 1 required positional argument"),
        (["--table-policy", "/nosuch/a.py:A"], "/nosuch/a.py: cannot be read: "),
        (["--table-policy", "lifo"], "no lock policy 'lifo'; there are: barging, fifo"),
    ],
)
def test_what_is_no_policy_is_one_message(
    words: list[str], message: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "overlap", "n=64", *(word.format(file) for word in words)]) == 2
    told = capsys.readouterr().err
    assert message in told and len(told.splitlines()) == 1
