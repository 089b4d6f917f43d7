"""A report is one page that holds what the run did; times on it add up."""

from __future__ import annotations

import html
import itertools
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from offloadrt.cli import main
from offloadrt.extensions.explaining.report import (
    Frame,
    Slice,
    Timeline,
    TimelineTrack,
    family,
    flame_of,
    overview,
    own_times,
    threads_of,
    timeline_of,
)
from offloadrt.extensions.explaining.sentence import Observed, observe
from offloadrt.study import find_scenario
from offloadrt.study.spec import RunSpec

SMALL = {"threads": 4, "patches": 8, "batch": 2, "memory": "map"}


@pytest.fixture(scope="module")
def observed() -> Observed:
    return observe(find_scenario("exahype"), find_scenario("exahype").bind(SMALL), RunSpec())


@pytest.fixture(scope="module")
def timeline(observed: Observed) -> Timeline:
    return timeline_of(observed.rows, observed.path, (0, observed.windows[-1][1]))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return dict(json.loads(found[1]))


def test_each_threads_times_add_up_to_the_run(observed: Observed, timeline: Timeline) -> None:
    window = (0, observed.windows[-1][1])
    threads = threads_of(timeline.tracks)
    assert [track.name for track in threads] == [f"host thread {number}" for number in range(4)]
    for track in threads:
        times = own_times(track, window)
        assert sum(times.values()) == window[1]
        assert min(times.values()) >= 0 and len(times) < 30


def test_a_frame_is_as_long_as_the_directives_of_all_threads(timeline: Timeline) -> None:
    threads = threads_of(timeline.tracks)
    root = flame_of(threads)
    assert root.ps == sum(one.ps for track in threads for one in track.slices if one.level == 0)

    def inner_fits(frame: Frame) -> bool:
        within = sum(one.ps for one in frame.inner.values())
        return within <= frame.ps and all(map(inner_fits, frame.inner.values()))

    assert inner_fits(root)


def test_no_more_threads_wait_than_there_are(timeline: Timeline) -> None:
    waiting = [counter for counter in timeline.counters if counter.name.startswith("waiting for")]
    assert waiting and all(min(counter.values) >= 0 and max(counter.values) < 4 for counter in waiting)
    assert all(counter.values[-1] == 0 for counter in waiting)


def test_waits_of_a_thread_do_not_lie_in_one_another(timeline: Timeline) -> None:
    for track in threads_of(timeline.tracks):
        waits = [one for one in track.slices if one.name.startswith("wait for")]
        assert all(a.end_ps <= b.begin_ps for a, b in itertools.pairwise(waits))


def test_the_critical_path_on_the_page_is_as_long_as_the_run(observed: Observed, timeline: Timeline) -> None:
    assert sum(one.ps for one in timeline.tracks[0].slices) == observed.elapsed_ps


def test_teams_that_follow_one_another_share_the_tracks_of_their_threads() -> None:
    path = Path(__file__).parents[2] / "bench" / "programs" / "lulesh-s30.rec"
    run = observe(find_scenario(str(path)), {}, RunSpec())
    window = (0, run.windows[-1][1])
    threads = threads_of(timeline_of(run.rows, run.path, window, run.causal_log).tracks)
    assert [track.name for track in threads] == ["host thread 0", "host thread 1"]
    assert own_times(threads[0], window)["target data begin"] > 0
    assert sum(own_times(threads[0], window).values()) == window[1]


def test_an_overview_covers_what_it_stands_for() -> None:
    slices = [Slice(10 * at, 10 * at + 5, f"s{at}", "") for at in range(1000)]
    slices += [Slice(20_000, 30_000, "long", "")]
    timeline = Timeline()
    timeline.tracks = [TimelineTrack("host", "host thread 0", slices)]
    (track,), short_ps = overview(timeline, most=50)
    assert len(track.slices) <= 50 and short_ps > 5
    assert track.slices[-1].name == "long" and track.slices[0].name == "1000 short slices"
    assert (track.slices[0].begin_ps, track.slices[0].end_ps) == (0, 9995)
    assert overview(timeline, most=2000) == (timeline.tracks, 0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("wait for entry of patch 12", "wait for entry of patch"),
        ("wait for copy 12 (d2h)", "wait for copy (d2h)"),
        ("cuMemAlloc_v2", "cuMemAlloc_v2"),
    ],
)
def test_one_of_many_is_named_by_its_family(name: str, kind: str) -> None:
    assert family(name) == kind


def test_the_command_writes_a_page_of_two_runs_that_needs_no_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(out), "exahype", "threads=2", "patches=4", "memory=map,pool"]) == 0
    page = out.read_text(encoding="utf-8")
    assert not re.search(r"^<(script|link|img)[^>]+(src|href)=", page, re.M), "everything is in the page"
    data = data_of(page)
    assert len(data["timelines"]) == len(data["flames"]) == 2
    assert "memory=map" in page and "memory=pool" in page and "The runs side by side" in page
    assert out.stat().st_size < 5 << 20


def test_a_window_shows_its_part_only(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(out), "exahype", "threads=2", "patches=4", "--window", "100us:200us"]) == 0
    (timeline,) = data_of(out.read_text(encoding="utf-8"))["timelines"]
    assert timeline["window"] == [100_000_000, 200_000_000]
    for track in timeline["tracks"]:
        begin = timeline["window"][0] + sum(track["begins"])
        assert begin + track["lengths"][-1] <= timeline["window"][1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["threads=1,2,4"], "a report compares two runs"),
        (["threads=1,2", "batch=1,2"], "a report compares two runs"),
        (["--window", "5"], "as in 1ms:2.5ms"),
        (["--window", "2ms:1ms"], "as in 1ms:2.5ms"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "report.html"), "exahype", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_page_for_nowhere_names_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "no" / "report.html"), "exahype"]) == 2
    assert "there is no folder" in capsys.readouterr().err


def test_a_report_does_not_overwrite_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "mine.py"
    script.write_text("x = 1\n")
    assert main(["report", str(script), "exahype", "threads=1", "patches=1"]) == 2
    assert f"{script}: a report is a file that ends with .html" in capsys.readouterr().err
    assert script.read_text() == "x = 1\n"


def test_without_its_libraries_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    assert main(["report", str(tmp_path / "report.html"), "exahype", "threads=1", "patches=1"]) == 2
    assert "pip install 'offloadrt[report]'" in capsys.readouterr().err


def chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium is installed")
    return found


LOOK = """
<script type="module">
const wait = () => document.body.dataset.ready ? look() : setTimeout(wait, 20);
function look() {
  const timeline = document.querySelector(".timeline").timeline, said = {};
  const lock = timeline.tracks.find((track) => track.group === "locks" && track.name === "device table");
  said.holder = timeline.described([lock, 0]);
  timeline.canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "+" }));
  said.zoomed = (timeline.to - timeline.from) / (timeline.last - timeline.first);
  timeline.canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
  said.whole = timeline.from === timeline.first && timeline.to === timeline.last;
  timeline.find("cumemfree");
  said.found = timeline.matches.length;
  said.charts = [...document.querySelectorAll(".chart")].every((box) => box.querySelector("svg"));
  said.frames = document.querySelectorAll(".flame .frame").length;
  const at = timeline.x(lock.begins[0] + lock.lengths[0] / 2);
  const box = timeline.canvas.getBoundingClientRect();
  const over = { clientX: box.left + at, clientY: box.top + lock.y + 5, bubbles: true };
  timeline.canvas.dispatchEvent(new PointerEvent("pointermove", over));
  said.hint = document.getElementById("hint").textContent;
  const shown = Object.assign(document.createElement("pre"), { id: "said", textContent: JSON.stringify(said) });
  document.body.append(shown);
}
wait();
</script>
"""


def test_the_page_works_in_a_browser(tmp_path: Path) -> None:
    browser, out = chromium(), tmp_path / "report.html"
    assert main(["report", str(out), "exahype", "threads=4", "patches=8", "batch=2"]) == 0
    page, _, end = out.read_text(encoding="utf-8").rpartition("</body>")
    out.write_text(f"{page}{LOOK}</body>{end}", encoding="utf-8")
    call = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path}/profile",
    ]
    call += ["--virtual-time-budget=20000", "--dump-dom", out.as_uri()]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert [line for line in done.stderr.splitlines() if ":CONSOLE:" in line] == []
    said = json.loads(html.unescape(re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.S)[1]))  # type: ignore[index]
    assert "held by host thread" in said["holder"] and "held by host thread" in said["hint"]
    assert said["zoomed"] == pytest.approx(0.5) and said["whole"]
    assert said["found"] > 0 and said["charts"] and said["frames"] > 10
