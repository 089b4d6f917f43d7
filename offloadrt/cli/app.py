"""The application, and the commands `list` and `show`; commands that run scenarios are in `running.py`.

Each command imports what it needs when it runs, so that `--help` and `list` need no machine. All other commands are
entry points of the group `offloadrt.commands`, which `add_commands` finds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from cyclopts import App

import offloadrt
from offloadrt.cli.options import Json, ScenarioName
from offloadrt.cli.terminal import console, print_json
from offloadrt.registry import NotInstalled, Registry
from offloadrt.study.errors import UserError

COMMANDS: Final = Registry[Any]("command", "offloadrt.commands")
"""The commands of extensions: functions with their options, or cyclopts `App`s with the command's name."""
COMMAND_LINES: Final = Registry[Callable[[Sequence[str]], list[str]]]("command line", "offloadrt.command_lines")
"""Functions, by command name, that change the tokens of a command line before the command is chosen and read."""

app = App(
    name="offloadrt",
    help="What would this offloading program do under another memory configuration, thread count, runtime policy or "
    "machine, and why?",
    help_epilogue="Exit codes: 0 success; 1 a check found differences or a claim does not hold; 2 what was asked for "
    "cannot be done; 3 the program or script failed; 130 interrupted.",
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
    version=offloadrt.__version__,
)
app.register_install_completion_command(help="Install completion for this shell: bash, zsh, fish or PowerShell.")


def add_commands(tokens: Sequence[str]) -> list[str]:
    """Add the extension's command that the command line `tokens` names to `app`; return the command line to run.

    It differs where an extension changes it: `compare` of two logs becomes `compare-logs`. If the tokens name no
    command, as in `--help`, all are added. UserError for a command that cannot load.
    """
    first = next(iter(tokens), "")
    with contextlib.suppress(NotInstalled, StopIteration):
        tokens = COMMAND_LINES.load(first)(tokens) if first in COMMAND_LINES.points() else list(tokens)
        first = next(iter(tokens))
    names = COMMANDS.names()
    if first in names:
        names = [first]
    elif first in app and not first.startswith("-"):
        names = []
    for name in names:
        if name in app:
            continue
        try:
            command = COMMANDS.load(name)
            app.command(command) if isinstance(command, App) else app.command(command, name=name)
        except NotInstalled as error:
            if name == first:
                raise UserError(str(error)) from None
        except Exception as error:
            raise UserError(f"the command {name} ({COMMANDS.points()[name].value}) is none: {error}") from error
    return list(tokens)


@app.command(name="list")
def list_(*, json: Json = False) -> None:
    """Show the scenarios that come with offloadrt or with another package."""
    from offloadrt.study.scripts import listing

    entries = listing.from_index()
    if entries is None:
        from offloadrt.study.scripts import registry  # which imports what scenarios need

        entries = registry.listed()
    if json:
        print_json(entries)
        return
    from offloadrt.cli import render

    console().print(*render.scenarios(entries), sep="\n")


@app.command
def show(scenario: ScenarioName, /, *, json: Json = False) -> None:
    """Show what a scenario does, its parameters and their values; or what a recording, named by its path, holds."""
    from offloadrt.cli import render
    from offloadrt.study.scripts import registry
    from offloadrt.study.scripts.definition import reader_of

    reader = reader_of(scenario)
    if json:
        from offloadrt.cli.render import ScenarioRecord

        file = Path(scenario)
        print_json(ScenarioRecord.of(registry.find(scenario)) if reader is None else reader.record_of(file))
        return
    if reader is not None:
        console().print(*reader.shown(Path(scenario)), sep="\n")
    console().print(*render.scenario(registry.find(scenario)), sep="\n")
