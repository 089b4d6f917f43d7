"""What the commands answer to mistakes: each is made, and its answer is written beside it.

    python -m bench.answers [--only WORD] [--out bench/answers.txt]

A mistake is a command line, or a script of a few lines that is run. An answer is the exit code and what stands on
standard error, or the first line of what is printed where nothing is said. A traceback of the emulator's own, and an
answer that takes longer than `_LIMIT_S` seconds, are faults; they are counted at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import signal
import sys
import tempfile
import textwrap
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

_LIMIT_S = 20
HERE = Path(__file__).parent

_HEAD = """
from offloadrt import Run, cuda, kernel, openmp as omp, scenario

@kernel(flops_per_iteration=1)
def k(a):
    a *= 2.0

@kernel(flops_per_iteration=1)
def bad(a):
    a += undefined

@scenario
async def mine(run: Run):
    """


class TooLong(BaseException):
    """An answer took longer than it may."""


_FILES = {
    "script.py": (_HEAD + "pass\n").encode(),
    "mine.py": b"kernel = 3\n",
    "notes.txt": b"my notes\n",
    "notes.html": b"my notes\n",
    "empty.py": b"",
    "broken.py": b"def (:\n",
    "exits.py": b"raise SystemExit(7)\n",
    "interrupts.py": b"raise KeyboardInterrupt\n",
    "imports.py": b"import a_package_that_there_is_not\n",
    "cut.toml": b'name = "mine"\n[entry."mem.bw"]\nvalue = \n',
    "empty.toml": b"",
    "app.c": b"int main(void) { return 0; }\n",
    "app.f90": b"end\n",
    "app.rec": b"",
    "cut.rec": b"PK\x03\x04cut",
    "cut.jsonl": b'{"event": "LockWait", "time_ns": 1',
    "a.sqlite": b"SQLite format 3\x00",
}
"""Files that the command lines name."""


def _files() -> None:
    """Write them into the current folder."""
    for name, content in _FILES.items():
        Path(name).write_bytes(content)


def mistakes() -> Iterator[tuple[str, list[str]]]:
    """Give each mistake's name and command line."""
    table = tomllib.loads((HERE / "answers.toml").read_text(encoding="utf-8"))
    for line in table["lines"].strip().splitlines():
        yield f"offloadrt {line}", shlex.split(line)
    for number, (name, text) in enumerate(table["scripts"].items()):
        path = Path(f"mistake{number}.py")
        path.write_text(_HEAD + textwrap.indent(text, "    ").lstrip() + "\n")
        yield f"a script: {name}", ["run", str(path), "--draws", "0"]


def answer(words: list[str]) -> tuple[str, str]:
    """Return the exit code, as a text, and what is said."""
    from offloadrt.cli import main

    def ring(*_: object) -> None:
        raise TooLong

    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    signal.signal(signal.SIGALRM, ring)
    signal.alarm(_LIMIT_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = str(main(words))
    except SystemExit as ended:
        code = str(ended.code)
    except TooLong:
        code = "TOO LONG"
    except BaseException as error:  # it is what is looked for
        code = f"RAISED {type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    out.flush()
    printed = out.buffer.getvalue().decode()
    said = err.getvalue().strip() or "printed: " + (printed.strip().splitlines() or [""])[0]
    return code, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="make only mistakes with this regular expression in their name")
    parser.add_argument("--out", type=Path, default=HERE / "answers.txt")
    given = parser.parse_args()
    out = given.out.resolve()
    lines, faults, count = [], [], 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _files()
        for name, words in mistakes():
            if not re.search(given.only, name):
                continue
            count += 1
            code, said = answer(words)
            said = re.sub(r"/[^ :]*/(?=mistake\d+\.py)", "", said.replace(os.path.realpath(folder), "."))
            is_own = "Traceback" in said and "offloadrt/" in said
            if code.startswith(("RAISED", "TOO LONG")) or is_own:
                faults.append(name)
            shown = said if len(said) <= 600 else said[:600] + " ..."
            lines.append(f"{name}\n{textwrap.indent(f'[{code}] {shown}', '    ')}\n")
            print(f"{count}: {name} -> {code}", file=sys.stderr, flush=True)
    told = f"{count} mistakes, {len(faults)} without an answer{': ' if faults else ''}{'; '.join(faults)}"
    if given.only:
        print("\n".join(lines), told, sep="\n")
    else:
        out.write_text("\n".join([*lines, told, ""]), encoding="utf-8")


if __name__ == "__main__":
    main()
