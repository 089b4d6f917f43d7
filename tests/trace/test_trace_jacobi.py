"""The tutorial's Jacobi with 8 threads as a Perfetto file: all threads, and all arrows, by two readers."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from perfetto_picture import check, parsed

from offloadrt.cli import main
from offloadrt.extensions.explaining.drawing import FIRST_ARROW

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
SHELL = shutil.which("trace_processor_shell") or shutil.which("trace_processor")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jacobi")
    (program,) = re.findall(r"^```python\n(.*?)^```", TUTORIAL.read_text(encoding="utf-8"), re.M | re.S)
    (folder / "jacobi.py").write_text(program, encoding="utf-8")
    out = folder / "jacobi.pftrace"
    assert main(["run", str(folder / "jacobi.py"), "threads=8", "sweeps=3", "--perfetto", str(out)]) == 0
    return out


def test_all_threads_and_arrows_are_in_the_file(file: Path) -> None:
    picture = parsed(file)
    check(picture)
    threads = [f"host thread {number}" for number in range(8)]
    assert [title for title in picture.titles("host") if title.startswith("host thread")] == threads

    of_directives = [ends for number, ends in picture.arrows.items() if number < FIRST_ARROW]
    assert len(of_directives) == 8 * 3
    for ends in of_directives:
        assert ends[0][0] in threads and ends[0][2] == "target"
        assert [name for _, _, name in ends[1:]] == ["h2d", "h2d", "relax", "d2h", "d2h"]

    waits = Counter(one.name.removeprefix("wait for ") for one in picture.slices if is_lock(one.name))
    taken: Counter[str] = Counter()
    given = [ends for ends in picture.arrows.values() if ends[0][2].startswith("release") and len(ends) == 2]
    for (giver, _, gave), (taker, _, got) in given:
        assert giver in threads and taker in threads and giver != taker
        assert gave.removeprefix("release ") == got.removeprefix("got ")
        taken[got.removeprefix("got ")] += 1
    assert taken == waits and len(waits) >= 3, "an arrow leads to the end of each wait for a lock"


def is_lock(name: str) -> bool:
    return name.startswith("wait for ") and not name.startswith(("wait for copy", "wait for kernel", "wait for stream"))


@pytest.mark.skipif(SHELL is None, reason="Perfetto's trace processor is not installed")
def test_perfettos_own_reader_finds_the_same(file: Path) -> None:
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    picture = parsed(file)
    with TraceProcessor(trace=str(file), config=TraceProcessorConfig(bin_path=SHELL)) as reader:
        threads = [row.name for row in reader.query("select name from thread where name glob 'host thread*'")]
        (slices,) = [row.n for row in reader.query("select count(*) as n from slice where dur > 0")]
        (arrows,) = [row.n for row in reader.query("select count(*) as n from flow")]
    assert sorted(threads) == [f"host thread {number}" for number in range(8)]
    assert slices == sum(one.end > one.begin for one in picture.slices)
    assert arrows > 0
