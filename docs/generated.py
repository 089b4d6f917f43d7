"""Pages that are written from the package itself: machines, events, command line and the gallery of scenarios."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def write_pages(docs: Path) -> None:
    """Write the machines, reports, events and commands of the reference, and the gallery, anew."""
    os.environ.update(COLUMNS="100", NO_COLOR="1")
    for folder in ("gallery", "reference/machines", "reference/reports", "figures"):
        shutil.rmtree(docs / folder, ignore_errors=True)
        (docs / folder).mkdir(parents=True)
    for figure in sorted((ROOT / "bench" / "figures").glob("*.png")):
        shutil.copy(figure, docs / "figures" / figure.name)
    for page in sorted((docs / "explanation").glob("*.md")):
        _pictures(page)
    (docs / "reference" / "events.md").write_text("\n".join(_events()), encoding="utf-8")
    (docs / "reference" / "command-line.md").write_text("\n".join(_command_line()), encoding="utf-8")
    _machines(docs / "reference" / "machines")
    _reports(docs / "reference" / "reports")
    _gallery(docs / "gallery")


def _pictures(page: Path) -> None:
    """Draw the pictures of a page by the commands that stand below them."""
    for command in re.findall(r"^uv run offloadrt (timeline .*)$", page.read_text(encoding="utf-8"), re.MULTILINE):
        words = shlex.split(command)
        words[1] = str(page.parent.parent / "figures" / words[1])
        _printed(*words)


def _events() -> Iterator[str]:
    from offloadrt.trace import EVENTS, events

    yield "# Events\n"
    yield "`offloadrt run … --log FILE` writes each event of a run as one JSON object a line; `event` is its class.\n"
    yield from (inspect.getdoc(events) or "").split("\n")
    yield "\n| event | fields | what happened |\n| --- | --- | --- |"
    for name, event in sorted(EVENTS.items()):
        fields = ", ".join(f"`{field}`" for field in inspect.get_annotations(event) if not field.startswith("_"))
        yield f"| `{name}` | {fields} | {_cell(inspect.getdoc(event))} |"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def _as_typed(value: object) -> str:
    """Return a value as the command line takes it."""
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _printed(*command: str) -> str:
    """Return what a command prints: called here, as starting Python for each takes longer than all of them."""
    from offloadrt.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        code = main([*command])
    assert code == 0, f"offloadrt {shlex.join(command)}: {printed.getvalue()}"
    return printed.getvalue().rstrip()


def _command_line() -> Iterator[str]:
    overview = _printed("--help")
    yield "# Command line\n"
    yield f"```text\n{overview}\n```\n"
    for name in re.findall(r"^│ ([a-z]+)  ", overview, re.M):
        if name in ("cc", "cxx", "fc"):  # whose help is the compiler's own, of a thousand lines
            yield f"## `offloadrt {name}`\n\nTakes what the compiler takes: [your own binary](../how-to/record.md).\n"
            continue
        yield f"## `offloadrt {name}`\n\n```text\n{_printed(name, '--help')}\n```\n"


def _machines(folder: Path) -> None:
    from offloadrt.extensions.calibration.machines import range_of, shown, summaries

    index = ["# Machines\n", "Each entry has a source or a range; `--set ENTRY=VALUE` changes it for a run.\n"]
    index += ["```{toctree}", ":maxdepth: 1"]
    for spec in summaries():
        page = [f"# {spec.name}\n", f"{spec.title}\n", *(f"* {note}" for note in spec.notes)]
        page += ["\n| entry | value | range | source | what it means |", "| --- | --- | --- | --- | --- |"]
        for key, entry in spec.entries.items():
            cells = (shown(entry), range_of(entry), entry.source, entry.note)
            page.append(f"| `{key}` | " + " | ".join(_cell(text) for text in cells) + " |")
        page += ["\n| source | what it is |", "| --- | --- |"]
        page += [f"| {name} | {_cell(text)} |" for name, text in spec.sources.items()]
        (folder / f"{spec.name}.md").write_text("\n".join(page) + "\n", encoding="utf-8")
        index.append(spec.name)
    (folder / "index.md").write_text("\n".join([*index, "```", ""]), encoding="utf-8")


def _reports(folder: Path) -> None:
    index = ["# Stored reports\n", "What `offloadrt validate` said of each paper.\n", "```{toctree}", ":maxdepth: 1"]
    for report in sorted((ROOT / "bench" / "validation").glob("*.txt")):
        text = report.read_text(encoding="utf-8")
        (folder / f"{report.stem}.md").write_text(f"# {report.stem}\n\n```text\n{text}```\n", encoding="utf-8")
        index.append(report.stem)
    (folder / "index.md").write_text("\n".join([*index, "```", ""]), encoding="utf-8")


def _gallery(folder: Path) -> None:
    from offloadrt.study.scripts import registry

    index = ["# Gallery\n", "One page for each scenario that comes with offloadrt.\n", "```{toctree}", ":maxdepth: 1"]
    for scenario in registry.shipped().values():
        verb = "run" if scenario.figure is None or not scenario.sweep else "sweep"
        page = [f"# {scenario.name}\n", f"{scenario.description}\n"]
        page.append(f"```sh\nuv run offloadrt {verb} {scenario.name}\n```\n")
        if (ROOT / "bench" / "figures" / f"{scenario.name}.png").exists():
            page.append(f"![{scenario.summary}](../figures/{scenario.name}.png)\n")
        page.append(f"It runs on `{scenario.machine}` unless another machine is chosen.\n")
        page += ["| parameter | default | values | meaning |", "| --- | --- | --- | --- |"]
        for parameter in scenario.parameters.values():
            default = "(needed)" if parameter.required else f"`{_as_typed(parameter.default)}`"
            page.append(f"| `{parameter.name}` | {default} | {_cell(parameter.expected)} | {_cell(parameter.help)} |")
        (folder / f"{scenario.name}.md").write_text("\n".join(page) + "\n", encoding="utf-8")
        index.append(scenario.name)
    (folder / "index.md").write_text("\n".join([*index, "```", ""]), encoding="utf-8")
