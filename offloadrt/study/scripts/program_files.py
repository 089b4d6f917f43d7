"""`ProgramFiles`: what reads files that are programs and no scripts, such as recordings."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from offloadrt.registry import Registry

if TYPE_CHECKING:
    from rich.console import RenderableType

    from offloadrt.study.scripts.definition import Scenario


class ProgramFiles(Protocol):
    """The files of one kind, as an entry point of the group ``offloadrt.program_files`` gives it.

    The name of the entry point is the end of their names, without its dot. All methods raise UserError for a file that
    cannot be read.
    """

    sources: Collection[str]
    """Ends of the names of sources from which such a program is made, as in ".cpp"."""

    def holds(self, path: Path) -> bool:
        """Tell whether a file or folder is of this kind, whatever its name."""

    def hint(self, path: Path) -> str:
        """Say how a source or a binary becomes such a file; the empty string for anything else."""

    def scenario_of(self, path: Path) -> Scenario:
        """Make a scenario of a file."""

    def shown(self, path: Path) -> Iterable[RenderableType]:
        """Yield what `offloadrt show` prints of a file."""

    def statistics(self, path: Path) -> Iterable[RenderableType]:
        """Yield what `offloadrt stats` prints of a file."""

    def kernels(self, path: Path) -> Iterable[RenderableType]:
        """Yield what `offloadrt kernels` prints of a file."""

    def record_of(self, path: Path) -> Any:
        """Return what `offloadrt show --json` prints."""

    def statistics_record(self, path: Path) -> Any:
        """Return what `offloadrt stats --json` prints."""

    def kernels_record(self, path: Path) -> Any:
        """Return what `offloadrt kernels --json` prints."""


PROGRAM_FILES: Final = Registry[ProgramFiles]("kind of program file", "offloadrt.program_files", ("sources", "holds"))


def reader_of(reference: str) -> ProgramFiles | None:
    """Return what reads the file or folder that a reference names; None for scripts and names of scenarios."""
    path = Path(reference)
    if path.suffix == ".py" or (not path.suffix and not path.exists()):
        return None  # nearly all references, which need no reader
    if path.suffix.removeprefix(".") not in PROGRAM_FILES.points() and not path.exists():
        return None
    return next((reader for reader in PROGRAM_FILES.installed() if reader.holds(path)), None)


def hint_of(path: Path) -> str:
    """Say how a program that is no script can be given; the empty string if nobody knows."""
    return next(filter(None, (reader.hint(path) for reader in PROGRAM_FILES.installed())), "")


def is_source(path: Path) -> bool:
    """Tell whether a file is the source of a program that is no script."""
    if path.suffix in ("", ".py"):
        return False
    return any(path.suffix.lower() in reader.sources for reader in PROGRAM_FILES.installed())
