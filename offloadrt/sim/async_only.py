"""What is entered by `async with` only, and says so to a program that writes `with`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn


class AsyncOnly:
    """Base of the classes that `async with` enters. To a type checker they have no `__enter__`, as it should be."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{getattr(self, 'directive', type(self).__name__)}: write `async with`, not `with`")

        def __exit__(self, *error: object) -> None: ...
