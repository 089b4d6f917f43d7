"""A region of a program, entered by ``async with``: of data, or of device addresses."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from types import CodeType, TracebackType
from typing import ClassVar, Generic, TypeVar

from offloadrt.sim.errors import AsyncOnly

T_co = TypeVar("T_co", covariant=True)


class Region(AsyncOnly, ABC, Generic[T_co]):
    """A region of a program, entered by ``async with region as what_begin_gives``.

    One that is thrown away where it was made maps nothing, so it warns; one that was kept may stay unused.
    """

    directive: ClassVar[str]
    entered = False
    _made_at: tuple[CodeType, int] | None = None

    def made(self) -> None:
        """Note where the region was made, after its clauses were in order.

        Called by its ``__init__``, which a method of the thread has called.
        """
        program = sys._getframe(3)
        self._made_at = program.f_code, program.f_lineno

    async def __aenter__(self) -> T_co:
        self.entered = True
        return await self.begin()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.end()
        elif not issubclass(kind, Exception):
            self.leave()

    def __del__(self) -> None:
        if self.entered or sys.is_finalizing():
            return
        frame = sys._getframe(1)
        if self._made_at == (frame.f_code, frame.f_lineno):
            warnings.warn(f"region '{self.directive}' was never entered", RuntimeWarning, stacklevel=2)

    @abstractmethod
    async def begin(self) -> T_co: ...

    @abstractmethod
    async def end(self) -> None: ...

    @abstractmethod
    def leave(self) -> None:
        """Leave the region early, at a timeout or a cancellation."""
