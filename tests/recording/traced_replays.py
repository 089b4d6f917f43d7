"""Prints the trace hashes of a recording's replays: the same on every Python and in both gears."""

from __future__ import annotations

from pathlib import Path

from replaying import replayed

LULESH = Path(__file__).parents[2] / "bench" / "programs" / "lulesh-s30.rec"
CONFIGURATIONS = {"copy": "mi300a", "implicit_zero_copy": "mi300a", "managed": "alex-a100"}


def hashes(gear: str) -> str:
    """Replay LULESH under each configuration, and return what this file prints."""
    done = {
        configuration: replayed(LULESH, machine=machine, configuration=configuration, gear=gear)
        for configuration, machine in CONFIGURATIONS.items()
    }
    return "".join(f"{configuration} {replay.hash}\n" for configuration, replay in done.items())


if __name__ == "__main__":
    print(hashes("turbo"), end="")
