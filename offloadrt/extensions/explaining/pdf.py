"""Prints a report's page to a PDF file with an installed browser, since no library can draw such a page."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from offloadrt.study.errors import UserError, writing

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
"""The browsers' commands that are tried, in this order; all of them print in the same way."""
_PATIENCE_S = 120.0


def browser() -> str:
    """Return the path of the first installed browser. Raises UserError if none is installed."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        raise UserError(
            f"--pdf needs Chromium or Chrome, and none of {', '.join(BROWSERS)} is installed; leave --pdf out, open "
            "the page in another browser and print it there"
        )
    return found


def print_page(page: Path, out: Path) -> Path:
    """Print a page, with its timeline, to a PDF file of A4, landscape; return its path.

    out: the PDF file. Raises UserError if no browser is installed, if the browser fails, and if the file cannot be
    written.
    """
    with writing(out) as part, tempfile.TemporaryDirectory(prefix="offloadrt-print-") as profile:
        call = [browser(), "--headless", "--disable-gpu", f"--user-data-dir={profile}", "--no-pdf-header-footer"]
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            call.append("--no-sandbox")  # Chromium refuses to sandbox what root runs
        call += ["--virtual-time-budget=10000", f"--print-to-pdf={part.resolve()}", page.resolve().as_uri()]
        try:
            done = subprocess.run(call, capture_output=True, text=True, timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise UserError(f"{out}: the browser did not print within {_PATIENCE_S:.0f} s") from None
        if done.returncode or not part.is_file() or not part.stat().st_size:
            why = next(iter(reversed(done.stderr.strip().splitlines())), f"it ended with {done.returncode}")
            raise UserError(f"{out}: the browser could not print the page: {why}")
    return out
