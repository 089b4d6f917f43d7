"""What the documentation shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.study import execute, find_scenario

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "gallery" not in path.parts and "reference" not in path.parts)


def code(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.fixture
def jacobi(tmp_path: Path) -> str:
    (program,) = code(DOCS / "tutorial.md", "python")
    path = tmp_path / "jacobi.py"
    path.write_text(program, encoding="utf-8")
    return str(path)


def test_the_tutorials_program_finds_what_the_tutorial_says(jacobi: str) -> None:
    each, once = (
        execute(find_scenario(jacobi), {"sweeps": 5, "threads": 8, "mapped": mapped})
        for mapped in ("each sweep", "once")
    )
    assert each.elapsed_s > 2 * once.elapsed_s
    assert each.calls["cuMemFree"].count == 5 * once.calls["cuMemFree"].count


def test_the_faults_page_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "how-to" / "faults.md"
    (program,) = code(page, "python")
    (tmp_path / "halo.py").write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for block in code(page, "console"):
        command, *lines = block.splitlines()
        main([*command.removeprefix("$ uv run offloadrt ").split(), *(["--jobs", "1"] if "explore" in command else [])])
        printed = capfd.readouterr()
        told = (printed.out + printed.err).splitlines()
        assert [line for line in lines if line not in told] == []


def test_the_notebooks_page_works_as_it_stands() -> None:
    names: dict[str, object] = {}
    exec("\n".join(code(DOCS / "how-to" / "notebooks.md", "python")), names)
    assert names["table"]["threads"].to_list() == [1, 2, 4]  # type: ignore[index]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
        if not target.startswith(("../figures", "figures", "../reference/reports")):  # made when the site is built
            assert (page.parent / target).resolve().exists(), target


def test_every_directive_in_the_table_of_pragmas_exists() -> None:
    from offloadrt import openmp as omp

    text = (DOCS / "how-to" / "pragmas.md").read_text(encoding="utf-8")
    used = set(re.findall(r"`(?:await |async with )?t\.(\w+)\(", text))
    clauses = set(re.findall(r"omp\.(\w+)\(", text))
    assert len(used) > 10 and not [name for name in used if not hasattr(omp.HostThread, name) and name != "array"]
    assert len(clauses) > 8 and not [name for name in clauses if not hasattr(omp, name)]
