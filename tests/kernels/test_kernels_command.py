"""`offloadrt kernels`."""

from __future__ import annotations

from pathlib import Path

import pytest

from offloadrt.cli import main
from offloadrt.extensions.explaining import kernels
from offloadrt.registry import NotInstalled

SCRIPT = '''
from offloadrt import Run, kernel, scenario
from offloadrt import openmp as omp

@kernel(collapse=2)
def blur(u, v, n):
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            v[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])

@kernel
def total(v, out, n):
    s = 0.0
    for i in range(n):
        for j in range(n):
            s += v[i, j]
    out[0] = s

@kernel(flops_per_iteration=2, bytes_per_iteration=8)
def halve(v):
    v *= 0.5

@scenario
async def smooth(run: Run, n: int = 8) -> dict[str, float]:
    """A toy."""

    async def body(t: omp.HostThread) -> None:
        old, new, out = t.array("old", (n, n)), t.array("new", (n, n)), t.array("out", 1)
        for _ in range(10):
            await t.target(blur, old, new, n)
        await t.target(total, new, out, n)
        await t.target(halve, new)

    await run.parallel(body)
    return {}
'''


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "smoothing.py"
    script.write_text(SCRIPT)
    assert main(["kernels", str(script)]) == 0
    lines = lines_of(capsys.readouterr().out)
    joined = " ".join(lines)
    assert "blur (" in joined
    assert "loops: distributed i in range(1, n - 1); distributed j in range(1, n - 1)" in lines
    assert "an iteration: 4 flops, 16 bytes" in lines
    assert "u 4 0 4 1 0 8 affine 0 … n - 1, 0 … n - 1" in lines
    assert "reductions: s (+)" in lines
    assert "halve: declared, 2 flops and 8 bytes an iteration" in lines
    assert "target regions of smooth" in lines
    assert any(line.startswith("blur 10 ") and line.endswith("old, new") for line in lines)
    assert "1 new 42 blur, total" in lines
    assert "2 old 40 blur" in lines
    assert main(["kernels", f"{script}:smooth"]) == 0
    assert lines_of(capsys.readouterr().out) == lines


def test_the_command_says_what_is_guessed_and_how_to_give_a_hint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    branch = "            if v[i, j] > 0.0 and j > 0:\n                s += v[i, j]\n"
    branch += "        if i > 0:\n            out[i] = 1.0\n"
    script = tmp_path / "guessing.py"
    script.write_text(SCRIPT.replace("            s += v[i, j]\n", branch))
    assert main(["kernels", str(script)]) == 0
    lines = lines_of(capsys.readouterr().out)
    assert "assumed: line 16: the branch is taken with probability 0.5" in lines
    assert any(line.startswith("say what is known with `expect`: expect(CONDITION, probability") for line in lines)
    assert "conditions on an index count as 0.5 here, and exactly at a launch: line 18" in lines


def test_a_scenario_whose_kernels_are_declared(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "overlap"]) == 0
    assert "scale: declared, 1 flops and 16 bytes an iteration" in capsys.readouterr().out


DECLARING = """
from offloadrt import Kernel, kernel
from offloadrt.kernels import ArrayUse

sparse = Kernel(
    "sparse", flops_per_iteration=3, bytes_per_iteration=24,
    arrays=[ArrayUse("a", 0, reads=2.5, writes=1, pattern="indirect", level=1, elements_read=2, elements_written=0.5)],
)

@kernel(arrays=(ArrayUse("b", 0, reads=1.0, element_size=4),))
def look(b):
    b += 1
"""


def test_what_declared_kernels_declare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "declaring.py"
    script.write_text(DECLARING)
    assert main(["kernels", str(script)]) == 0
    lines = [line for line in lines_of(capsys.readouterr().out) if line]
    table = "array loads stores LAF elements in out bytes index after"
    sparse = ["sparse: declared, 3 flops and 24 bytes an iteration", table, "a 2.5 1 3.5 2 0.5 20 indirect 1 load"]
    assert lines == [*sparse, "look: declared, 0 flops and 0 bytes an iteration", table, "b 1 0 1 0 0 0 affine"]


NAMING = '''
from offloadrt import Kernel, Run, kernel, scenario

def kernels():
    @kernel
    def clear(v, n):
        for i in range(n):
            v[i] = 0.0

    yield from ({kernels})

@scenario(kernels=kernels)
async def clearing(run: Run) -> dict[str, float]:
    """It makes its kernels when it runs."""
    return {{}}
'''


@pytest.mark.parametrize("option", [[], ["--predicated"]])
def test_a_scenario_that_names_its_kernels(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "naming.py"
    script.write_text(NAMING.format(kernels="clear,"))
    assert main(["kernels", str(script), *option]) == 0
    shown = "v: divided along dimension 0" if option else "loops: distributed i in range(0, n)"
    assert shown in capsys.readouterr().out


def test_a_scenario_that_names_what_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "failing.py"
    script.write_text(NAMING.format(kernels="nothing"))
    assert main(["kernels", str(script)]) == 3
    assert "NameError: name 'nothing' is not defined" in capsys.readouterr().err


def test_programs_that_are_imported_late(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("offloadrt.papers.jacc.programs.BENCHMARKS", {"Himeno": "himeno", "EP": "ep"})
    assert main(["kernels", "jacc", "--predicated"]) == 0
    printed = capsys.readouterr().out
    assert "himeno.py" in printed and "wrk2: divided along dimension 0" in printed
    assert "ep.py" in printed and "# then, on every device, with the partial values of all" in printed


def test_a_script_without_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "empty.py"
    script.write_text("")
    assert main(["kernels", str(script)]) == 0
    assert "no kernel stands in its module" in " ".join(capsys.readouterr().out.split())


def test_a_kernel_outside_of_the_subset_is_an_error_of_the_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "wrong.py"
    script.write_text(
        "from offloadrt import kernel\n@kernel\ndef k(a, n):\n    for i in range(n):\n        a[0:i] = 1\n"
    )
    assert main(["kernels", str(script)]) == 2
    assert "wrong.py:5: kernel 'k': the slice a[0:i]; write a loop over the elements" in capsys.readouterr().err


def test_the_source_for_several_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "smoothing.py"
    script.write_text(SCRIPT)
    assert main(["kernels", str(script), "--predicated"]) == 0
    printed = capsys.readouterr().out
    assert (
        f"# blur ({script}:6)\n"
        "# v: divided along dimension 0\n"
        "@kernel(collapse=2)\n"
        "def blur(u, v, n, v_lb, v_ub):\n"
        "    for i in range(1, n - 1):\n"
        "        for j in range(1, n - 1):\n"
        "            to_v = v_lb <= i <= v_ub\n"
        "            v_value = (\n"
        "                0.25 * ((u[i - 1, j] if to_v else 0) + (u[i + 1, j] if to_v else 0)"
        " + (u[i, j - 1] if to_v else 0)\n"
        "                + (u[i, j + 1] if to_v else 0))\n"
        "            )\n"
        "            if to_v:\n"
        "                v[i, j] = v_value\n"
    ) in printed
    assert (
        f"# total ({script}:12)\n"
        "# out: all of it by every device\n"
        "@kernel\n"
        "def total(v, n, i_lb, i_ub, s_parts, device):\n"
        "    s = 0.0\n"
        "    for i in range(n):\n"
        "        to_i = i_lb <= i <= i_ub\n"
        "        for j in range(n):\n"
        "            if to_i:\n"
        "                s += v[i, j]\n"
        "    s_parts[device] = s\n"
        "# then, on every device, with the partial values of all: s (+)\n"
        "@kernel\n"
        "def combine_total(out, s_parts):\n"
        "    s = 0.0\n"
        "    for device in range(len(s_parts)):\n"
        "        s += s_parts[device]\n"
        "    out[0] = s\n"
    ) in printed
    assert "# kernel 'halve' is declared by its costs and has no source to divide among devices" in printed
    empty = tmp_path / "empty.py"
    empty.write_text("")
    assert main(["kernels", str(empty), "--predicated"]) == 0
    assert "no kernel stands in its module" in " ".join(capsys.readouterr().out.split())


def test_without_the_compilers_of_extensions_kernels_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def left_out(text: str) -> None:
        raise NotInstalled(f"the {kernels.ANALYSES.kind} {text!r} is not installed")

    assert main(["kernels", "overlap"]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(type(kernels.ANALYSES), "load", lambda registry, text: left_out(text))
    assert main(["kernels", "overlap"]) == 0
    assert (part := capsys.readouterr().out) and part in whole
    assert main(["kernels", "overlap", "--predicated"]) == 2
    assert "'predicate' is not installed" in capsys.readouterr().err
