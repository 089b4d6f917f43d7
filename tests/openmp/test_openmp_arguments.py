"""What cannot be an argument of a directive or routine: one error, which names it, the thread and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from openmp_rig import MakeRig, scale
from wrong_calls import is_told

from offloadrt import openmp as omp
from offloadrt.models.host import program


def enter(clause: Any) -> Callable[[Any], Any]:
    return lambda t: t.target_enter_data(clause(t.array("a", 8)))


def region(**clauses: Any) -> Callable[[Any], Any]:
    return lambda t: t.target(scale, (a := t.array("a", 8)), 2.0, maps=omp.map(tofrom=a), **clauses)


async def set_to(t: Any, value: Any, device: int | None = None) -> None:
    await t.omp_target_memset(await t.omp_target_alloc(64), value, 64, device)


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (enter(lambda a: omp.map(to=None)), "a map clause without list items"),
    (enter(lambda a: omp.map(to="a")), "'a' can be mapped only with a mapper"),
    (
        enter(lambda a: omp.map(to=np.zeros(3))),
        r"a NumPy array of shape \(3,\) and type float64 is none of",
    ),
    (enter(lambda a: omp.map(inout=a)), "omp.map: no map type or modifier is called inout"),
    (enter(lambda a: omp.map(from_=a)), r"map\(from: …\) is not allowed on target enter data"),
    (enter(lambda a: omp.map(to=omp.section(a, 0, -4))), r"a\[0:-4\] is no array section"),
    (enter(lambda a: omp.map(to=omp.section(a, 4, 100))), r"a\[4:100\] reaches beyond the 8 elements"),
    (enter(lambda a: omp.map(to=omp.section(a, 0.5, 4))), r"a\[0.5:4\] is no array section: its numbers are whole"),
    (
        enter(lambda a: omp.map(to=omp.section(np.zeros(4), 0, 4))),
        "section: array cannot be array",
    ),
    (enter(lambda a: omp.map(to=omp.section(None, 0, 4))), "section: array cannot be None"),
    (enter(lambda a: omp.map(to=omp.member(a, "x"))), "a has no member 'x'"),
    (lambda t: t.target_exit_data(omp.map(to=t.array("a", 8))), r"map\(to: …\) is not allowed on target exit data"),
    (lambda t: t.target_update(omp.map(to=t.array("a", 8))), r"map\(to: …\) is not allowed on target update"),
    (lambda t: t.target_update(omp.to(t.array("a", 8)), device=7), "device number 7 is invalid"),
    (lambda t: t.target_update(omp.to(t.array("a", 8)), device="0"), "device: its number is '0'"),
    (lambda t: t.target_update(omp.to(t.array("a", 8), present=True)), r"<a\+0> \(64 bytes\) is not present"),
    (lambda t: t.target(len, t.array("a", 8)), "len is no kernel"),
    (lambda t: t.pointer(np.zeros(4)), r"pointer: array cannot be array\("),
    (lambda t: t.free(None), "free: array cannot be None"),
    (lambda t: t.mbind(omp.section(t.array("a", 8), 0, 4), 0), "mbind: array cannot be Section"),
    (lambda t: t.first_touch([1.0]), r"first_touch: array cannot be \[1.0\]"),
    (lambda t: t.sleep(10**60), "sleep: seconds cannot be 1000"),
    (lambda t: t.sleep(1e30), r"sleep\(1e\+30\): virtual seconds are finite and not negative, and at most 1e9"),
    (lambda t: t.compute(1e300), r"compute\(1e\+300\): virtual seconds"),
    (lambda t: t.array("a", 8, align=(0,)), r"array 'a': align is \(0,\), but an alignment is a power of two"),
    (lambda t: t.array("a", 8, align=24), "array 'a': align is 24, but"),
    (lambda t: t.target(scale, np.zeros(4), 2.0), "kernel 'scale': argument 'a' is a NumPy array"),
    (region(depend=3), r"target: depend takes omp\.depend"),
    (lambda t: region(depend=omp.depend(in_=[[1]]))(t), r"depend: in_ takes arrays, .* not \[1\]"),
    (lambda t: region(depend=omp.depend(out=np.zeros(2)))(t), r"depend: out takes arrays, .* not array\("),
    (lambda t: region(depend=omp.depend(inout=True))(t), "depend: inout takes arrays, .* not True"),
    (lambda t: region(depend=omp.depend(inoutset=[1, None]))(t), "depend: inoutset takes arrays, .* not None"),
    (lambda t: region(depend=omp.depend(in_=1.5))(t), "depend: in_ takes arrays, .* not 1.5"),
    (lambda t: region(depend=omp.depend(mutexinoutset=scale))(t), "depend: mutexinoutset takes arrays"),
    (lambda t: region(depend=omp.depend(out=omp.map(to=t.array("a", 8))))(t), "depend: out takes arrays"),
    (lambda t: region(depend=omp.depend())(t), "depend: a clause without list items"),
    (region(nowait=1), "target: nowait is 1, but must be True or False"),
    (region(if_=0), "target: if_ is 0, but must be True or False"),
    (region(if_="no"), "target: if_ is 'no', but must be True or False"),
    (region(nowait="yes"), "target: nowait is 'yes', but must be True or False"),
    (region(if_=np.zeros(2)), r"target: if_ is array\("),
    (lambda t: t.target_data(omp.map(to=t.array("a", 8)), if_="no"), "target data: if_ is 'no'"),
    (lambda t: t.target_enter_data(omp.map(to=t.array("a", 8)), if_=None), "target enter data: if_ is None"),
    (lambda t: t.target_exit_data(omp.map(from_=t.array("a", 8)), nowait="no"), "target exit data: nowait is 'no'"),
    (lambda t: t.target_update(omp.to(t.array("a", 8)), nowait="no"), "target update: nowait is 'no'"),
    (lambda t: t.taskwait(nowait="no"), "taskwait: nowait is 'no'"),
    (enter(lambda a: omp.map(to=a, always="no")), "omp.map: always is 'no', but must be True or False"),
    (lambda t: t.target_update(omp.from_(t.array("a", 8), present="no")), "target update from: present is 'no'"),
    (lambda t: t.target_update(), r"target update: at least one clause says of which data; write omp\.to\(…\) or"),
    (lambda t: t.target_update(omp.depend(out=1)), "target update: at least one clause says of which data"),
    (lambda t: t.target_update(omp.to()), "target update: a to clause without list items"),
    (lambda t: t.target_enter_data(), r"target enter data: at least one clause says of which data; write omp\.map"),
    (lambda t: t.target_exit_data(), "target exit data: at least one clause says of which data"),
    (lambda t: t.target_data(), "target data: at least one clause says of which data"),
    (region(iterations=-4), "target: iterations is -4"),
    (region(teams="4"), "target: teams is '4'"),
    (region(num_teams=1), "target: no clause 'num_teams'; did you mean teams"),
    (region(firstprivate=3), "target: firstprivate takes arrays of the program, not 3"),
    (lambda t: t.taskwait(3), r"taskwait: depend takes omp\.depend"),
    (lambda t: t.taskwait(omp.map(to=t.array("a", 8))), r"taskwait: depend takes omp\.depend"),
    (lambda t: t.taskgraph(3), "taskgraph: body is 3, which is no function"),
    (lambda t: t.taskgraph(lambda: None), "taskgraph: body returns None; write it as `async def`"),
    (lambda t: t.pin({1}), r"pin: core cannot be \{1\}; it takes int"),
    (lambda t: t.pin(1 << 40), "pin: core is 1099511627776; there are cores 0 to 127"),
    (lambda t: t.sleep(np.ones(1)), r"sleep: seconds cannot be array\(\[1.\]\); it takes float"),
    (lambda t: t.compute(np.ones(0)), r"compute: seconds cannot be array\(\[\], "),
    (
        lambda t: t.target_enter_data(omp.map(to=t.array("a", 10**30, phantom=True))),
        "array 'a': its size is 10000",
    ),
    (lambda t: t.omp_target_alloc(8.5), "omp_target_alloc: nbytes cannot be 8.5; it takes int"),
    (lambda t: t.omp_target_alloc(8, 5), "device number 5 is invalid"),
    (lambda t: t.omp_target_free(5), "omp_target_free: pointer cannot be 5; it takes .*DevicePointer"),
    (lambda t: t.omp_target_is_present("a"), "omp_target_is_present: place cannot be 'a'"),
    (lambda t: t.omp_target_is_accessible("a", 4), "omp_target_is_accessible: place cannot be 'a'"),
    (lambda t: t.omp_get_mapped_ptr("a"), "omp_get_mapped_ptr: place cannot be 'a'"),
    (
        lambda t: t.omp_target_memcpy(t.array("a", 8), t.array("b", 8), 100),
        "100 bytes from offset 0 reach outside",
    ),
    (lambda t: t.omp_target_memcpy(t.array("a", 8), t.array("b", 8), "8"), "omp_target_memcpy: length cannot be '8'"),
    (
        lambda t: t.omp_target_memcpy_async(a := t.array("a", 8), a, 8, depend=3),
        "omp_target_memcpy_async: depend cannot be 3",
    ),
    (lambda t: set_to(t, "zero"), "omp_target_memset: value cannot be 'zero'"),
    (lambda t: set_to(t, 0, 4), "omp_target_memset: pointer is memory of device 0, not of device 4"),
    (lambda t: t.omp_alloc("x", 3, allocator=None), "omp_alloc: allocator cannot be None"),
    (
        lambda t: t.omp_pause_resource("medium"),
        "omp_pause_resource: kind cannot be 'medium'; it takes Lit",
    ),
    (lambda t: t.prefetch(None), "prefetch: place cannot be None"),
    (lambda t: t.free_managed(None), "free_managed: array cannot be None"),
    (lambda t: t.omp_target_alloc(8, phantom="no"), "omp_target_alloc: phantom cannot be 'no'; it takes bool | None"),
    (lambda t: t.omp_target_alloc(10**30), "omp_target_alloc: nbytes cannot be 1000000000000000000000000000000"),
    (lambda t: t.omp_target_disassociate_ptr(4), "omp_target_disassociate_ptr: place cannot be 4"),
    (lambda t: t.omp_target_memcpy(None, None, 8, 1.5), "omp_target_memcpy: dst_offset cannot be 1.5; it takes int"),
    (lambda t: t.omp_target_memcpy_rect(None, None, 8, 4, 1, 1, 1, 1), "omp_target_memcpy_rect: volume cannot be 4"),
    (lambda t: t.omp_init_allocator(pinned="yes"), "omp_init_allocator: pinned cannot be 'yes'; it takes bool"),
    (lambda t: t.llvm_omp_target_alloc_host(None, 8), "llvm_omp_target_alloc_host: name cannot be None; it takes str"),
    (lambda t: t.run(None), "run: construct cannot be None"),
]


def test_an_error_names_what_is_wrong(rig: MakeRig) -> None:
    """Each is an error of its own run, with its thread and virtual time."""
    for wrong, message in WRONG:
        is_told(rig().alone, wrong, message)


@pytest.mark.parametrize("num_threads", [1, 2, 90])
def test_a_parallel_region_that_opens_itself_ends_with_one_error(
    rig: MakeRig, num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MOST_NESTED_THREADS", 500)
    made = rig()

    async def body(t: Any) -> None:
        await made.program.parallel(body, num_threads)

    with pytest.raises(RuntimeError, match=r"^parallel: \d+ regions lie in one another, with [\d,]+ threads") as raised:
        made.run(body, num_threads)
    assert raised.value.__notes__[0].startswith("raised in host thread ")


def test_regions_in_one_another_are_teams_of_their_own_as_deep_as_may_be(rig: MakeRig) -> None:
    made = rig()

    async def body(t: Any, depth: int = 1) -> int:
        if depth == 100:
            return 1
        return sum(await made.program.parallel(lambda inner: body(inner, depth + 1), 2 if depth < 4 else 1))

    assert made.run(body, 2) == [8, 8]


@pytest.mark.parametrize("name", ["name", "address", "shape", "dtype", "kind", "values", "nbytes", "itemsize"])
def test_an_array_stays_what_it_is(rig: MakeRig, name: str) -> None:

    async def body(t: omp.HostThread) -> None:
        a = t.array("a", 8, fill=1.0)
        async with t.target_data(omp.map(tofrom=a)):
            with pytest.raises(AttributeError, match=f"array 'a': its {name} cannot change; make another array"):
                setattr(a, name, np.zeros(3))
            await t.target(scale, a, 2.0)
        assert (a.data == 2.0).all() and await t.omp_target_alloc(np.int64(4)) is not None

    rig().run(body)
