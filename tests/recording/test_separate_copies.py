"""Where a program relies on host and device having copies of their own is found; where it does not, nothing is."""

from __future__ import annotations

from pathlib import Path

from raw_program import BEGIN, END, FROM, KERNEL, PARAM, TO, UPDATE, RawProgram, only

X, DEVICE, SIZE = 1 << 20, 1 << 40, 1 << 20
LOADS, STORES = 1, 2
PAGES = SIZE // 4096


def begin(program: RawProgram) -> None:
    program.malloc(X, SIZE)
    program.touches(X, SIZE, STORES)
    program.directive(BEGIN, (X, SIZE, TO), line=10, ops=[("alloc", X, DEVICE, SIZE), ("h2d", X, DEVICE, SIZE)])


def kernel(program: RawProgram, *, loads: bool = True, stores: bool = False) -> None:
    touched, untouched = [SIZE // 32, PAGES, 16], [0, 0, 0]
    use = {"host": X, "dev": DEVICE, "size": SIZE, "ldB": SIZE * loads, "stB": SIZE * stores}
    use |= {"rd": touched if loads else untouched, "wr": touched if stores else untouched}
    program.directive(KERNEL, (X, SIZE, PARAM), line=20, cost={"arrays": [use]})


def findings(program: RawProgram, folder: Path) -> list[str]:
    return only(program.recorded(folder)).meta.separate_copies


def test_a_kernel_that_reads_an_old_copy(tmp_path: Path) -> None:
    program = RawProgram()
    begin(program)
    program.touches(X, SIZE, STORES)
    kernel(program)
    (found,) = findings(program, tmp_path)
    assert found == f"the kernel at app.c:20 uses 'a{X:x}', which the host has written since it was mapped"


def test_a_kernel_that_only_writes_reads_no_old_copy_but_a_later_one_may(tmp_path: Path) -> None:
    program = RawProgram()
    begin(program)
    program.touches(X, SIZE, STORES)
    kernel(program, loads=False, stores=True)
    assert findings(program, tmp_path / "writes") == []
    kernel(program)
    assert "the kernel at app.c:20 uses" in findings(program, tmp_path / "reads")[0]


def test_an_update_in_between_makes_it_one_value(tmp_path: Path) -> None:
    program = RawProgram()
    begin(program)
    program.touches(X, SIZE, STORES)
    program.directive(UPDATE, (X, SIZE, TO), ops=[("h2d", X, DEVICE, SIZE)])
    kernel(program)
    assert findings(program, tmp_path) == []


def test_a_host_that_reads_what_a_kernel_has_changed_elsewhere(tmp_path: Path) -> None:
    program = RawProgram()
    begin(program)
    kernel(program, stores=True)
    program.touches(X, SIZE, LOADS)
    program.directive(END, (X, SIZE, 0), line=30, ops=[("delete", DEVICE, 0, 0)])
    assert findings(program, tmp_path) == [
        f"the host reads 'a{X:x}', which the kernel at app.c:20 has written on the device only"
    ]


def test_a_copy_back_makes_it_one_value(tmp_path: Path) -> None:
    program = RawProgram()
    begin(program)
    kernel(program, stores=True)
    program.directive(END, (X, SIZE, FROM), ops=[("d2h", DEVICE, X, SIZE), ("delete", DEVICE, 0, 0)])
    program.touches(X, SIZE, LOADS)
    program.directive(BEGIN, (X, SIZE, TO), ops=[("alloc", X, DEVICE, SIZE), ("h2d", X, DEVICE, SIZE)])
    assert findings(program, tmp_path) == []


def test_a_launch_that_was_not_traced_touches_what_the_traced_one_did(tmp_path: Path) -> None:
    program = RawProgram()
    begin(program)
    kernel(program)
    program.touches(X, SIZE, STORES)
    program.directive(KERNEL, (X, SIZE, PARAM), line=21, cost={})
    assert "the kernel at app.c:21" in findings(program, tmp_path)[0]


def test_a_second_copy_is_there_when_the_first_has_ended(tmp_path: Path) -> None:
    """Two devices, or two blocks of one, hold the array; the host writes it when one of them is freed."""
    program = RawProgram()
    begin(program)
    second = DEVICE + 4 * SIZE
    program.directive(BEGIN, (X, SIZE, TO), ops=[("alloc", X, second, SIZE), ("h2d", X, second, SIZE)])
    program.directive(END, (X, SIZE, 0), ops=[("delete", second, 0, 0)])
    program.touches(X, SIZE, STORES)
    kernel(program)
    (found,) = findings(program, tmp_path)
    assert found.endswith("which the host has written since it was mapped")
