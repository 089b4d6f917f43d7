"""Fuzz a target: `python tests/fuzz/fuzz.py machine [--inputs 100000] [--seed 0] [--atheris SECONDS]`.

Inputs are mutations of valid ones (`mutations.py`); with `--atheris` the coverage-guided fuzzer of that name makes them
instead (`pip install atheris`). An input that fails is written to `tests/fuzz/corpus/TARGET/`, where `test_fuzz.py`
keeps trying it, and its traceback is shown; inputs that fail at the same line are shown once.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import random
import sys
import traceback
from pathlib import Path

CORPUS = Path(__file__).with_name("corpus")
LONGEST_S = 60
"""Wall-clock seconds after which an input counts as a hang: the process shows where it is, and ends."""


def keep(name: str, data: bytes) -> Path:
    """Write an input to the corpus."""
    path = CORPUS / name / hashlib.blake2b(data, digest_size=6).hexdigest()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def main() -> int:
    """Fuzz, and return how many kinds of failures there were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--atheris", type=int, default=0)
    asked = parser.parse_args()
    if asked.atheris:
        return guided(asked.target, asked.atheris)

    from mutations import mutated
    from targets import FOLDER, TARGETS

    target, draw = TARGETS[asked.target], random.Random(asked.seed)
    seeds, seen = target.seeds(), set()
    for number in range(asked.inputs):
        data = mutated(seeds, draw)
        (FOLDER / "latest").write_bytes(data)
        faulthandler.dump_traceback_later(LONGEST_S, exit=True)
        try:
            target.run(data)
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            if (where := (type(error).__name__, place.filename, place.lineno)) not in seen:
                seen.add(where)
                print(f"input {number}: {keep(asked.target, data)}", flush=True)
                traceback.print_exc()
    faulthandler.cancel_dump_traceback_later()
    print(f"{asked.target}: {asked.inputs} inputs, {len(seen)} kinds of failures")
    return len(seen)


def guided(name: str, seconds: int) -> int:
    """Let Atheris make the inputs, guided by which branches they reach."""
    import atheris

    with atheris.instrument_imports(include=["offloadrt"]):
        from targets import FOLDER, TARGETS

    target = TARGETS[name]
    seeds = FOLDER / "seeds"
    seeds.mkdir()
    for number, data in enumerate(target.seeds()):
        (seeds / str(number)).write_bytes(data)

    def try_input(data: bytes) -> None:
        try:
            target.run(data)
        except Exception:
            print(keep(name, data))
            raise

    options = [f"-max_total_time={seconds}", f"-timeout={LONGEST_S}", "-max_len=8192", str(seeds)]
    atheris.Setup([sys.argv[0], *options], try_input)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
