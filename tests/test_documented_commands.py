"""The commands of README.md and of pages of docs/ work as printed, and print what is shown below them.

The quick ones are called in this process. The slow study types all of them into a shell, page by page, as a reader
would.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from calibration.made_traces import US, MadeNsys
from documented import PAGES, ROOT, Command, blocks, commands, not_printed, programs

from offloadrt.cli import main
from offloadrt.extensions.recording.toolchain import ToolchainMissing, find_compiler

NOT_RUN = {
    "python3 -m pip install uv": ".ci/run runs these lines as they stand, on a bare machine",
    "uv sync --all-extras": ".ci/run sets up the same environment",
    "uv run pytest": ".ci/run runs the tests",
    "uv run ruff check": ".ci/run does so",
    "uv run mypy": ".ci/run does so",
    "uvx pre-commit install": "it changes the checkout; its hooks are commands of .ci/run",
    ".ci/run ": "this test is a part of it",
    "nsys profile --cuda-memory-usage=true -o mine ./app": "it needs an NVIDIA GPU; the test makes its file",
    "rocprofv3 --sys-trace": "it needs an AMD GPU",
    "uv pip install ./tests/plugin": "tests/test_plugin_package.py has the package on its path, and runs what it adds",
    "uv run --no-sync ": "tests/test_plugin_package.py runs what the package of the page adds",
    "jupyter lab": "it serves a notebook until it is stopped",
    "apt-get install clang-22": "it installs packages of the system, as the Dockerfile does",
    "validate --paper ": "tests/papers judges its claims one by one",
    "sweep exahype_fig2": "it takes long; tests/scenarios runs one point of it",
    "validate --independent": "tests/papers predicts its measurements one by one",
    "DASK_SCHEDULER_ADDRESS=tcp://head:8786 ": "it needs a cluster; tests/study/test_clusters.py has a small one",
    "mpiexec -n 64 python -m mpi4py.futures": "it needs MPI; tests/study/test_clusters.py runs it where it is",
    "export DASK_SCHEDULER_FILE=": "it is a line of a job for Slurm",
    "dask scheduler --scheduler-file": "it is a line of a job for Slurm",
    "srun uv run --extra dask dask worker": "it is a line of a job for Slurm",
    "--executor dask --jobs 1024": "it is a line of a job for Slurm",
}
"""Parts of the commands that are not run, each with the reason."""

MINUTES = re.compile(
    r"uv run python| (demo|why|sweep|report|compare|cc|cxx|record) |everywhere|\.rec\b|threads=(8|16|64)"
    r"|explore FILE|exahype --log|a\.jsonl|offloadrt .*>"
)
"""What the slow study runs alone."""

FROM_A_COMPILER = re.compile(r" (cc|cxx|record) |\b(patches|mistakes|triads)\.rec\b")

FAILING = re.compile(r"--faults|^uv run offloadrt (check|explore) ")
"""Commands that tell of a failure by their exit code: 1 for what a check found, 3 for a program that failed."""


@pytest.fixture
def folder(tmp_path: Path, page: Path) -> Path:
    """A folder like a checkout, with the programs that the pages ask to be saved."""
    for name in ("bench", "scenarios", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    for each in PAGES:
        for name, program in programs(each).items():
            (tmp_path / name).write_text(program, encoding="utf-8")
    (tmp_path / "FILE.py").write_text(programs(ROOT / "docs" / "how-to" / "faults.md")["halo.py"], encoding="utf-8")
    if "mine.sqlite" in page.read_text(encoding="utf-8"):
        trace = MadeNsys(tmp_path / "mine.sqlite")
        for number in range(5):
            start = number * 1000 * US
            trace.kernel(trace.call("cuLaunchKernel", start, start + 4 * US), start + 6 * US, start + 106 * US)
        trace.written()
    return tmp_path


def run_page(page: Path, left_out: Callable[[str], object], run: Callable[[str], tuple[int, str]]) -> None:
    """Run the commands of a page that are not left out; skip at its end when some need a compiler that is not here."""
    missing = None
    for command in commands(page):
        if any(part in command.line for part in NOT_RUN) or left_out(command.line):
            continue
        if FROM_A_COMPILER.search(command.line):
            try:
                find_compiler("cc")
            except ToolchainMissing as error:
                missing = error
                continue
        check(command, *run(command.line))
    if missing:
        pytest.skip(f"the other commands work; {missing}")


def check(command: Command, code: int, printed: str) -> None:
    assert code in ((0, 1, 3) if FAILING.search(command.line) else (0,)), f"{command.line}\n{printed}"
    printed = printed.replace(f"{ROOT}/", "")  # the folder links to the checkout, and the pages are read in it
    assert not_printed(command.output, printed) == [], f"{command.line}\n{printed}"


LONG = {"README", "tutorial", "papers"}
"""Pages whose quick commands take half a minute each; the slow test runs these as well."""


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in LONG], ids=lambda page: page.stem)
def test_the_quick_commands_of_a_page_work(
    page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)

    def call(line: str) -> tuple[int, str]:
        words = shlex.split(line, comments=True)
        code = main([*words[words.index("offloadrt") + 1 :], *(["--jobs", "1"] if "explore" in words else [])])
        printed = capfd.readouterr()
        return code, printed.out + printed.err

    run_page(page, MINUTES.search, call)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_all_commands_of_a_page_work_in_a_shell(page: Path, folder: Path) -> None:
    (folder / "bin").mkdir()
    uv = folder / "bin" / "uv"
    uv.write_text('#!/bin/sh\n# Runs `uv run PROGRAM` in the environment of the tests.\nshift\nexec "$@"\n')
    uv.chmod(0o755)
    found = os.pathsep.join([str(uv.parent), str(Path(sys.executable).parent), os.environ["PATH"]])

    def typed(line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=folder,
            env={**os.environ, "PATH": found},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout

    run_page(page, lambda line: False, typed)


def test_what_is_not_run_is_still_there() -> None:
    printed = [command.line for page in PAGES for command in commands(page)]
    assert [part for part in NOT_RUN if not any(part in line for line in printed)] == []


NOT_COMPARED = {
    ("mpi.md", "rank 0 waits on MPI_Send"): "tests/mpi has programs that deadlock, and what is said of each",
    ("extend.md", "[project.entry-points"): "tests/test_plugin_package.py compares it with the package",
    ("extend.md", '"""A command."""'): "tests/test_plugin_package.py compares it with the package",
    ("extend.md", '"""A toy programming model'): "tests/test_plugin_package.py compares it with the package",
    ("why.md", "table, by address"): "a drawing",
    ("pragmas.md", "@kernel"): "pieces of a program; test_documentation.py runs them together",
}
"""Blocks that are neither typed, nor saved and run, nor printed by a command, each with what covers it."""


def test_every_block_of_every_page_is_run_or_compared() -> None:
    typed = " ".join(command.line for page in PAGES for command in commands(page))
    open_blocks, reasons = [], set()
    for page in PAGES:
        saved = [program for name, program in programs(page).items() if name in typed or name == "halo.py"]
        for block in blocks(page, "python", "toml", "text", "console"):
            covered = (
                block in saved
                or "async def test_" in block  # test_readme.py runs these tests
                or page.name == "notebooks.md"  # test_documentation.py runs the page
                or re.search(r"^\$ ", block, re.M)
            )
            reason = next((key for key in NOT_COMPARED if key[0] == page.name and block.startswith(key[1])), None)
            if reason is not None:
                reasons.add(reason)
            elif not covered:
                open_blocks.append(f"{page.name}: {block.partition(chr(10))[0]}")
    assert open_blocks == [] and reasons == NOT_COMPARED.keys()


def test_a_line_that_was_not_printed_in_its_place_is_found() -> None:
    assert not_printed("a  1\n...\nb … 2\n", "a 1\nc\nb x\n y 2\n") == []
    assert not_printed("b\na\n", "a\nb\n") == ["a"]
