"""What goes wrong is said by a named error: which call, array, thread, when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from acc_kernels import add, increment, scale
from openacc_rig import MakeRig

from offloadrt import openacc as acc

N = 16
PRESENT, WRITE = acc.Attribute.PRESENT, acc.Attribute.PRESENT | acc.Attribute.WRITE


def raised(acc_rig: MakeRig, body: Callable[[acc.HostThread], Awaitable[Any]], **options: Any) -> str:
    """The text of the error that ends the program."""

    async def guarded(t: acc.HostThread) -> str:
        with pytest.raises(acc.OffloadError) as info:
            await body(t)
        return f"{info.type.__name__}: {str(info.value).splitlines()[0]}"

    return acc_rig(**options).alone(guarded)  # type: ignore[no-any-return]


async def push(t: acc.HostThread, arguments: Callable[[Any], Any], flags: acc.PushFlags = acc.PushFlags.NONE) -> None:
    jacc = acc.Jacc(t)
    a = t.array("a", N)
    await jacc.jacc_copyin(a)
    await jacc.jacc_kernel_push(add, arguments(a), flags)


def whole(a: Any) -> Any:
    """x and z are the same array."""
    return acc.jacc_args(add, a, a, a)


def halves(a: Any) -> Any:
    """x is the first half, z the second one."""
    return (
        acc.jacc_arg_build("x", a, PRESENT, bounds=(0, 8)),
        acc.jacc_arg_build("y", a, PRESENT, bounds=(0, 8)),
        acc.jacc_arg_build("z", a, WRITE, bounds=(8, 16)),
    )


def test_an_alias_under_restrict(acc_rig: MakeRig) -> None:
    message = raised(acc_rig, lambda t: push(t, whole, acc.PushFlags.RESTRICT))
    assert message.startswith("AliasedArgument: kernel 'add': arguments 'x' and 'z' share bytes")
    assert "in jacc_kernel_push, array 'a', thread 'host thread 0', device 0, at 0.0" in message


def test_the_same_alias_is_fine_without_restrict_and_so_are_disjoint_bounds_under_it(acc_rig: MakeRig) -> None:
    for arguments, flags in ((whole, acc.PushFlags.NONE), (halves, acc.PushFlags.RESTRICT)):
        rig = acc_rig()
        rig.alone(lambda t, arguments=arguments, flags=flags: push(t, arguments, flags))
        assert len(rig.kernel_spans()) == 1


def test_two_arguments_that_are_only_read_may_alias_under_restrict(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t)
        a, b = t.array("a", N), t.array("b", N)
        await jacc.jacc_copyin(a, b)
        await jacc.jacc_kernel_push(add, acc.jacc_args(add, a, a, b), acc.PushFlags.RESTRICT)

    rig = acc_rig()
    rig.alone(body)
    assert len(rig.kernel_spans()) == 1


def test_overlapping_written_regions(acc_rig: MakeRig) -> None:
    def both_written(a: Any) -> Any:
        return (
            acc.jacc_arg_build("x", a, WRITE, bounds=(0, 9)),
            acc.jacc_arg_build("y", a, WRITE, bounds=(8, 16)),
            acc.jacc_arg_build("z", a, PRESENT, bounds=(0, 0)),
        )

    message = raised(acc_rig, lambda t: push(t, both_written))
    assert message.startswith("OverlappingWrites: kernel 'add': arguments 'x' and 'y' are both written, and share")


def test_a_pushed_array_that_is_not_on_the_device(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t)
        x, y = t.array("x", N), t.array("y", N)
        await jacc.jacc_copyin(x)
        await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, x, y, 1.0))

    message = raised(acc_rig, body)
    assert message.startswith("NotPresent: array 'y' (128 bytes) is not present (in jacc_kernel_push, array 'y'")


@pytest.mark.parametrize(
    ("construct", "call"),
    [
        (lambda t, a: t.parallel(increment, a, data=[acc.present(a)]), "parallel"),
        (lambda t, a: t.parallel(increment, a, default="present"), "parallel"),
        (lambda t, a: t.update(acc.host(a)), "update"),
        (lambda t, a: t.data(acc.present(a)).__aenter__(), "data"),
        (lambda t, a: t.host_data(a).__aenter__(), "host_data"),
    ],
)
def test_an_array_that_has_to_be_present(acc_rig: MakeRig, construct: Any, call: str) -> None:
    message = raised(acc_rig, lambda t: construct(t, t.array("a", N)))
    assert message.startswith("NotPresent: ")
    assert f"(in {call}, array 'a', thread 'host thread 0', device 0, at " in message


def test_a_device_number_out_of_range(acc_rig: MakeRig) -> None:
    async def set_device(t: acc.HostThread) -> None:
        t.acc_set_device_num(2)

    async def too_many(t: acc.HostThread) -> None:
        acc.Jacc(t, devices=3)

    assert "device number 2 is invalid, only 2 devices are available (in acc_set_device_num" in raised(
        acc_rig, set_device, devices=2
    )
    assert "InvalidDevice" in raised(acc_rig, too_many, devices=2)


def test_names_that_do_not_exist(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        with pytest.raises(ValueError, match="no execution 'eager'; there are: sync, async, overlap"):
            acc.Jacc(t, execution="eager")  # type: ignore[arg-type]

    acc_rig().alone(body)
    with pytest.raises(ValueError, match="no compiler 'icc'; there are: gcc, pgi"):
        acc_rig(compiler="icc")
