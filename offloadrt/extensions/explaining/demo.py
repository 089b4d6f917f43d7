"""The command `demo`: a tour of one minute through `run`, `why`, `compare` and `report`."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

_TOUR = {
    "run overlap threads=8 n=65536 --draws 0": """
        Eight host threads map an array each, run a kernel on an A100, and take the array back. There is no A100 here:
        the machine is a table of costs, and time is virtual. What did the threads do all the time?""",
    "why overlap threads=8 n=65536 --budget 8s --draws 0": """
        The tables above add up what all threads did. What limits the run is what its end had to wait for. And each
        change that could help is tried by a run of its own:""",
    "compare overlap threads=8 n=65536 configuration=copy,managed --draws 0": """
        So try one: the same program with maps that copy, and in managed memory, beside one another:""",
    "report {folder}/demo.html overlap threads=1,8 n=65536 --budget 12s": """
        At last a page for a colleague, with a timeline of two runs, one of a single thread and one of eight:""",
}


def demo() -> int:
    """Show in a minute what `run`, `why`, `compare` and `report` say of a small program.

    After each command it waits until return is pressed; where nobody can press it, it goes on by itself.
    """
    folder = tempfile.mkdtemp(prefix="offloadrt-demo-")
    asked = sys.stdin is not None and sys.stdin.isatty()
    for number, (command, text) in enumerate(_TOUR.items(), 1):
        line = command.format(folder=shlex.quote(folder))
        said = textwrap.fill(f"{number} of {len(_TOUR)}. {' '.join(text.split())}", 100)
        print(f"\n{said}\n\n$ offloadrt {line}\n", flush=True)
        if asked:
            try:
                input("(return: run it; Ctrl-D: end) ")
            except EOFError:
                print()
                return 0
        if code := subprocess.run([sys.executable, "-m", "offloadrt", *shlex.split(line)]).returncode:
            return code
    print(
        f"\nOpen {Path(folder) / 'demo.html'} in a browser. The program is scenarios/overlap.py of the package "
        "(`offloadrt show overlap`). Next: a program of your own, in Python or recorded from C, C++ or Fortran; "
        "docs/tutorial.md begins there."
    )
    return 0
