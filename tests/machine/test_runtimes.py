"""Profiles of offloading runtimes: they go with any machine, and neither says anything about the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from offloadrt.machine import ProfileError, available, available_runtimes, load, load_runtime
from offloadrt.machine.profile.scaling import is_scalable

ENTRY = 'value = 7\nunit = "us"\nsource = "me"\nsource_type = "measured"\n'
SOURCES = '[sources]\nme = "here"\nnone = "a hunch"\n'


def own(tmp_path: Path, kind: str, base: str, key: str, source: str = "me") -> str:
    path = tmp_path / f"{kind}.toml"
    text = f'[{kind}]\nname = "mine"\nbase = "{base}"\n{SOURCES}[entry."{key}"]\n{ENTRY}'
    path.write_text(text.replace('source = "me"', f'source = "{source}"'), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("machine", available())
@pytest.mark.parametrize("runtime", available_runtimes())
def test_every_runtime_goes_with_every_machine(machine: str, runtime: str) -> None:
    both, alone = load(machine, runtime=runtime), load_runtime(runtime)
    assert (both.name, both.runtime) == (machine, runtime)
    assert alone.entries.keys() <= both.entries.keys()
    assert all(entry.source in both.sources for entry in both.entries.values())


def test_one_runtime_costs_as_much_more_on_every_machine_as_its_core_is_slower() -> None:
    """What LLVM's runtime costs on the machine that it was made for is multiplied by one factor; settings are not."""
    costs, reference = load_runtime("llvm22").entries, load("alex-a100", runtime="llvm22")
    for name in available():
        spec = load(name, runtime="llvm22")
        points = reference.value("cpu.single_thread") / spec.value("cpu.single_thread")
        for key, entry in costs.items():
            if not is_scalable(entry):
                assert spec.entries[key].value == reference.entries[key].value
            elif entry.measured_on == "alex-a100":
                assert spec.value(key) == pytest.approx(reference.value(key) * points), (name, key)
    assert reference.value("table.insert") == costs["table.insert"].value


def test_a_machine_names_its_default_runtime_and_a_file_inherits_it(tmp_path: Path) -> None:
    assert all(load(name).runtime in available_runtimes() for name in available())
    mine = own(tmp_path, "machine", "dgx1-v100", "alloc.cudaFree")
    assert load(mine).runtime == load("dgx1-v100").runtime
    assert load(mine, runtime="llvm22").runtime == "llvm22"


def test_a_runtime_may_be_a_users_file(tmp_path: Path) -> None:
    spec = load("mi300a", runtime=own(tmp_path, "runtime", "llvm22", "table.lookup"))
    assert (spec.name, spec.runtime, spec.value("table.lookup")) == ("mi300a", "mine", pytest.approx(7e-6))
    assert spec.value("table.erase") == load("mi300a").value("table.erase")


def test_a_source_that_means_something_else_keeps_both_texts(tmp_path: Path) -> None:
    spec = load("mi300a", runtime=own(tmp_path, "runtime", "llvm22", "table.lookup", source="none"))
    assert spec.sources[spec.entries["table.lookup"].source] == "a hunch"
    assert spec.sources[spec.entries["hsa.barrier"].source].startswith("no source found")


def test_the_digest_tells_runtimes_apart() -> None:
    digests = {
        load(machine, runtime=name).digest for machine in ("mi300a", "alex-a100") for name in ("llvm22", "nvhpc")
    }
    assert len(digests) == 4


def test_an_entry_in_the_wrong_file_says_where_it_belongs(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"table\.lookup: is an entry of a runtime: put it .* \[runtime\]"):
        load(own(tmp_path, "machine", "mi300a", "table.lookup"))
    with pytest.raises(ProfileError, match=r"mem\.bw: is an entry of a machine: put it into a file with \[machine\]"):
        load("mi300a", runtime=own(tmp_path, "runtime", "llvm22", "mem.bw"))
    alone = tmp_path / "alone.toml"
    alone.write_text(f'[machine]\nname = "a"\nruntime = "llvm22"\n{SOURCES}[entry."table.lookup"]\n{ENTRY}')
    with pytest.raises(ProfileError, match=r"table\.lookup: is an entry of the runtime llvm22 \(llvm22\.toml\), too"):
        load(str(alone))


def test_a_name_that_is_not_there_gets_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(
        ProfileError, match=r"gnu: is neither a runtime that comes with .*; there are clang-ykt, llvm22, nvhpc"
    ):
        load("mi300a", runtime="gnu")
    with pytest.raises(ProfileError, match=r"alex: is neither a machine .*there are a100-node4, a100-node8, alex-a100"):
        load("alex")
    mine = tmp_path / "mine.toml"
    mine.write_text('[machine]\nname = "mine"\nbase = "mi300a"\nruntime = "gnu"\n')
    with pytest.raises(
        ProfileError, match=r"mine\.toml: machine\.runtime: 'gnu' is .* there are clang-ykt, llvm22, nvh"
    ):
        load(str(mine))
    with pytest.raises(ProfileError, match=r"mine\.toml: Object contains unknown field `machine`"):
        load("mi300a", runtime=str(mine))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ('name = " "', r"machine\.name: ' ' cannot be printed as a name"),
        ('name = "a\\nb"', r"machine\.name: 'a\\nb' cannot be printed as a name"),
        ('name = "a"\nbase = "b\\u0000.toml"', r"machine\.base: 'b\\x00\.toml' .*: its name has a NUL character"),
        ('name = "a"\nbase = "t4"\n[entry.mem.bw]\nvalue = 1', r'mem: is no entry; write \[entry\."mem\.bw"\], with'),
    ],
)
def test_a_machine_whose_names_cannot_be_meant(head: str, message: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(f"[machine]\n{head}\n")
    with pytest.raises(ProfileError, match=message):
        load(str(mine))


def test_a_machine_that_an_editor_saved_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[machine]\nname = "mine"\nbase = "t4"\n', encoding="utf-8-sig")
    assert load(str(mine)).value("mem.bw") == load("t4").value("mem.bw")


@pytest.mark.offload(machine="mi300a", runtime="nvhpc")
async def test_a_mark_chooses_the_runtime(offload) -> None:  # type: ignore[no-untyped-def]  # the fixture `offload`
    assert offload.runtime == offload.spec.runtime == "nvhpc"
    assert offload.spec.value("table.lookup") == load("mi300a", runtime="nvhpc").value("table.lookup")
