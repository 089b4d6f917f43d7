"""A still picture of a run: which tracks it has, what its colours mean, and what cannot be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

import offloadrt as rt
from offloadrt.cli import main
from offloadrt.extensions.explaining.tracks import KINDS, Slice, TimelineTrack, kind_of
from offloadrt.study import UserError


def tracks_of(figure: object) -> list[str]:
    (area,) = figure.axes  # type: ignore[attr-defined]
    return [label.get_text() for label in area.get_yticklabels()]


def kinds_of(figure: object) -> set[str]:
    (legend,) = figure.legends  # type: ignore[attr-defined]
    return {text.get_text() for text in legend.get_texts()}


@pytest.fixture(scope="module")
def overlap() -> object:
    return rt.timeline("overlap", threads=2)


def test_threads_engines_and_locks_have_a_track_each_below_the_critical_path(overlap: object) -> None:
    tracks = tracks_of(overlap)
    assert tracks[:3] == ["critical path", "host thread 0", "host thread 1"]
    assert {"compute units", "copy engine h2d", "copy engine d2h", "device table"} <= {*tracks}


def test_the_legend_names_what_is_drawn_and_nothing_else(overlap: object) -> None:
    assert {"kernel", "copy to the device", "copy to the host", "waits for a turn", "holds the lock"} <= kinds_of(
        overlap
    )
    assert "page faults" not in kinds_of(overlap) and "page faults" in kinds_of(
        rt.timeline("touch_pages", nbytes="2MiB")
    )


def test_a_window_and_names_choose_what_is_drawn() -> None:
    figure = rt.timeline("overlap", threads=3, window_s=(0.0, 1e-3), tracks=["host thread [12]", "device table"])
    assert tracks_of(figure) == ["host thread 1", "host thread 2", "device table"]
    assert figure.axes[0].get_xlim() == pytest.approx((0.0, 1.0))
    assert figure.axes[0].get_xlabel() == "virtual time (ms)"


@pytest.mark.parametrize(
    ("group", "track", "name", "kind"),
    [
        ("host", "host thread 0", "wait for device table", "waits for a turn"),
        ("host", "host thread 0", "wait for stream pool", "waits for a turn"),
        ("host", "host thread 0", "wait for entry of a", "waits for a turn"),
        ("host", "host thread 0", "wait for kernel 1 (touch)", "waits for the device"),
        ("host", "host thread 0", "wait for copy 12 (d2h)", "waits for the device"),
        ("host", "host thread 0", "cuMemcpyHtoDAsync", "call of the driver"),
        ("host", "host thread 0", "target enter data", "directive of the program"),
        ("device 0", "compute units", "scale", "kernel"),
        ("device 0", "page faults", "page fault (2560 pages)", "page faults"),
        ("locks", "device table", "host thread 3", "holds the lock"),
        ("critical path", "critical path", "driver", "call of the driver"),
        ("critical path", "critical path", "driver context", "waits for a turn"),
        ("critical path", "critical path", "device 0 copy engine d2h", "copy to the host"),
    ],
)
def test_one_colour_means_one_kind_of_work(group: str, track: str, name: str, kind: str) -> None:
    assert kind_of(TimelineTrack(group, track), Slice(0, 1, name, "")) == kind
    assert len({*KINDS.values()}) == len(KINDS)


def test_a_picture_is_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        assert main(["timeline", str(tmp_path / name), "overlap", "threads=2"]) == 0
    first, second = ((tmp_path / name).read_text(encoding="utf-8") for name in ("a.svg", "b.svg"))
    assert first == second and "<!-- host thread 1 -->" in first


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"window_s": (5.0, 6.0)}, "nothing happened from 5 s to 6 s of virtual time"),
        ({"tracks": ["gpu*"]}, r"--track gpu\*: no track has such a name; there are critical path, host thread 0"),
        ({"thread": 2}, "did you mean threads"),
    ],
)
def test_what_shows_nothing_is_refused(keywords: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        rt.timeline("overlap", **keywords)


def test_a_file_of_another_kind_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["timeline", str(tmp_path / "overlap.gif"), "overlap"]) == 2
    assert "a figure is a file that ends with .png, .svg, .pdf" in capsys.readouterr().err


def test_a_report_of_a_window_in_which_nothing_happened_is_refused(tmp_path: Path, capsys) -> None:
    toy = f"{Path(__file__).with_name('toys.py')}:queueing"
    asked = ["report", str(tmp_path / "a.html"), toy, "--budget", "0s", "--window"]
    assert main([*asked, "5s:6s"]) == 2
    error = capsys.readouterr().err
    assert "offloadrt: nothing happened from 5 s to 6 s of virtual time: the run ended at 1 s" in error
    assert not (tmp_path / "a.html").exists()
    assert main([*asked, "0s:1ms"]) == 0
