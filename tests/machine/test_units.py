"""Units of profiles: what is known without pint is what pint says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from offloadrt.machine.profile import units


@pytest.mark.parametrize("text", units.COMMON)
def test_common_units_are_what_pint_says(text: str) -> None:
    factor, dimension = units._convert(f"1 {text}", text)
    assert units.COMMON[text] == (pytest.approx(factor, rel=1e-15), dimension)


def test_shipped_machines_load_without_pint() -> None:
    script = (
        "import sys; from offloadrt import machine; [machine.load(name) for name in machine.available()]; "
        "print('pint' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
