"""Finding scenarios: by name, by path, several in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from offloadrt.study import ScenarioNotFound, ScriptFailed, find_scenario
from offloadrt.study.errors import ScenarioRefused
from offloadrt.study.scripts.registry import load, reference, shipped

TOYS = Path(__file__).with_name("toys.py")


def test_a_file_may_hold_several() -> None:
    assert list(load(TOYS)) == ["queueing", "picky", "drawn"]
    assert find_scenario(f"{TOYS}:picky").summary == "Refuses equal parameters, and raises when told to."
    with pytest.raises(ScenarioNotFound, match=r"holds several scenarios; write one of .*toys\.py:queueing"):
        find_scenario(str(TOYS))


def test_a_reference_finds_it_again() -> None:
    found = find_scenario(f"{TOYS}:drawn")
    assert find_scenario(reference(found)) is found


def test_description_ends_before_the_parameters() -> None:
    found = find_scenario(f"{TOYS}:queueing")
    assert found.description == (
        "Threads that queue at one lock.\n\nThe elapsed time is threads times hold_s; nothing else takes time."
    )
    assert found.parameters["hold_s"].help == "seconds that each holds it, once"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("absent.py", None, "cannot be read: No such file"),
        ("empty.py", "", "holds no scenario"),
        ("binary.py", b"\xff\xfe\x00", "is no Python script"),
        ("toys.txt/", None, "cannot be read"),
    ],
)
def test_what_is_no_script_is_said(tmp_path: Path, name: str, text: str | bytes | None, message: str) -> None:
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ScenarioNotFound, match=message):
        find_scenario(str(path))


def test_a_wrong_name_in_a_file_offers_the_near_ones() -> None:
    with pytest.raises(ScenarioNotFound, match=r"holds no scenario pickey; did you mean picky\?"):
        find_scenario(f"{TOYS}:pickey")


def test_a_wrong_name_offers_the_near_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("offloadrt.study.scripts.listing.folder", lambda: tmp_path)
    (tmp_path / "queueing.py").write_text(TOYS.read_text())
    assert list(shipped()) == ["queueing", "picky", "drawn"]
    assert find_scenario("picky").path == (tmp_path / "queueing.py").resolve()
    with pytest.raises(ScenarioNotFound, match=r"no scenario is called queing; did you mean queueing\?"):
        find_scenario("queing")


def test_a_script_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_the_script.py").write_text("SUMMARY = 'from the neighbour'\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import neighbour_of_the_script\nfrom offloadrt import scenario\n\n"
        "@scenario\nasync def mine(run):\n    pass\n\nmine.function.__doc__ = neighbour_of_the_script.SUMMARY\n"
    )
    assert find_scenario(str(script)).summary == "from the neighbour"


@pytest.mark.parametrize(
    ("text", "line", "last"),
    [
        ("x = 1\ny = 1 / 0\n", "line 2", "ZeroDivisionError: division by zero"),
        ("def f(:\n", "line 1", "SyntaxError"),
    ],
)
def test_a_script_that_raises_shows_its_own_traceback(tmp_path: Path, text: str, line: str, last: str) -> None:
    script = tmp_path / "bad.py"
    script.write_text(text)
    with pytest.raises(ScriptFailed) as caught:
        find_scenario(str(script))
    shown = str(caught.value)
    assert str(script) in shown and line in shown and last in shown.splitlines()[-1]
    assert "offloadrt/study" not in shown and "importlib" not in shown


def test_a_function_that_is_no_scenario_is_said_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "bad.py"
    script.write_text("from offloadrt import scenario\n@scenario\nasync def f(run, a): ...\n")
    with pytest.raises(ScenarioRefused) as caught:
        find_scenario(str(script))
    assert str(caught.value) == f"{script}:2: scenario f: parameter a has no type"
