"""A region of a program, entered by ``async with``: of data, or of device addresses."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from types import TracebackType
from typing import ClassVar, Generic, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Region(ABC, Generic[T_co]):
    """``async with region as what_begin_gives``. One that is thrown away before that maps nothing, so it warns."""

    directive: ClassVar[str]
    entered = False
    lowered = False
    """Set when its clauses were in order."""

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
        if self.lowered and not self.entered:
            warnings.warn(f"region '{self.directive}' was never entered", RuntimeWarning, stacklevel=2)

    @abstractmethod
    async def begin(self) -> T_co: ...

    @abstractmethod
    async def end(self) -> None: ...

    @abstractmethod
    def leave(self) -> None:
        """The thread leaves it early: a timeout, a cancellation."""
