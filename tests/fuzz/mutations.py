"""Inputs that are almost right: what a target's seeds become when words, numbers and bytes in them are changed."""

from __future__ import annotations

import random
import re

_TOKEN = re.compile(rb'"[^"\n]*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|\w+|\s+|[^\w\s]')
_WORDS = [
    b"0", b"-1", b"1e308", b"-0.0", b"nan", b"inf", b"1e-320", b"18446744073709551616", b"2147483648", b'""', b"null",
    b"true", b"[]", b"{}", b'"\\u0000"', "\u00fc\U0001f600".encode(), b"\xff\xfe", b"\x00", b"--", b"=", b",", b"..",
    b"1TiB", b"5 furlongs", b"'", b'"', b"\\", b"\n",
]  # fmt: skip


def mutated(seeds: list[bytes], draw: random.Random) -> bytes:
    """Change one to six places of one of the seeds."""
    data = draw.choice(seeds)
    if draw.random() < 0.5:
        parts = _TOKEN.findall(data) or [b""]
        for _ in range(draw.randint(1, 6)):
            place = draw.randrange(len(parts))
            kind = draw.random()
            if kind < 0.4:
                parts[place] = draw.choice(_WORDS)
            elif kind < 0.6:
                parts[place] = draw.choice(parts)
            elif kind < 0.8:
                del parts[place : place + draw.choice((1, 1, 2, 8))]
                parts = parts or [b""]
            else:
                parts[place:place] = parts[place : place + draw.choice((1, 2, 16))]
        return b"".join(parts)
    changed = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        place = draw.randrange(len(changed) + 1)
        kind = draw.random()
        if kind < 0.5 and changed:
            changed[place % len(changed)] = draw.randrange(256)
        elif kind < 0.7:
            del changed[place : place + draw.randint(1, 64)]
        elif kind < 0.9:
            changed[place:place] = draw.randbytes(draw.randint(1, 8))
        else:
            del changed[place:]
    return bytes(changed)
