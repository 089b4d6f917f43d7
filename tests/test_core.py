"""The core names no extension and no paper, and works where they cannot be imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import offloadrt

PACKAGE = Path(offloadrt.__file__).parent
PROJECT = PACKAGE.parent

EXTENSIONS = ("offloadrt.extensions", "offloadrt.papers")
"""What can be left out: the core finds it by entry points (`offloadrt/registry.py`)."""

WITHOUT = f"""
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if any(name == hidden or name.startswith(hidden + ".") for hidden in {EXTENSIONS!r}):
            raise ModuleNotFoundError(f"{{name}} is not installed", name=name)

sys.meta_path.insert(0, Hidden())
"""


def is_of(name: str) -> bool:
    return any(name == extension or name.startswith(f"{extension}.") for extension in EXTENSIONS)


def named_in(tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports, wherever in it, and its texts that are no docstrings."""
    texts = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield node.value.partition(":")[0]


def test_the_core_names_no_extension_and_no_paper() -> None:
    found = {
        (path.relative_to(PROJECT).as_posix(), next(prefix for prefix in EXTENSIONS if name.startswith(prefix)))
        for path in PACKAGE.rglob("*.py")
        if not is_of(".".join(path.relative_to(PROJECT).with_suffix("").parts))
        for name in named_in(ast.parse(path.read_text(encoding="utf-8")))
        if is_of(name)
    }
    assert found == set()


def test_a_stub_of_the_core_names_them_under_type_checking_alone() -> None:
    found = [
        f"{path.relative_to(PROJECT)}: {name}"
        for path in PACKAGE.rglob("__init__.pyi")
        if not is_of(".".join(path.parent.relative_to(PROJECT).parts))
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if not isinstance(statement, ast.If)
        for name in named_in(ast.Module([statement], []))
        if is_of(name)
    ]
    assert found == []


def ended(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process in which the extensions cannot be imported."""
    return subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True, cwd=folder)


@pytest.mark.parametrize(
    "tokens",
    [
        ["list"],
        ["show", "overlap"],
        ["run", "overlap"],
        ["run", "overlap", "--log", "log.jsonl"],
        ["compare", "overlap", "threads=1,2", "phantom=true"],
        ["sweep", "overlap", "threads=1,2", "phantom=true", "--jobs", "1"],
    ],
    ids=" ".join,
)
def test_the_core_works_without_extensions(tokens: list[str], tmp_path: Path) -> None:
    done = ended(f"from offloadrt.cli import main\nsys.exit(main({tokens!r}))", tmp_path)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert done.stdout


def test_a_test_runs_without_extensions(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "async def test_a_thread(offload):\n"
        "    async def body(t):\n"
        "        await t.barrier()\n"
        "    await offload.parallel(body)\n"
    )
    done = ended("import pytest\nsys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '.']))", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_command_of_an_extension_that_is_not_there_says_so(tmp_path: Path) -> None:
    done = ended("from offloadrt.cli import main\nsys.exit(main(['why', 'overlap']))", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("offloadrt: the command 'why' is not installed: ")
