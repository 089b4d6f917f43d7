"""Random OpenMP programs do here what LLVM's runtime did; `differential.py` runs any number of them."""

from __future__ import annotations

from pathlib import Path

import openmp_programs
import pytest
from differential import compared

from offloadrt.recording.toolchain import ToolchainMissing, find_compiler


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_random_program_does_what_the_real_runtime_did(seed: int, tmp_path: Path) -> None:
    try:
        find_compiler("cc")
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    directives, differences = compared(seed, tmp_path)
    assert directives > 100
    assert differences == []


def test_a_seed_gives_one_program() -> None:
    assert openmp_programs.program(7) == openmp_programs.program(7) != openmp_programs.program(8)
