"""Writes scenarios/index.json, which `offloadrt list` reads instead of the scripts. Run it when one has changed."""

from __future__ import annotations

import msgspec

from offloadrt.study.scripts.listing import INDEX, IndexedFile, digest_of, files, folder
from offloadrt.study.scripts.registry import listed_in


def index() -> bytes:
    """The index as it should be."""
    known = {path.name: IndexedFile(digest_of(path), listed_in(path)) for path in files()}
    return msgspec.json.format(msgspec.json.encode(known), indent=1) + b"\n"


if __name__ == "__main__":
    (folder() / INDEX).write_bytes(index())
