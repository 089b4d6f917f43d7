"""The floors of ARCHITECTURE.md hold, and what is imported when."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import offloadrt

PACKAGE = Path(offloadrt.__file__).parent
PROJECT = PACKAGE.parent
SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".toml", ".md"})

HEAVY = ["cyclopts", "matplotlib", "numba", "perfetto", "pint", "polars", "rich", "structlog"]
"""What only some commands need."""

STUDY = ["matplotlib", "numba", "perfetto", "pint", "polars"]
"""What the help must not load."""


def modules_after(statements: str) -> list[str]:
    """The top-level modules that a fresh interpreter has loaded after these statements."""
    script = (
        f"{statements}\nimport json, sys\nprint(json.dumps(sorted({{name.split('.')[0] for name in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PROJECT)
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def imports_of(path: Path) -> list[str]:
    """The modules that a file imports, wherever in it."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found.append(node.module or "")
    return found


def test_a_floor_imports_only_from_floors_below_it() -> None:
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or shutil.which("lint-imports")
    assert command is not None, "import-linter is not installed"
    done = subprocess.run([command, "--no-cache"], capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_folder_is_a_floor() -> None:
    contract = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [name.strip() for layer in contract["contracts"][0]["layers"] for name in layer.split("|")]
    modules = [path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()]
    floors = [f"offloadrt.{name}" for name in modules if name not in ("__init__", "__main__", "scenarios")]
    assert sorted(floors) == sorted(layers)


@pytest.mark.parametrize("path", sorted((PACKAGE / "sim").glob("*.py")), ids=lambda path: path.stem)
def test_virtual_time_knows_nothing_of_what_is_built_on_it(path: Path) -> None:
    ours = [name for name in imports_of(path) if name.split(".")[0] == "offloadrt"]
    assert [name for name in ours if not name.startswith("offloadrt.sim")] == []


def test_virtual_time_loads_nothing_of_ours_besides() -> None:
    script = "import offloadrt.sim, sys; print([n for n in sys.modules if n.startswith('offloadrt.')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=PROJECT)
    loaded = ast.literal_eval(done.stdout)
    assert [
        name
        for name in loaded
        if name not in ("offloadrt.lazy", "offloadrt.sim") and not name.startswith("offloadrt.sim.")
    ] == []


def test_importing_the_package_loads_no_library() -> None:
    loaded = modules_after("import offloadrt")
    assert [name for name in loaded if name in {*HEAVY, "attr", "attrs", "msgspec", "numpy", "trio"}] == []


def test_the_help_loads_nothing_of_the_study() -> None:
    loaded = modules_after("from offloadrt.cli import main\nmain(['--help'])")
    assert [name for name in loaded if name in STUDY] == []


def test_a_scenario_needs_neither_tables_nor_pictures() -> None:
    run = "from offloadrt import study\nstudy.execute(study.find_scenario('overlap'), {'threads': 2, 'phantom': True})"
    assert [name for name in modules_after(run) if name in {"matplotlib", "perfetto", "polars", "structlog"}] == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_the_package_names_no_place_outside_of_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "shared/" not in text
    assert "/work/" not in text
