"""What goes wrong with kernels: a description that no device accepts, a source outside of the subset."""

from __future__ import annotations


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
