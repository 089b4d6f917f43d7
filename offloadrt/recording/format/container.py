"""The file of a recording: a zip, or a folder, of text (JSON) and columns (NumPy's .npy).

meta.json                       {"format": "offloadrt recording", "version": 1, "runs": [...]}
RUN/dictionaries.json           meta, sites, kernels, arrays
RUN/columns/NAME.npy            one for each name of `recording.COLUMNS`
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
import msgspec
import numpy as np

from offloadrt.recording.format.consistency import check
from offloadrt.recording.format.errors import NotARecording, RecordingDamaged, RecordingTooNew
from offloadrt.recording.format.recording import COLUMNS, LATER, Column, Dictionaries, Recording, with_later_columns
from offloadrt.recording.format.tables import narrowed

FORMAT: Final = "offloadrt recording"
VERSION: Final = 1


class RunSummary(msgspec.Struct, frozen=True):
    """One process of one run of the program."""

    folder: str
    threads: int
    """Host threads: as `offloadrt record --threads` asked for, or the most of a parallel region."""
    rank: int | None = None
    pid: int = 0
    ended: str = "exit"
    directives: int = 0


class _Index(msgspec.Struct, frozen=True):
    format: str = ""
    version: int = 0
    runs: list[RunSummary] = []


class _Members(Protocol):
    """The files inside a recording."""

    def read(self, name: str) -> bytes: ...


@attrs.frozen
class _Folder:
    path: Path

    def read(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


@attrs.frozen
class RecordingFile:
    """A file with one or more runs of a program; `load` reads one of them.

    `read` raises NotARecording, RecordingDamaged and RecordingTooNew.
    """

    path: Path
    runs: tuple[RunSummary, ...]

    @classmethod
    def read(cls, path: Path) -> RecordingFile:
        """Read what a file says of its runs."""
        with _opened(path) as members:
            text = _part(path, members, "meta.json")
            if text is None:
                raise NotARecording(f"{path}: is no recording: it has no meta.json")
            index = _decoded(path, "meta.json", text, _Index)
        if index.format != FORMAT:
            raise NotARecording(f"{path}: is no recording: meta.json does not say so")
        if index.version > VERSION:
            raise RecordingTooNew(
                f"{path}: is in version {index.version} of the format; this offloadrt reads up to {VERSION}"
            )
        if not index.runs:
            raise RecordingDamaged(f"{path}: meta.json lists no run")
        return cls(path, tuple(index.runs))

    def load(self, run: RunSummary) -> Recording:
        """Load one run. Raises RecordingDamaged."""
        columns: dict[str, Column] = {}
        with _opened(self.path) as members:
            text = self._needed(members, f"{run.folder}/dictionaries.json")
            found = _decoded(self.path, f"{run.folder}/dictionaries.json", text, Dictionaries)
            for name, kind in COLUMNS.items():
                part = f"{run.folder}/columns/{name}.npy"
                data = _part(self.path, members, part) if name in LATER else self._needed(members, part)
                if data is None:
                    continue
                try:
                    columns[name] = np.load(io.BytesIO(data), allow_pickle=False).astype(kind, copy=False)
                except Exception as error:  # NumPy raises whatever its parser of the column's head does
                    reason = (
                        "" if "pickle" in str(error) else f": {error}"
                    )  # pickles are never read: no advice to do so
                    raise RecordingDamaged(f"{self.path}: {part} is damaged{reason}") from None
        recording = Recording(f"{self.path}:{run.folder}", found, with_later_columns(columns))
        check(recording)
        return recording

    def _needed(self, members: _Members, name: str) -> bytes:
        part = _part(self.path, members, name)
        if part is None:
            raise RecordingDamaged(f"{self.path}: a part is missing: {name}")
        return part


def is_recording(path: Path) -> bool:
    """Tell whether a path looks like a recording: a zip or a folder with a meta.json, or a name that ends in .rec."""
    if path.is_dir():
        return (path / "meta.json").is_file() or path.suffix == ".rec"
    return path.suffix == ".rec" or (path.is_file() and zipfile.is_zipfile(path))


def write(path: Path, recordings: Sequence[tuple[RunSummary, Dictionaries, Mapping[str, Column]]]) -> None:
    """Write a recording: a zip, which replaces what was there; or into a folder when `path` is one."""
    parts: dict[str, bytes] = {}
    index = _Index(FORMAT, VERSION, [summary for summary, _, _ in recordings])
    parts["meta.json"] = msgspec.json.format(msgspec.json.encode(index))
    for summary, dictionaries, columns in recordings:
        parts[f"{summary.folder}/dictionaries.json"] = msgspec.json.encode(dictionaries)
        for name, column in narrowed(columns).items():
            data = io.BytesIO()
            np.save(data, column, allow_pickle=False)
            parts[f"{summary.folder}/columns/{name}.npy"] = data.getvalue()
    if path.is_dir():
        for name, part in parts.items():
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(part)
        return
    partial = path.with_name(path.name + ".partial")
    with zipfile.ZipFile(partial, "w") as archive:
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)  # the same bytes at any time
    partial.replace(path)


@attrs.define
class _opened:
    """Opens a zip or a folder: ``with _opened(path) as members``."""

    path: Path
    _archive: zipfile.ZipFile | None = None

    def __enter__(self) -> _Members:
        if self.path.is_dir():
            return _Folder(self.path)
        try:
            self._archive = zipfile.ZipFile(self.path)
        except FileNotFoundError:
            raise NotARecording(f"{self.path}: cannot be read: no such file") from None
        except (NotImplementedError, OSError, ValueError) as error:  # zipfile's own errors for a damaged directory
            raise RecordingDamaged(f"{self.path}: is damaged: {error}") from None
        except zipfile.BadZipFile:
            what = "is cut off: record or copy it again" if _begins_as_zip(self.path) else "is no recording"
            what = what if self.path.stat().st_size else "is empty"
            kind = RecordingDamaged if _begins_as_zip(self.path) else NotARecording
            raise kind(f"{self.path}: {what}") from None
        return self._archive

    def __exit__(self, *raised: object) -> None:
        if self._archive is not None:
            self._archive.close()


def _part(path: Path, members: _Members, name: str) -> bytes | None:
    """Read a part of a recording; None when it is missing. Raises RecordingDamaged."""
    try:
        return members.read(name)
    except (KeyError, FileNotFoundError):
        return None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        # Damage can look like a method of compression that zipfile does not know, a password, or an offset below zero.
        raise RecordingDamaged(f"{path}: {name} is damaged: {error}") from None


def _begins_as_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PK\x03\x04"


def _decoded(path: Path, name: str, text: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordingDamaged(f"{path}: {name}: {error}") from None
