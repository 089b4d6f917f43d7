"""A token: a failing run as a text of one line, which gives the same run again, bit by bit."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import attrs

from offloadrt.study.errors import UserError
from offloadrt.study.exploring.case import ScheduleCase, packed, unpacked

PREFIX = "offloadrt1."
"""How a token begins; the digit is the version of its format."""

CHECKED = "check"
"""The option of a token that says that what `offloadrt check` reports is a failure."""


@attrs.frozen
class Token:
    """A run: the program as the user names it, how it is made, its case, and by what to know that it is the same."""

    program: str
    """A scenario's reference; for a test of pytest its node id."""
    parameters: Mapping[str, Any]
    """Those that are not at their defaults."""
    options: Mapping[str, Any]
    """Those of `RunSpec` that are not at their defaults, and `CHECKED` for a run under the checker."""
    results: tuple[str, ...]
    case: ScheduleCase
    digests: Mapping[str, str]
    """The first digits of hashes: of the program's file, its machine and the emulator."""
    outcome: str
    hash: str
    """The trace hash of the run."""

    def encode(self) -> str:
        """Return the text."""
        row = [
            self.program,
            dict(self.parameters),
            dict(self.options),
            list(self.results),
            packed(self.case),
            dict(self.digests),
            self.outcome,
            self.hash,
        ]
        text = json.dumps(row, separators=(",", ":"), ensure_ascii=False)
        return PREFIX + base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> Token:
        """Read a token. Raises UserError."""
        text = "".join(text.split())
        if not text.startswith(PREFIX):
            other = text.startswith("offloadrt") and "." in text
            raise UserError(
                f"replay: the token is of version {text.partition('.')[0].removeprefix('offloadrt')}; this is version 1"
                if other
                else f"replay: no token: it begins with {PREFIX}"
            )
        body = text.removeprefix(PREFIX)
        try:
            unzip = zlib.decompressobj()
            plain = unzip.decompress(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)), 10_000_000)
            if not unzip.eof:
                raise ValueError("it is cut off")
            program, parameters, options, results, case, digests, outcome, hash = json.loads(plain)
            return cls(
                str(program),
                dict(parameters),
                dict(options),
                tuple(map(str, results)),
                unpacked(case),
                {str(name): str(value) for name, value in dict(digests).items()},
                str(outcome),
                str(hash),
            )
        except (ArithmeticError, ValueError, TypeError, KeyError, IndexError, zlib.error, RecursionError) as error:
            raise UserError(f"replay: the token cannot be read ({error}); copy all of it") from None

    def changed(self, now: Mapping[str, str]) -> list[str]:
        """Return which of the program, its machine and the emulator have changed since the token was made."""
        return [name for name, digest in self.digests.items() if now.get(name) != digest]
