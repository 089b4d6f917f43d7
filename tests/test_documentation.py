"""What the documentation shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import documented
import pytest

from offloadrt.runtime.environment import CHOOSING, ENTRIES, OFFLOAD
from offloadrt.study import execute, find_scenario

DOCS = Path(__file__).parents[1] / "docs"
PAGES = [page for page in documented.WRITTEN if page.is_relative_to(DOCS)]


@pytest.fixture
def jacobi(tmp_path: Path) -> str:
    (program,) = documented.blocks(DOCS / "tutorial.md", "python")
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


@pytest.mark.slow
def test_the_notebooks_page_works_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, object] = {}
    monkeypatch.chdir(tmp_path)  # where the page is saved
    exec("\n".join(documented.blocks(DOCS / "how-to" / "notebooks.md", "python")), names)
    assert names["table"]["threads"].to_list() == [1, 1, 2, 2, 4, 4]  # type: ignore[index]
    assert (tmp_path / "exahype.html").is_file()


def test_the_pieces_of_the_page_of_pragmas_make_a_program(tmp_path: Path) -> None:
    costs, nest, pointers = (
        block for block in documented.blocks(DOCS / "how-to" / "pragmas.md", "python") if block.startswith("@kernel")
    )
    begin = "import numpy as np\nfrom offloadrt import kernel, openmp as omp, scenario\n"
    body = f"async def body(t):\n{indent(pointers, '    ')}    b = t.array('b', 100, fill=1.0)\n"
    body += "    await t.target(axpy, b, b, 2.0, 100, maps=omp.map(tofrom=b))\n"
    end = (
        "    return float(b[0])\n@scenario\nasync def page(run):\n    return {'first': (await run.parallel(body))[0]}\n"
    )
    (tmp_path / "page.py").write_text(f"{begin}{costs}\n\n{nest}\n{body}{end}")
    assert execute(find_scenario(str(tmp_path / "page.py"))).measured["first"] == 3.0


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


def test_the_variables_that_are_read_are_those_of_the_page() -> None:
    page = (DOCS / "how-to" / "command-line.md").read_text(encoding="utf-8")
    table = page.partition("## Environment variables of the program")[2].partition("\n## ")[0]
    named = set(re.findall(r"`((?:OMP|OMPX|HSA|HIP|LIBOMP|LIBOMPTARGET|CUDA|GPU)_\w+)`", table))
    assert named == {*ENTRIES, *CHOOSING, OFFLOAD}
