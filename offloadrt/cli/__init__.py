"""The command line: `offloadrt list | show | run | sweep | compare | stats | kernels | calibrate | record | …`.

`main` turns an error into one message and an exit code (`terminal.py`); for a script that raised, it prints the
script's own traceback, without the emulator's frames. Open `app.py` first: the core's commands are there and in
`running.py`, one function each, and `render.py` makes what they print. Other commands are extensions' entry points.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import errno
import gc
import io
import itertools
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from offloadrt.cli.terminal import INTERRUPTED, PROGRAM_FAILED, WRONG_USE

if TYPE_CHECKING:
    from cyclopts import CycloptsError, UnknownOptionError

    from offloadrt.study.errors import UnknownParameter
    from offloadrt.study.scripts.definition import Scenario

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)
"""Numbers of operating-system errors that mean that a file or a stream cannot be written."""


WHOLE = ("--seed", "--repeat", "--jobs", "--draws", "--sobol", "--runs", "--samples", "--ranks")
"""Options that take whole numbers; a fraction is refused, which cyclopts would round."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command that `tokens` (by default the process's arguments) spell, and return the exit code."""
    atexit.register(gc.freeze)  # Python's end then looks for no cycles in what was loaded: a fifth of a short command
    try:
        return _answered(tokens)
    except KeyboardInterrupt as error:
        print(str(error) or "interrupted", file=sys.stderr)
        return INTERRUPTED


def _answered(tokens: Sequence[str] | None) -> int:
    from cyclopts import CycloptsError

    from offloadrt.cli import running as running  # its commands
    from offloadrt.cli.app import COMMAND_LINES, COMMANDS, add_commands
    from offloadrt.registry import Unusable
    from offloadrt.study.errors import ScriptFailed, UnknownParameter, UserError

    tokens = sys.argv[1:] if tokens is None else tokens
    for name in ("stdout", "stderr"):  # None, or closed, where a shell or a service has closed it: `>&-`
        if getattr(getattr(sys, name), "closed", True):
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.encoding.lower().startswith("utf"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without our letters gets a mark for each
    try:
        tokens = add_commands(tokens)
        code = _run(tokens)
        sys.stdout.flush()
    except CycloptsError as error:
        return _complain(said_of(tokens, error))
    except UnknownParameter as error:
        return _complain(f"{error}{as_option(tokens, error)}")
    except (UserError, Unusable) as error:
        return _complain(str(error))
    except UnicodeEncodeError as error:  # a word of the command line, or a folder's name, of bytes that are no text
        return _complain(f"{error.object!a:.200}: is no text in UTF-8; rename that file or folder")
    except ScriptFailed as error:
        print(error, file=sys.stderr)
        return PROGRAM_FAILED
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        what = "cannot be written: " if error.errno in _FULL else ""
        return _complain(f"{error.filename or 'standard output'}: {what}{error.strerror or error}")
    except Exception as error:
        if next(iter(tokens), "") not in {**COMMANDS.others(), **COMMAND_LINES.others()}:
            raise
        from offloadrt.study.scripts.tracebacks import script_failure

        print(script_failure(error), file=sys.stderr)  # a command of another package
        return PROGRAM_FAILED
    return code if isinstance(code, int) else 0


def _run(tokens: list[str]) -> Any:
    """Run the command; a scenario's parameter that was written as an option, such as `--threads 8`, is accepted."""
    from cyclopts import UnknownOptionError

    from offloadrt.cli.app import app
    from offloadrt.study.errors import UserError

    for option, value in itertools.pairwise(word for token in tokens for word in token.split("=", 1)):
        if option in WHOLE and re.fullmatch(r"-?\d*\.\d+", value):  # cyclopts would round it
            raise UserError(f"{option} {value}: it is no whole number")
    while True:
        try:
            return app(tokens, exit_on_error=False, print_error=False, result_action="return_value")
        except UnknownOptionError as error:
            tokens = as_meant(tokens, error)  # each time one option less


def _complain(message: str) -> int:
    print(f"offloadrt: {message}", file=sys.stderr)
    return WRONG_USE


def as_meant(tokens: Sequence[str], error: UnknownOptionError) -> list[str]:
    """Rewrite the unknown option of `error`, such as `--threads 8`, as a parameter, `threads=8`; return all tokens.

    Raises UserError, with a hint, if the scenario has no such parameter, and `error` if no scenario is named.
    """
    from offloadrt.study.errors import UserError

    written = error.token.keyword or error.token.value or ""
    chosen = _scenario_of(tokens)
    if chosen is None or not written.startswith("--"):
        raise error
    option, sign, value = written.partition("=")
    name = option.removeprefix("--").replace("-", "_")
    place = next(number for number, token in enumerate(tokens) if token.partition("=")[0] == option)
    rest = list(tokens[place + 1 :])
    if not sign:
        value = rest.pop(0) if rest and not rest[0].startswith("-") and "=" not in rest[0] else "true"
    if name in chosen.parameters:
        return [*tokens[:place], f"{name}={value}", *rest]
    options = [known for argument in error.argument_collection for known in argument.names if argument.parse]
    near = _nearest(name, chosen.parameters, [known.removeprefix("--") for known in options])
    hint = f"; did you mean {near.replace('=', f'={value}')}?" if near else ""
    raise UserError(
        f"{tokens[0]}: neither an option {option} nor a parameter {name} of {chosen.name}{hint} "
        f"(its parameters, written name=value: {', '.join(chosen.parameters) or 'none'})"
    )


def as_option(tokens: Sequence[str], error: UnknownParameter) -> str:
    """Return a hint if the unknown parameter of `error` is in fact a command-line option; else an empty text."""
    from offloadrt.study.spec import options

    name = error.parameter
    spelled = {option.removeprefix("--").replace("-", "_"): option for option in options().values()}
    given = next((token.partition("=")[2] for token in tokens if token.startswith(f"{name}=")), "")
    return f"; it is an option: {spelled[name]} {given}".rstrip() if name in spelled else ""


def said_of(tokens: Sequence[str], error: CycloptsError) -> str:
    """Return the message for a command line, `tokens`, that the parser (cyclopts) rejects with `error`."""
    from cyclopts import MissingArgumentError, RepeatArgumentError, UnusedCliTokensError

    command = " ".join(error.command_chain or ())
    message = " ".join(str(error).split())
    name = error.argument.names[0] if error.argument is not None else ""
    if isinstance(error, MissingArgumentError):
        lacks = f"needs a value; one that begins with - is written {name}=-1" if name in tokens else "is missing"
        message = f"{command}: {name} {lacks}"
    elif isinstance(error, UnusedCliTokensError):
        message = f"{command}: takes no {' '.join(error.unused_tokens or ())}"
    elif isinstance(error, RepeatArgumentError):
        message = f"{message.removesuffix('.')}; several values are written with commas, where a command takes several."
    return f"{message}\nTry {' '.join(filter(None, ('offloadrt', command)))} --help."


def _scenario_of(tokens: Sequence[str]) -> Scenario | None:
    """Return the scenario that a command line names, None when it names none."""
    from offloadrt.study.errors import ScenarioNotFound
    from offloadrt.study.scripts import registry

    for token in tokens[1:]:
        if not token.startswith("-") and "=" not in token:
            with contextlib.suppress(ScenarioNotFound):
                return registry.find(token)
    return None


def _nearest(word: str, parameters: Iterable[str], options: Iterable[str]) -> str:
    """Return the known name most similar to `word`, as it is written: `threads=` or `--repeat`; empty without one."""
    known = {**{name: f"--{name}" for name in options}, **{name: f"{name}=" for name in parameters}}
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return known[near[0]] if near else ""
