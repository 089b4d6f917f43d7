"""The sources of bench/hardware write the rows that `calibrate` reads, and one command builds and runs them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from offloadrt.extensions.calibration import benchmark_entries
from offloadrt.extensions.calibration.calibration import calibrate
from offloadrt.machine import load

HARDWARE = Path(__file__).parents[2] / "bench" / "hardware"
MEASURE = [sys.executable, str(HARDWARE / "measure.py")]
SOURCES = "".join(path.read_text() for path in sorted(HARDWARE.glob("*.cu")))
NAMES = {
    *benchmark_entries._SINGLE, *((what, "idle") for what in benchmark_entries._PINNING), *benchmark_entries._RATES,
    ("dma", "in_a_row"), ("malloc", "idle"), ("free", "idle"), ("first_touch", "gpu_new_2m"),
}  # fmt: skip


def test_every_row_that_is_an_entry_is_written_by_a_program():
    """A name stands in the sources as it is, or as two literals that are put together."""
    literals = set(re.findall(r'"([^"\n]*)"', SOURCES))
    whole = {first + second for first in literals for second in literals}
    assert [name for name in sorted(NAMES) if not whole.issuperset(name)] == []


def test_all_entries_that_rows_are_for_exist():
    known = {key for base in ("alex-a100", "mi300a") for key in load(base).entries}
    assert set(benchmark_entries.MEASURED) <= known


FAKE_COMPILER = """#!/bin/sh
for last; do :; done
cat > "$last" <<'END'
#!/bin/sh
case "$0" in
*launches) echo '{"what": "machine", "name": "none", "sms": 108, "memory": 80000000000}'
  echo '{"what": "launch", "variant": "call", "size": 0, "threads": 1, "n": 9,' \\
    '"p10_s": 1e-6, "median_s": 2e-6, "p90_s": 3e-6}' ;;
*offload) echo '{"what": "offload", "threads": '$2'}' ;;
*locks) echo no GPU >&2; exit 1 ;;
esac
END
chmod +x "$last"
"""


def test_one_command_builds_runs_and_writes_what_calibrate_reads(tmp_path):
    compiler = tmp_path / "nvcc"
    compiler.write_text(FAKE_COMPILER)
    compiler.chmod(0o755)
    command = [*MEASURE, str(tmp_path / "out"), "--compiler", str(compiler), "--only", "launches", "locks", "offload"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "no GPU\nmeasure.py: locks  ended with 1\n")
    (entry,) = calibrate([tmp_path / "out" / "benchmarks.jsonl"], load("alex-a100")).entries
    assert (entry.base.key, entry.measurement.value, entry.measurement.count) == ("driver.launch", 2e-6, 9)
    rows = [json.loads(line) for line in (tmp_path / "out" / "offload.jsonl").read_text().splitlines()]
    assert {row["threads"] for row in rows} == {1, 2, 4, 8, 16, 32, 64}


def test_a_compiler_that_is_not_here_is_named(tmp_path):
    done = subprocess.run([*MEASURE, str(tmp_path), "--compiler", "nocc"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "measure.py: nocc is not here\n")


def test_what_was_measured_stands_beside_what_is_predicted(tmp_path):
    sizes = {"patches": 4, "patch_bytes": 4096, "volumes": 16, "flops": 10}
    rows = [
        {"what": "offload", "mode": "pool", "threads": threads, "batch": 2, "median_s": seconds, **sizes}
        for threads, seconds in ((1, 1e-4), (1, 3e-4), (1, 2e-4), (2, 1.0))
    ]
    (tmp_path / "offload.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    command = [sys.executable, str(HARDWARE / "predict.py"), str(tmp_path), "--machine", "h200-vm"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    one, two = re.findall(r"pool 4096 2 (\d) +([\d.]+) ms +([\d.]+) ms +([\d.]+)", printed)
    assert (one[:2], two[:2]) == (("1", "0.200"), ("2", "1000.000"))
    assert float(one[3]) == pytest.approx(float(one[2]) / 0.2, rel=0.05)
    assert "all: 2 rows" in printed


@pytest.mark.slow
def test_all_programs_compile_as_cuda(tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not here")
    subprocess.run([*MEASURE, str(tmp_path), "--arch", "sm_90", "--compile-only"], check=True)
