"""What a large report costs: `python bench/pages.py [--json] [--check]`.

One scenario with more than 100,000 events (exahype, one A100) is drawn as `offloadrt report` draws it. Printed are the
events, the slices on the page, its size, how long the run and the drawing take, and how long Chromium takes from the
begin of the navigation until the timeline and the flame graph are drawn: the fastest of some openings. `--check` fails
where the page is larger than 5 MB, or opens in more than a second.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PARAMETERS = {"threads": "16", "patches": "72", "memory": "map", "batch": "4"}
LEAST_EVENTS = 100_000
MOST_BYTES = 5_000_000
MOST_S = 1.0
OPENINGS = 5
TIMED = """<script type="module">
const said = document.createElement("pre");
said.id = "opened";
said.textContent = JSON.stringify({ opened: performance.now(), ready: document.body.dataset.ready });
document.body.append(said);
</script>"""


def chromium() -> str | None:
    """Return the browser's path, if one is installed."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def made(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Write the page, and return it with what making it took."""
    from offloadrt.extensions.explaining.questions import reported
    from offloadrt.extensions.explaining.report import report, write_page
    from offloadrt.study import find_scenario
    from offloadrt.study.spec import RunSpec
    from offloadrt.study.sweep import InProcess

    begun = time.perf_counter()
    axes = {name: (value,) for name, value in PARAMETERS.items()}
    runs = reported(
        find_scenario("exahype"), axes, InProcess(), options=RunSpec(), jobs=1, budget_s=0.0, window=None,
        stage=lambda name, done, of: None,
    )  # fmt: skip
    ran = time.perf_counter()
    text = report(runs)
    page = write_page(folder / "page.html", text)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert found is not None
    slices = sum(len(track["begins"]) for track in json.loads(found[1])["runs"][0]["tracks"])
    facts = {"events": len(runs[0].rows), "slices": slices, "bytes": page.stat().st_size}
    return page, {**facts, "run_s": ran - begun, "drawing_s": time.perf_counter() - ran}


def opened(page: Path, browser: str) -> float:
    """Return the seconds until the page is drawn in a browser: from the begin of the navigation, as it counts them."""
    text, _, end = page.read_text(encoding="utf-8").rpartition("</body>")
    timed = page.with_name("timed.html")
    timed.write_text(f"{text}{TIMED}</body>{end}", encoding="utf-8")
    call = [browser, "--headless", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"]
    call += ["--window-size=1400,1000", "--dump-dom", timed.as_uri()]
    if os.geteuid() == 0:
        call.append("--no-sandbox")
    times: list[float] = []
    for _ in range(OPENINGS):
        done = subprocess.run(call, capture_output=True, text=True, timeout=120, check=True)
        said = re.search(r'<pre id="opened">(.*?)</pre>', done.stdout)
        assert said is not None
        record = json.loads(said[1])
        assert record["ready"] == "yes", "the page's own script has ended"
        times.append(record["opened"] / 1e3)
    return min(times)


def main() -> int:
    """Measure, print, and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    browser = chromium()
    if browser is None:
        print("no Chromium is installed", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        page, facts = made(Path(folder))
        facts["opening_s"] = opened(page, browser)
    if asked.json:
        print(json.dumps(facts))
    else:
        print(f"{facts['events']:,} events, {facts['slices']:,} slices on a page of {facts['bytes'] / 1e6:.2f} MB")
        print(f"the run takes {facts['run_s']:.1f} s, the drawing {facts['drawing_s']:.1f} s")
        print(f"opened in {facts['opening_s']:.2f} s")
    wrong = [
        facts["events"] < LEAST_EVENTS and f"fewer than {LEAST_EVENTS:,} events",
        facts["bytes"] > MOST_BYTES and f"larger than {MOST_BYTES:,} bytes",
        facts["opening_s"] > MOST_S and f"opens in more than {MOST_S} s",
    ]
    if asked.check and any(wrong):
        print("; ".join(filter(None, wrong)), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
