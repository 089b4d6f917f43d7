"""What checking costs: programs under the checker and without it, in processor seconds, the best of some rounds.

uv run python bench/checks.py
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from offloadrt.checking.checked import check
from offloadrt.study.running.execution import execute
from offloadrt.study.scripts import registry
from offloadrt.study.spec import RunSpec

ROOT = Path(__file__).parents[1]
ROUNDS = 3
PROGRAMS: list[tuple[str, Mapping[str, str]]] = [
    ("overlap", {"threads": "64", "n": "1024"}),
    ("exahype", {"threads": "16", "memory": "map"}),
    ("exahype", {"threads": "16", "memory": "map", "phantom": "true"}),
    ("qmcpack", {}),
    (str(ROOT / "bench/programs/lulesh-s30.rec"), {}),
    (str(ROOT / "tests/recording/stored/patches.rec"), {}),
]


def main() -> None:
    print(f"{'program':48} {'plain s':>8} {'checked s':>9} {'ratio':>6}")
    for name, given in PROGRAMS:
        scenario = registry.find(name)
        bound = scenario.bind({key: value for key, value in given.items() if key in scenario.parameters})
        plain, checked = [], []
        for _ in range(ROUNDS):
            begin = time.process_time()
            execute(scenario, bound)
            middle = time.process_time()
            check(scenario, bound, RunSpec())
            plain.append(middle - begin)
            checked.append(time.process_time() - middle)
        said = " ".join([scenario.name, *(f"{key}={value}" for key, value in given.items())])
        print(f"{said:48} {min(plain):8.3f} {min(checked):9.3f} {min(checked) / min(plain):6.2f}")


if __name__ == "__main__":
    main()
