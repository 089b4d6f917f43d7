"""`ArrayUse`: what a kernel does with one of its arrays, read from its source or declared for a phantom program.

The errors of kernels are here, too: a description that no device accepts, a source outside of the subset.
"""

from __future__ import annotations

from typing import Literal

import attrs


class KernelError(Exception):
    """A kernel was described or launched in a way that no device accepts; the message names the kernel."""


class IndexOutOfRange(KernelError, IndexError):
    """A launch surely reads or writes beyond an array; the message names kernel, array, range and length."""


class SourceRefused(KernelError):
    """A kernel's or a host function's source is not in the subset that can be read.

    The message is ``FILE:LINE: WHO: what is there; what to write instead``.
    """

    def __init__(self, file: str, line: int, who: str, what: str, instead: str) -> None:
        super().__init__(f"{file}:{line}: {who}: {what}; {instead}")
        self.file = file
        self.line = line
        self.what = what
        self.instead = instead


Pattern = Literal["constant", "affine", "irregular", "indirect"]
"""Of an index: ``constant`` (the same element for every iteration), ``affine`` in the loop variables, ``indirect``
(read from another array), ``irregular`` (any other)."""


def _not_negative(use: ArrayUse, attribute: attrs.Attribute[float], value: float) -> None:
    if not value >= 0:
        raise KernelError(f"array {use.name!r}: {attribute.name} is {value}, but must not be negative")


@attrs.frozen
class ArrayUse:
    """Accesses of a kernel to one array, in numbers for each iteration of the distributed loop.

    OTM's compiler passes ``laf`` to its runtime, which makes a density of it.
    """

    name: str
    position: int
    """Which of the kernel's arguments it is, from 0."""
    reads: float = attrs.field(default=0.0, validator=_not_negative)
    """Loads, by block frequency."""
    writes: float = attrs.field(default=0.0, validator=_not_negative)
    """Stores, by block frequency."""
    pattern: Pattern = "affine"
    """The least regular one of its accesses."""
    level: int = 0
    """How many loads of other arrays the first access waits for, one after the other."""
    elements_read: float = attrs.field(default=0.0, validator=_not_negative)
    """Elements that come from memory: what is loaded again in the iteration or by its neighbours counts once."""
    elements_written: float = attrs.field(default=0.0, validator=_not_negative)
    """Elements that go to memory."""
    element_size: int = 8
    """Bytes of an element by the parameter's annotation (``NDArray[np.float32]``), 8 without one."""

    @property
    def laf(self) -> float:
        """Return the local access frequency: the sum of the block frequencies of its accesses (OTM, section 4.1)."""
        return self.reads + self.writes

    @property
    def bytes(self) -> float:
        """Return the bytes that an iteration moves between memory and compute units."""
        return (self.elements_read + self.elements_written) * self.element_size

    def density(self, iterations: float, elements: int) -> float:
        """Return OTM's density of a launch with an array of so many elements: min(LAF × iterations / elements, 1)."""
        return min(1.0, self.laf * iterations / elements) if elements else 0.0
