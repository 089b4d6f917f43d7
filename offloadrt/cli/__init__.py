"""The command line: `offloadrt list | show | run | sweep | compare | stats | kernels | calibrate | record | …`.

`main` turns what went wrong into one message and an exit code (`exit_codes.py`); a script that raised shows its own
traceback, without ours. Open `app.py` first: the commands of the core are there and in `running.py`, one function
each; what they print is made in `render.py`. The others are entry points, each in the `command.py` of what it runs.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

from offloadrt.cli.exit_codes import INTERRUPTED, PROGRAM_FAILED, WRONG_USE

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Errors of a disk or stream that cannot be written."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command that `tokens` (by default the process's arguments) spell, and return the exit code."""
    from cyclopts import CycloptsError

    from offloadrt.cli import running as running  # its commands
    from offloadrt.cli.app import add_commands
    from offloadrt.study.errors import ScriptFailed, UnknownParameter, UserError

    tokens = sys.argv[1:] if tokens is None else tokens
    try:
        tokens = add_commands(tokens)
        code = _run(tokens)
        sys.stdout.flush()
    except CycloptsError as error:
        from offloadrt.cli.meaning import said_of

        return _complain(said_of(tokens, error))
    except UnknownParameter as error:
        from offloadrt.cli.meaning import as_option

        return _complain(f"{error}{as_option(tokens, error)}")
    except UserError as error:
        return _complain(str(error))
    except ScriptFailed as error:
        print(error, file=sys.stderr)
        return PROGRAM_FAILED
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


def _run(tokens: list[str]) -> Any:
    """Run the command; what is a parameter of its scenario and was written as an option is read as it was meant."""
    from cyclopts import UnknownOptionError

    from offloadrt.cli.app import app

    while True:
        try:
            return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        except UnknownOptionError as error:
            from offloadrt.cli.meaning import as_meant

            tokens = as_meant(tokens, error)  # each time one option less


def _complain(message: str) -> int:
    print(f"offloadrt: {message}", file=sys.stderr)
    return WRONG_USE
