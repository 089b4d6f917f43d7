"""Kernels whose costs were not recorded, declared by name in a TOML file.

[kernel."__omp_offloading_fe00_21a8fc_main_l10"]
flops_per_iteration = 2
bytes_per_iteration = 24
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from offloadrt.extensions.recording.format.recording import RecordingError
from offloadrt.kernels import Kernel, KernelError

FIELDS: Final = {
    "flops_per_iteration": float,
    "bytes_per_iteration": float,
    "single_flops_per_iteration": float,
    "threads_per_team": int,
    "registers_per_thread": int,
    "efficiency": float,
    "dependent_accesses": float,
    "loads_in_flight": float,
    "bytes_per_load": float,
    "precision": str,
}
"""The fields of `Kernel` that may be declared for a kernel, with their types."""


def read_declared(path: Path) -> dict[str, Kernel]:
    """Read the kernels of a file. Raises RecordingError with the file, the kernel and the field."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecordingError(f"{path}: {error}") from None
    kernels = tables.pop("kernel", {})
    if tables or not isinstance(kernels, dict) or not kernels:
        raise RecordingError(f'{path}: holds tables [kernel."NAME"] and nothing else')
    return {name: _declared(path, name, fields) for name, fields in kernels.items()}


def _declared(path: Path, name: str, fields: object) -> Kernel:
    if not isinstance(fields, dict):
        raise RecordingError(f"{path}: kernel {name!r} is no table")
    for field, value in fields.items():
        kind = FIELDS.get(field)
        if kind is None:
            raise RecordingError(f"{path}: kernel {name!r}: no field {field!r}; there are {', '.join(FIELDS)}")
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else kind):
            raise RecordingError(f"{path}: kernel {name!r}: {field} is {value!r}, but must be {kind.__name__}")
    try:
        return Kernel(name, None, **fields)
    except KernelError as error:
        raise RecordingError(f"{path}: {error}") from None
