"""Packages whose entry points are broken: each gets one message that names the entry point, and no traceback."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.registry import forget

BROKEN = '''
NUMBER = 3

class NeedsArguments:
    name = "mine"

    def __init__(self, one, two):
        pass

class Raises:
    def __init__(self):
        raise RuntimeError("no device")

def raises(*arguments):
    """Raise."""
    raise ZeroDivisionError("in the package")
'''
FILES = {
    "broken.py": BROKEN,
    "broken_import.py": "import nosuch_library\n",
    "broken_syntax.py": "def f(:\n",
    "broken_exit.py": "raise SystemExit(4)\n",
}
SCRIPT = """
from offloadrt import Run, scenario

@scenario
async def empty(run: Run) -> None:
    await run.parallel(lambda t: t.sleep(1e-6))
"""
Install = Callable[[str], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a package with these entry points; its modules are broken in several ways."""
    metadata = tmp_path / "broken_package-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-package\nVersion: 1.0\n")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "empty.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(entry_points: str) -> None:
        (metadata / "entry_points.txt").write_text(entry_points)
        forget()

    yield write
    for name in FILES:
        sys.modules.pop(name.removesuffix(".py"), None)
    forget()


RUN = ["run", "empty.py", "--draws", "0"]
REFUSED = [
    ("commands", "broken:NUMBER", ["mine"], r"the command mine \(broken:NUMBER\) is none: "),
    ("commands", "broken_exit:run", ["mine"], r"the command 'mine' \(broken_exit:run\) cannot be loaded: SystemExit"),
    ("scenarios", "broken_syntax:x", ["run", "mine"], r"the scenario 'mine' \(broken_syntax:x\) .*: SyntaxError: "),
    ("scenarios", "broken:NUMBER", ["run", "mine"], r"the scenario .mine. \(broken:NUMBER\) is none, but 3"),
    ("machines", "broken:NeedsArguments", [*RUN, "--machine", "mine"], "mine: the package .* no path of a file"),
    ("machines", "broken:NUMBER", [*RUN, "--machine", "mine"], "mine: the package .* no path of a file: "),
    ("strategies", "broken:NeedsArguments", [*RUN, "--strategy", "mine"], "--strategy mine: TypeError: .*'two'"),
    ("strategies", "broken:raises", [*RUN, "--strategy", "mine"], "--strategy mine: ZeroDivisionError: in the"),
    ("configurations", "broken_import:X", [*RUN, "--configuration", "mine"], "'mine' .* ModuleNotFoundError: .*nosuch"),
    ("configurations", "broken:Raises", [*RUN, "--configuration", "mine"], "configuration 'mine': RuntimeError"),
    ("allocators", "not a path", [*RUN, "--allocator", "mine"], r"the allocator 'mine' \(not a path\) cannot be"),
    ("program_files", "broken:NUMBER", ["run", "some.mine"], "int is no kind of program file: it lacks"),
    ("models", "broken_syntax:MODEL", ["run", "overlap", "n=64"], ""),  # a model that no program asks for
]  # fmt: skip


@pytest.mark.parametrize(("group", "value", "tokens", "message"), REFUSED, ids=lambda value: str(value)[:30])
def test_an_entry_point_that_is_broken_is_named(
    group: str, value: str, tokens: list[str], message: str, install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install(f"[offloadrt.{group}]\nmine = {value}\n")
    code, told = main(tokens), capsys.readouterr().err
    assert code == (2 if message else 0) and "Traceback" not in told
    assert not message or (len(told.splitlines()) == 1 and re.search(message, told)), told


def test_entry_points_that_cannot_be_read_are_those_of_a_package(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("[offloadrt.commands]\nno equals sign\n")
    assert main(["list"]) == 2
    assert "broken-package: its entry_points.txt cannot be read: " in capsys.readouterr().err


def test_a_command_that_raises_ends_as_a_script_does(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("[offloadrt.commands]\nmine = broken:raises\n")
    assert main(["mine"]) == 3
    told = capsys.readouterr().err
    assert told.endswith("ZeroDivisionError: in the package\n")
