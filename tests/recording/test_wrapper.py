"""Command lines for other offloading compilers become such for LLVM with the host as the device."""

from __future__ import annotations

import pytest

from offloadrt.extensions.recording import toolchain
from offloadrt.extensions.recording.toolchain import ToolchainMissing, links, rewrite


@pytest.mark.parametrize(
    "flags",
    [
        "-fopenmp -fopenmp-targets=nvptx64-nvidia-cuda -Xopenmp-target=nvptx64-nvidia-cuda -march=sm_80",
        "-fopenmp --offload-arch=gfx90a",
        "-fiopenmp -fopenmp-targets=spir64",
        "-mp=gpu -gpu=cc80 -Minfo=mp",
        "-fopenmp -foffload=nvptx-none -foffload-options=-lm",
        "-qopenmp -xHost -ipo",
        "-fopenmp -flto=thin -static -fsanitize=address,undefined",
    ],
)
def test_what_chooses_a_gpu_is_dropped(flags):
    kept, openmp = rewrite(["-O3", *flags.split(), "-DN=4", "-c", "x.c", "-o", "x.o"])
    assert openmp
    assert kept == ["-O3", "-DN=4", "-c", "x.c", "-o", "x.o"]


def test_a_file_without_openmp_stays_so():
    assert rewrite(["-O2", "-march=native", "x.c"]) == (["-O2", "-march=native", "x.c"], False)


@pytest.mark.parametrize(
    ("command", "answer"),
    [("x.c -o x", True), ("-c x.c", False), ("x.o y.o -o x", True), ("--version", False), ("-M x.c", False)],
)
def test_a_command_links_unless_it_says_otherwise(command, answer):
    assert links(command.split()) is answer


def _fresh(monkeypatch, **environment: str) -> None:
    toolchain.find_compiler.cache_clear()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_a_missing_compiler_says_what_to_install(monkeypatch, tmp_path):
    _fresh(monkeypatch, PATH=str(tmp_path))
    with pytest.raises(ToolchainMissing, match=r"no flang of LLVM 22 or later was found on the path: install flang-22"):
        toolchain.find_compiler("fc")


def test_an_old_compiler_says_what_to_install(monkeypatch, tmp_path):
    old = tmp_path / "clang"
    old.write_text("#!/bin/sh\necho clang version 15.0.7\n")
    old.chmod(0o755)
    _fresh(monkeypatch, PATH=f"{tmp_path}:/bin")
    monkeypatch.setattr(toolchain, "_NEWEST", toolchain.OLDEST)
    with pytest.raises(ToolchainMissing, match=r"clang is LLVM 15\.0\.7; recording needs LLVM 22 or later: install cl"):
        toolchain.find_compiler("cc")


def test_a_compiler_that_is_not_llvms_is_refused(monkeypatch):
    _fresh(monkeypatch, OFFLOADRT_CC="true")
    with pytest.raises(ToolchainMissing, match=r"OFFLOADRT_CC=true: no compiler of LLVM answers by that name"):
        toolchain.find_compiler("cc")


def test_a_compiler_that_cannot_be_executed_is_refused(monkeypatch, tmp_path):
    (tmp_path / "cc").write_bytes(b"no program")
    (tmp_path / "cc").chmod(0o755)
    _fresh(monkeypatch, OFFLOADRT_CC=str(tmp_path / "cc"))
    with pytest.raises(ToolchainMissing, match=r"cc: no compiler of LLVM answers by that name"):
        toolchain.find_compiler("cc")


@pytest.fixture(autouse=True)
def _forget_compilers():
    yield
    toolchain.find_compiler.cache_clear()


def test_the_first_use_says_what_it_builds_and_a_second_one_nothing(monkeypatch, tmp_path, capsys):
    try:
        compiler = toolchain.find_compiler("cc")
    except ToolchainMissing as missing:
        pytest.skip(str(missing))
    monkeypatch.setenv("OFFLOADRT_CACHE", str(tmp_path))
    made = toolchain.device_runtime(compiler)
    said = capsys.readouterr().err.splitlines()
    steps = len(list((toolchain._NATIVE / "device").glob("*.c"))) + 1
    assert said[0] == f"offloadrt: builds device.o of the recorder for LLVM {compiler.version}, once: step 1 of {steps}"
    assert toolchain.device_runtime(compiler) == made and capsys.readouterr().err == ""
