"""What a notebook shows of results, and how they become data frames."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest

from offloadrt import Result, to_pandas, to_polars
from offloadrt.cli import main
from offloadrt.extensions.explaining.explain import explain
from offloadrt.study import execute, find_scenario
from offloadrt.study.reporting.compare import compare
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import executor, grid, sweep

TOYS = Path(__file__).parent / "study" / "toys.py"
QUEUEING, PICKY = (find_scenario(f"{TOYS}:{name}") for name in ("queueing", "picky"))


class Cells(HTMLParser):
    """Reads the texts of a page's cells, and checks that what is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def shown(value: object) -> list[str]:
    return Cells(value._repr_html_()).texts  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def result() -> Result:
    return execute(QUEUEING, {"threads": 4})


def test_a_result_shows_what_was_given_apart_from_what_was_measured(result: Result) -> None:
    texts = shown(result)
    given = texts[texts.index("given") : texts.index("measured")]
    assert given[given.index("threads") + 1] == "4" and "per_thread_s" not in given
    assert texts[texts.index("per_thread_s") + 1] == "500 ms"


def test_texts_of_a_program_are_no_markup(result: Result) -> None:
    assert "<b>x" in shown(attrs.evolve(result, measured={"note": "<b>x"}))


def test_a_comparison_shows_each_ratio() -> None:
    with executor("process", 1) as pool:
        texts = shown(compare(QUEUEING, {"threads": (1, 4)}, pool))
    assert texts[texts.index("4") :][:3] == ["4", "2 s", "0.25"]


def test_a_sweep_shows_what_finished_and_what_failed() -> None:
    with executor("process", 1) as pool:
        texts = shown(sweep(grid(PICKY, {"left": (1, 2), "right": (2,)}, RunSpec()), pool))
    assert any(text.endswith("1 of 2 points") for text in texts) and "1 failed" in texts
    assert texts[-2:] == ["left=2 right=2 bang=false", texts[-1]] and "must differ from left" in texts[-1]


def test_a_page_of_why_begins_with_the_sentence() -> None:
    with executor("process", 1) as pool:
        page = explain(QUEUEING, {"threads": 4}, pool, budget_s=0.0)
    assert shown(page)[0] == page.limit.sentence and "the critical path by resource" in shown(page)


def test_results_are_data_frames_in_one_call(result: Result) -> None:
    other = attrs.evolve(result, measured={"extra": 2.5})
    mine, theirs = to_polars([result, other]), to_pandas([result, other])
    assert mine.columns == list(theirs.columns)
    assert mine["extra"].to_list() == [None, 2.5] and theirs["extra"].isna().to_list() == [True, False]
    assert mine["elapsed_s"].to_list() == theirs["elapsed_s"].to_list() == [2.0, 2.0]
    assert result.to_polars().equals(to_polars([result])) and result.to_pandas().equals(to_pandas([result]))


def test_a_figure_is_a_picture_also_where_no_backend_shows_figures() -> None:
    assert execute(find_scenario("overlap"), {"threads": 1, "n": 64}).figure()._repr_png_().startswith(b"\x89PNG")


def test_what_a_notebook_shows_needs_no_library_for_data_frames() -> None:
    code = (
        "import sys\nfrom offloadrt.study.reporting import compare\n"
        "print({'polars', 'pandas', 'matplotlib', 'rich'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"set()\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_of_a_shell_knows_every_command(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # whose start-up files are changed
    monkeypatch.delenv("ZDOTDIR", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    from offloadrt.cli.app import app

    file = tmp_path / "completion"
    assert main(["--install-completion", "--shell", shell, "--output", str(file)]) == 0
    script = file.read_text()
    commands = [name for name in app if not name.startswith("-")]
    assert len(commands) > 12 and [name for name in commands if not re.search(rf"\b{name}\b", script)] == []


def test_run_shows_inputs_apart_from_what_was_measured(result: Result) -> None:
    from rich.console import Console

    from offloadrt.cli.render import result as tables

    console = Console(width=100)
    run = attrs.evolve(result, inputs={"guess": 0.25}, measured={"threads": 4, "rate": 2.0, "guess": 0.25})
    with console.capture() as captured:
        console.print(*tables(run), sep="\n")
    before, after = captured.get().split("measured")
    assert "guess" in before and "0.25" in before
    assert "rate" in after and "guess" not in after and "threads " not in after


TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorials" / "questions.ipynb"


def test_the_tutorial_is_stored_without_outputs() -> None:
    cells = json.loads(TUTORIAL.read_text(encoding="utf-8"))["cells"]
    assert {str(cell["outputs"]) + str(cell["execution_count"]) for cell in cells if cell["cell_type"] == "code"} == {
        "[]None"
    }


@pytest.mark.slow
def test_the_tutorial_runs_from_its_first_to_its_last_cell(tmp_path: Path) -> None:
    code = (
        "import sys, nbformat\nfrom nbclient import NotebookClient\n"
        "book = nbformat.read(sys.argv[1], 4)\nNotebookClient(book, timeout=600, kernel_name='python3').execute()\n"
        "nbformat.write(book, 'run.ipynb')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(TUTORIAL)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cells = json.loads((tmp_path / "run.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = [
        {kind for output in cell["outputs"] for kind in output.get("data", ())} for cell in cells if "outputs" in cell
    ]
    pictures = [number for number, kinds in enumerate(shown) if "image/png" in kinds]
    tables = [number for number, kinds in enumerate(shown) if "text/html" in kinds]
    assert pictures == [3, 7] and {2, 4, 5, 6, 8} <= set(tables)
