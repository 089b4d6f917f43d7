"""The command line: `offloadrt list | show | run | sweep | compare | stats | kernels | calibrate | record | …`.

`main` turns what went wrong into one message and an exit code: 2 for what the user asked wrongly and for a script
that raised (its own traceback is shown, without ours), 1 when a check found differences, 130 when interrupted. Open
`app.py` first: the commands are there, in `running.py`, `check.py` and `record.py` (with the compilers `cc`, `cxx` and
`fc`), one function each; what they print is made in `render.py`.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

WRONG_USE = 2
INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Errors of a disk or stream that cannot be written."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command that `tokens` (by default the process's arguments) spell, and return the exit code."""
    from cyclopts import CycloptsError

    from offloadrt.cli import check  # noqa: F401  # adds its command
    from offloadrt.cli.record import program_apart
    from offloadrt.cli.running import app
    from offloadrt.study.errors import ScriptFailed, UserError

    tokens = program_apart(sys.argv[1:] if tokens is None else tokens)
    try:
        code = app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(f"{' '.join(str(error).split())}\nTry offloadrt --help.")
    except UserError as error:
        return _complain(str(error))
    except ScriptFailed as error:
        print(error, file=sys.stderr)
        return WRONG_USE
    except KeyboardInterrupt as error:
        print(str(error) or "interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        what = "cannot be written: " if error.errno in _FULL else ""
        return _complain(f"{error.filename or 'standard output'}: {what}{error.strerror or error}")
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    print(f"offloadrt: {message}", file=sys.stderr)
    return WRONG_USE
