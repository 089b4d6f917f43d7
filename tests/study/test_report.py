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

import offloadrt
from offloadrt import Run, scenario
from offloadrt import openmp as omp
from offloadrt.cli import main
from offloadrt.extensions.explaining.lines import lines_of, roofline_of, verdicts_of
from offloadrt.extensions.explaining.sentence import Observed, observe
from offloadrt.extensions.explaining.tracks import (
    KINDS,
    Counter,
    Frame,
    Slice,
    Timeline,
    TimelineTrack,
    family,
    flame_of,
    kind_of,
    means_of,
    overview,
    own_times,
    threads_of,
    timeline_of,
)
from offloadrt.study import find_scenario
from offloadrt.study.spec import RunSpec

ALONE = ("--budget", "0s")
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
    assert own_times(threads[0], window)["directive of the program"] > 0
    assert sum(own_times(threads[0], window).values()) == window[1]


def test_an_overview_covers_what_it_stands_for() -> None:
    slices = [Slice(10 * at, 10 * at + 5, "wait for device table" if at % 5 else "cuInit", "") for at in range(1000)]
    slices += [Slice(20_000, 30_000, "long", "")]
    timeline = Timeline()
    timeline.tracks = [TimelineTrack("host", "host thread 0", slices)]
    (track,), short_ps = overview(timeline, most=50)
    assert len(track.slices) <= 50 and short_ps > 5
    assert track.slices[-1].name == "long"
    joined = track.slices[:-1]
    assert sum(int(one.name.split()[0]) for one in joined) == 1000
    assert sum(one.fill * one.ps for one in joined) == pytest.approx(5000)
    assert {kind_of(track, one) for one in joined} == {"waits for a turn"}
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
    assert main(["report", str(out), "exahype", "threads=2", "patches=4", "memory=map,pool", *ALONE]) == 0
    page = out.read_text(encoding="utf-8")
    assert not re.search(r"^<(script|link|img)[^>]+(src|href)=", page, re.M), "everything is in the page"
    data = data_of(page)
    assert [run["name"] for run in data["runs"]] == ["memory=map", "memory=pool"]
    assert page.count('class="flame"') == 2 and page.count('class="timeline"') == 1
    assert "The runs side by side" in page
    assert out.stat().st_size < 5 << 20


def test_the_page_says_at_its_top_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    pages = []
    for name in ("a.html", "b.html"):
        assert main(["report", str(tmp_path / name), "exahype", "threads=2", "patches=4", *ALONE]) == 0
        pages.append((tmp_path / name).read_text(encoding="utf-8"))
    assert pages[0] == pages[1], "a page can be made again"
    head = html.unescape(re.sub("<[^>]+>", " ", pages[0][pages[0].index("<header>") : pages[0].index("</header>")]))
    for words in ("exahype", "threads=2", "alex-a100", "nvhpc", offloadrt.__version__, "1970-01-02", "--budget"):
        assert words in head
    assert "offloadrt run exahype threads=2 patches=4" in head
    assert observe(find_scenario("exahype"), {"threads": 2, "patches": 4}, RunSpec()).result.machine in head


def test_runs_can_be_aligned_by_a_phase_that_the_program_names(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    regions = Path(__file__).parent / "regions.py"
    assert main(["report", str(out), str(regions), "where=device,mapped", *ALONE]) == 0
    device, mapped = data_of(out.read_text(encoding="utf-8"))["runs"]
    assert device["phases"]["scaling"] == device["window"][0] < mapped["phases"]["scaling"]
    for run in (device, mapped):
        (thread,) = [track for track in run["tracks"] if track["group"] == "host"]
        assert "scaling" in [run["texts"][name] for name in thread["names"]]


def test_changes_stand_with_their_intervals_and_curves(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    command = ["report", str(out), "exahype", "threads=2", "patches=4", "--budget", "3s", "--draws", "2"]
    assert main(command) == 0
    page = out.read_text(encoding="utf-8")
    faster = page[page.index('id="faster"') : page.index('id="source"')]
    rows = re.findall(r"<td>([\d.]+)</td>(?:<td>([\d.]+ to [\d.]+)?</td>)?<td><svg", faster)
    gains = [float(gain) for gain, _ in rows]
    assert gains == sorted(gains, reverse=True) and gains[0] > 1
    assert "draws" in page[page.index("<header>") : page.index("</header>")]


def test_a_counters_mean_and_maximum_are_those_of_its_pieces() -> None:
    times = [at * 100 for at in range(10_000)]
    spikes = Counter("device 0", "resident kernels", "count", times, [at % 400 == 0 for at in range(10_000)])
    pieces = means_of(spikes, (0, 1_000_000))
    assert 3_000 < len(pieces) <= 4_001
    ends = [*(begin for begin, _, _ in pieces[1:]), 1_000_000]
    area = sum(mean * (end - begin) for (begin, mean, _), end in zip(pieces, ends, strict=True))
    assert area == pytest.approx(25 * 100)
    assert {most for _, _, most in pieces} == {0, 1}
    few = Counter("device 0", "memory", "bytes", [10, 20, 20, 90], [1, 2, 3, 0])
    assert means_of(few, (15, 80)) == [(15, 1.0, 1), (20, 3.0, 3)]


def test_counters_and_locks_of_ranks_say_whose_they_are(tmp_path: Path) -> None:
    words = ["halo", "ranks=12", "nodes=3", "gpus_per_node=4", "rows=64", "columns=64", "--machine", "a100-node4"]
    assert main(["report", str(tmp_path / "out.html"), *words, "--budget", "0s"]) == 0
    (run,) = data_of((tmp_path / "out.html").read_text(encoding="utf-8"))["runs"]
    in_use = [counter["name"] for counter in run["counters"] if "memory in use" in counter["name"]]
    assert in_use == [f"device {number}: memory in use" for number in range(12)]
    queues = [track["group"] for track in run["tracks"] if track["name"] == "compute units"]
    assert queues == [f"device {number}" for number in range(12)]
    families: dict[str, set[str]] = {}
    for track in run["tracks"]:
        families.setdefault(track["family"], set()).add(track["name"])
    assert families["driver library"] == {"driver library", *(f"driver library of process {n}" for n in range(1, 12))}
    contexts = {f"driver context {number} of process {number}" for number in range(1, 12)}
    assert families["driver context"] == {"driver context", *contexts}
    assert families["rank"] == {f"rank {number}" for number in range(12)}
    assert {name.partition(" (")[0] for name in families["rank sends"]} == {f"rank {n} sends" for n in range(12)}


def test_lines_share_the_critical_path_and_the_bytes_of_the_run(observed: Observed) -> None:
    lines = lines_of(observed)
    assert sum(use.path_ps for use in lines) == sum(part.ps for part in observed.path if part.place)
    assert [use.path_ps for use in lines] == sorted((use.path_ps for use in lines), reverse=True)
    moved = {direction: sum(use.bytes.get(direction, 0) for use in lines) for direction in ("h2d", "d2h")}
    assert moved == {"h2d": observed.result.bytes.h2d, "d2h": observed.result.bytes.d2h}
    for use in lines:
        assert 0 <= use.waits_ps <= use.threads_ps <= SMALL["threads"] * observed.elapsed_ps  # type: ignore[operator]
    assert sum(len(use.kernels) for use in lines) == len(observed.history.kernels)


@scenario
async def given_up(run: Run) -> None:
    """Two threads twice give up a wait of 100 us for an entry or the table, and do nothing for 50 ms in between."""
    run.phantom, shared = True, dict[str, omp.HostArray]()

    async def body(t: omp.HostThread) -> None:
        if not t.number:
            shared["a"] = t.array("a", 1 << 26)
            await t.target_enter_data(omp.map(to=shared["a"]))
        await t.barrier()
        if not t.number:
            await t.target_update(omp.to(shared["a"]))
            await t.target_enter_data(omp.map(to=shared["a"], always=True))
            return
        for _ in range(2):
            with t.sim.move_on_after(100e-6):
                await t.target_enter_data(omp.map(to=shared["a"], always=True))
            await t.sim.sleep(50e-3)

    await run.parallel(body, num_threads=3)


def test_a_wait_that_was_given_up_ends_there_and_is_no_part_of_the_next_one() -> None:
    run = observe(given_up, {}, RunSpec())
    (use,) = [use for use in lines_of(run) if sum(use.directives.values()) == 4]
    assert use.threads_ps == 4 * 100_000_000
    assert 0.9 * use.threads_ps < use.waits_ps <= use.threads_ps, "most of 4 times 100 us, and none of 50 ms"
    assert all(end - begin <= 100_000_000 for _, begin, end in run.history.waits)


def test_lines_of_a_cuda_program_are_those_of_its_calls() -> None:
    """It has no directives: calls of the driver, copies and kernels belong to the line that asked for them."""
    planted = Path(__file__).with_name("planted.py")
    text = planted.read_text().splitlines()
    run = observe(find_scenario(f"{planted}:pageable_copies"), {}, RunSpec())
    uses = {text[int(use.place.partition(":")[2]) - 1].strip(): use for use in lines_of(run)}
    copy, faults = uses["await t.memcpy(there, source)"], uses["await run.parallel(body, threads)"]
    assert copy.directives == {"cuMemcpyHtoDAsync": 6, "cuStreamSynchronize": 6} and copy.bytes == {
        "h2d": 6 * 16 * (1 << 17) * 8
    }
    assert copy.path_ps > 0.9 * sum(use.path_ps for use in uses.values())
    one, other = (run.result.calls[name] for name in ("cuMemcpyHtoDAsync", "cuStreamSynchronize"))
    assert one.total_s <= copy.threads_ps * 1e-12 <= one.total_s + other.total_s  # the last one is the team's own
    assert set(faults.directives) == {"cuStreamCreate"}
    slices = timeline_of(run.rows, run.path, (0, run.windows[-1][1]), run.causal_log).tracks
    at = {one.notes.partition("at: ")[2].partition(",")[0] for track in slices for one in track.slices if one.level < 2}
    assert copy.place in at


def test_a_line_of_the_standard_library_is_no_line_of_the_program() -> None:
    run = observe(find_scenario("stdpar_babelstream"), {"steps": 1}, RunSpec())
    files = {use.place.partition(":")[0] for use in lines_of(run)}
    assert files and files.isdisjoint({"contextlib.py", "_run.py"})


def test_no_kernel_is_above_its_roofline(observed: Observed) -> None:
    roofline = roofline_of(observed)
    assert roofline is not None and roofline.kernels
    for kernel in roofline.kernels:
        assert 0 < roofline.reached(kernel) <= 1.001
        assert kernel.flops / kernel.seconds <= kernel.intensity * roofline.bandwidth * 1.001


def test_a_verdict_is_what_the_three_runs_say() -> None:
    """A region with its transfers, the same on the host, and with the data mapped before."""

    def run(**given: Any) -> Observed:
        return observe(find_scenario(f"{Path(__file__).parent / 'regions.py'}"), given, RunSpec())

    as_it_is = run(where="device")
    (verdict,) = [one for one in verdicts_of(as_it_is, lines_of(as_it_is)) if one.runs == 4]
    on_host = run(where="host").result.where_time_went["compute"].total_s  # besides, it touches the array first
    mapped = run(where="mapped")
    (kept,) = [one for one in verdicts_of(mapped, lines_of(mapped)) if one.runs == 4]
    assert verdict.host_s == pytest.approx(on_host, rel=1e-3)
    assert verdict.mapped_s == pytest.approx(kept.mapped_s, rel=0.05)
    assert verdict.mapped_s < kept.as_run_s < verdict.as_run_s


def test_a_window_shows_its_part_only(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(out), "exahype", "threads=2", "patches=4", "--window", "100us:200us", *ALONE]) == 0
    (timeline,) = data_of(out.read_text(encoding="utf-8"))["runs"]
    assert timeline["window"] == [100_000_000, 200_000_000]
    for track in timeline["tracks"]:
        begin = timeline["window"][0] + sum(track["begins"])
        assert begin + track["lengths"][-1] <= timeline["window"][1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["threads=1,2,3,4,5"], "a report shows at most 4 runs"),
        (["threads=1,2", "batch=1,2"], "a report compares the values of one parameter"),
        (["--source", "/nosuch"], "--source /nosuch: there is no such folder"),
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


def chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("no Chromium is installed")
    return found


def looked_at(page: Path, wide: int) -> dict[str, Any]:
    """Open a page in a browser, look at it as a reader does, and return what there was."""
    text, _, end = page.read_text(encoding="utf-8").rpartition("</body>")
    seen = page.with_name(f"seen-{wide}.html")
    look = Path(__file__).with_name("look.js").read_text(encoding="utf-8")
    seen.write_text(f'{text}<script type="module">{look}</script></body>{end}', encoding="utf-8")
    call = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    call += [f"--user-data-dir={page.parent}/profile", f"--window-size={wide},1000"]
    call += ["--virtual-time-budget=20000", "--dump-dom", seen.as_uri()]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    assert [line for line in done.stderr.splitlines() if ":CONSOLE:" in line] == []
    said = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.S)
    assert said is not None
    return dict(json.loads(html.unescape(said[1])))


def test_the_page_works_in_a_browser(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(out), "exahype", "threads=64", "patches=2", "batch=2", *ALONE]) == 0
    said = looked_at(out, 1400)
    assert "held by host thread" in said["holder"] and "held by host thread" in said["hint"]
    assert said["zoomed"] == pytest.approx(0.5) and said["whole"]
    assert said["found"] > 0 and said["frames"] > 10
    assert said["folded"] and said["unfolds"] > 3 and "of 64" in said["ofThreads"]
    assert max(said["lowest"]) < 800, "the locks are in sight below 64 threads"
    units = {tick.split()[1] for tick in said["ticks"] if tick != "0"}
    assert len(units) == 1, "an axis has one unit"
    assert said["marked"] > 0 and {"host", "critical path"} <= {*said["kindsMarked"]}
    assert said["colours"] == said["kinds"] and {*said["legend"]} <= {*KINDS}
    assert said["overflow"] <= 0


@pytest.mark.slow
def test_the_page_prints_to_pdf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chromium()
    out = tmp_path / "report.html"
    assert main(["report", str(out), "exahype", "threads=2,4", "patches=4", "--pdf", *ALONE]) == 0
    printed = out.with_suffix(".pdf")
    assert capsys.readouterr().out.split() == [str(out), str(printed)]
    pages = re.findall(rb"/Type\s*/Page\b", printed.read_bytes())
    assert printed.read_bytes().startswith(b"%PDF") and 2 <= len(pages) <= 8
    (box,) = {*re.findall(rb"/MediaBox\s*\[([^]]*)\]", printed.read_bytes())}
    _, _, wide, high = map(float, box.split())
    assert wide > high, "landscape"


@pytest.mark.slow
def test_a_page_of_100_000_events_opens_within_a_second() -> None:
    chromium()
    bench = Path(__file__).parents[2] / "bench" / "pages.py"
    done = subprocess.run([sys.executable, bench, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_where_no_browser_is_installed_it_is_said_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["report", str(tmp_path / "report.html"), "exahype", "--pdf"]) == 2
    assert "--pdf needs Chromium or Chrome" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_the_page_fits_a_small_screen(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert main(["report", str(out), "exahype", "threads=2,4", "patches=4", *ALONE]) == 0
    # A window of Chromium is at least 500 wide: a frame of 400 in it is a small screen.
    text = html.escape(out.read_text(encoding="utf-8"), quote=True)
    asks = "document.querySelector('pre').textContent = String(this.contentDocument.documentElement.scrollWidth)"
    small = f'<iframe style="width: 400px; height: 4000px; border: 0" onload="{asks}" srcdoc="{text}"></iframe>'
    (tmp_path / "frame.html").write_text(f"<pre></pre>{small}", encoding="utf-8")
    call = [chromium(), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile"]
    call += ["--virtual-time-budget=20000", "--dump-dom", (tmp_path / "frame.html").as_uri()]
    done = subprocess.run(call, capture_output=True, text=True, timeout=120)
    found = re.match(r".*?<pre>(\d+)</pre>", done.stdout, re.S)
    assert found is not None and int(found[1]) <= 400
