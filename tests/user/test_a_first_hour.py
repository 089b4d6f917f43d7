"""A user's first hour with a C program: compile, record, look, run elsewhere, ask why, check, and send a report."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 4096;
  double *now = malloc(n * sizeof *now), *next = malloc(n * sizeof *next);
  for (int i = 0; i < n; ++i)
    now[i] = next[i] = i == n / 2;
  for (int step = 0; step < 10; ++step) {
#pragma omp target teams distribute parallel for map(to : now[0 : n]) map(tofrom : next[0 : n])
    for (int i = 1; i < n - 1; ++i)
      next[i] = now[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1]);
    double *swap = now;
    now = next;
    next = swap;
  }
  double sum = 0;
  for (int i = 0; i < n; ++i)
    sum += now[i];
  printf("sum %g\\n", sum);
  return 0;
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("clang-22") is None, reason="needs clang 22")
def test_a_c_program_is_recorded_run_explained_and_reported(tmp_path: Path) -> None:
    (tmp_path / "heat.c").write_text(PROGRAM)

    def offloadrt(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "offloadrt", *words], cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return " ".join(done.stdout.split())

    offloadrt("cc", "-g", "-O2", "-fopenmp", "heat.c", "-o", "heat")
    assert "sum 1" in offloadrt("record", "-o", "heat.rec", "./heat", "65536")
    # Two arrays of 512 KiB are mapped ten times: each step allocates and copies both, and brings one back.
    assert "20 alloc, 20 h2d, 10 d2h, 20 delete, 10 submit" in offloadrt("show", "heat.rec")
    assert "operations_equal 10" in offloadrt("run", "heat.rec", "--machine", "h100")
    why = offloadrt("why", "heat.rec", "--machine", "h100", "--budget", "3s")
    assert why.startswith("Calls of the driver limit this run") and "heat.c:11" in why
    # `next` comes back and goes in again at each step: no mistake, but waste.
    assert "Keep next mapped around all of it" in offloadrt("check", "heat.rec")
    offloadrt("report", "heat.html", "heat.rec", "--machine", "h100", "--budget", "3s")
    page = (tmp_path / "heat.html").read_text(encoding="utf-8")
    assert "for (int i = 1; i &lt; n - 1; ++i)" in page and "heat.c" in page
