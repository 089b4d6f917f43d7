"""`ArrayUse`: what a kernel does with one of its arrays, read from its source or declared for a phantom program.

The module also has the errors of kernels: a description that no device accepts, and a source outside of the subset.
"""

from __future__ import annotations

from typing import Literal

import attrs


class KernelError(Exception):
    """Raised for a kernel described or launched in a way that no device accepts; the message names the kernel."""


class IndexOutOfRange(KernelError, IndexError):
    """Raised for a launch that certainly indexes past an array's ends; says the kernel, array, range and length."""


class SourceRefused(KernelError):
    """Raised for a kernel's or host function's source that uses Python which offloadrt cannot read.

    The message is ``FILE:LINE: WHO: what is there; what to write instead``.
    """

    def __init__(self, file: str, line: int, who: str, what: str, instead: str) -> None:
        super().__init__(f"{file}:{line}: {who}: {what}; {instead}")
        self.file = file
        self.line = line
        self.what = what
        self.instead = instead


Pattern = Literal["constant", "affine", "irregular", "indirect"]
"""Pattern of an index: ``constant`` (one element for all iterations), ``affine`` in loop variables, ``indirect`` (read
from an array) or ``irregular``."""


def _not_negative(use: ArrayUse, attribute: attrs.Attribute[float], value: float) -> None:
    if not value >= 0:
        raise KernelError(f"array {use.name!r}: {attribute.name} is {value}, but must not be negative")


@attrs.frozen
class ArrayUse:
    """Counts a kernel's accesses to one array for each iteration of the distributed loop (shared out among teams).

    OTM (Object-level Tiered Memory) places arrays by the number of accesses, the local access frequency (``laf``).
    """

    name: str
    position: int
    """The array's position among the kernel's arguments, from 0."""
    reads: float = attrs.field(default=0.0, validator=_not_negative)
    """Loads per iteration; those under a condition count by its probability, as in a compiler's block frequencies."""
    writes: float = attrs.field(default=0.0, validator=_not_negative)
    """Stores per iteration, counted in the same way as `reads`."""
    pattern: Pattern = "affine"
    """The pattern of the least regular access."""
    level: int = 0
    """Number of loads of other arrays, each dependent on the one before, that must precede the first access."""
    elements_read: float = attrs.field(default=0.0, validator=_not_negative)
    """Elements loaded from memory per iteration; an element that the next iterations load again counts once."""
    elements_written: float = attrs.field(default=0.0, validator=_not_negative)
    """Elements stored to memory per iteration."""
    element_size: int = 8
    """Bytes of an element by the parameter's annotation (``NDArray[np.float32]``), 8 without one."""

    @property
    def laf(self) -> float:
        """Return the local access frequency: loads and stores of the array for each iteration (OTM, section 4.1)."""
        return self.reads + self.writes

    @property
    def bytes(self) -> float:
        """Return the bytes that an iteration moves between memory and compute units."""
        return (self.elements_read + self.elements_written) * self.element_size

    def density(self, iterations: float, elements: int) -> float:
        """Return the array's access density in a launch, as OTM defines it: min(LAF × iterations / elements, 1).

        LAF, the local access frequency, is the number of accesses in an iteration (`laf`). elements: the array's size.
        """
        return min(1.0, self.laf * iterations / elements) if elements else 0.0
