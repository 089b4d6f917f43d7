"""What a program gets wrong with JACC's routines and with directives is told by name; updates reach all devices."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from acc_kernels import add, increment, scale
from openacc_rig import MakeRig

from offloadrt import openacc as acc

N = 32
Body = Callable[[acc.HostThread, acc.Jacc, acc.HostArray], Any]


WRONG: list[tuple[type[Exception], str, Body]] = [
    (TypeError, "jacc_copyin: a[0:4] is no array; JACC", lambda t, j, a: j.jacc_copyin(acc.section(a, 0, 4))),
    (TypeError, "jacc_create: a is no array", lambda t, j, a: j.jacc_create("a")),
    (TypeError, "jacc_update_device: None is no array", lambda t, j, a: j.jacc_update_device(None)),
    (
        TypeError,
        "is no tuple of arguments; build one with jacc_args",
        lambda t, j, a: j.jacc_kernel_push(increment, [a]),
    ),
    (TypeError, "kernel 'increment': argument 0 is", lambda t, j, a: j.jacc_kernel_push(increment, (a,))),
    (TypeError, "jacc_kernel_push: 'x' is no kernel", lambda t, j, a: j.jacc_kernel_push("x", ())),
    (TypeError, "flags are 1, which", lambda t, j, a: j.jacc_kernel_push(increment, acc.jacc_args(increment, a), 1)),
    (
        ValueError,
        "iterations is -1",
        lambda t, j, a: j.jacc_kernel_push(increment, acc.jacc_args(increment, a), iterations=-1),
    ),
    (ValueError, "'factor' has 1329 bits", lambda t, j, a: acc.jacc_args(scale, a, a, 10**400)),
    (ValueError, "devices is 0", lambda t, j, a: acc.DeviceStrategy(devices=0)),
    (ValueError, "devices is -1", lambda t, j, a: acc.DeviceStrategy(devices=-1)),
    (
        ValueError,
        "the strategy uses 8 devices, but devices is 1",
        lambda t, j, a: acc.Jacc(t, strategy=acc.DeviceStrategy(devices=8)),
    ),
    (ValueError, "Jacc: devices is 0", lambda t, j, a: acc.Jacc(t, devices=0)),
    (ValueError, "Jacc: queues is 0", lambda t, j, a: acc.Jacc(t, queues=0)),
    (ValueError, "wait: async value -5 is none", lambda t, j, a: t.wait(-5)),
    (ValueError, "wait: async value 'q' is none", lambda t, j, a: t.wait("q")),
    (TypeError, "parallel: async_ cannot be 1.5", lambda t, j, a: t.parallel(increment, a, async_=1.5)),
    (TypeError, "update: async_ cannot be 'q'", lambda t, j, a: t.update(acc.host(a), async_="q")),
    (TypeError, "update: wait cannot be 'q'", lambda t, j, a: t.update(acc.host(a), wait="q")),
    (TypeError, "enter_data: async_ cannot be True", lambda t, j, a: t.enter_data(acc.create(a), async_=True)),
    (ValueError, "vector_length is 0", lambda t, j, a: t.parallel(increment, a, vector_length=0)),
    (TypeError, "num_gangs cannot be 2.5", lambda t, j, a: t.parallel(increment, a, num_gangs=2.5)),
    (ValueError, "iterations is -1", lambda t, j, a: t.parallel(increment, a, iterations=-1)),
]


@pytest.mark.parametrize(("kind", "message", "body"), WRONG, ids=[message for _, message, _ in WRONG])
def test_what_makes_no_sense_is_refused_by_name(
    acc_rig: MakeRig, kind: type[Exception], message: str, body: Body
) -> None:
    async def main(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t)
        a = t.array("a", N)
        with pytest.raises(kind, match=re.escape(message)):
            await body(t, jacc, a)

    acc_rig().alone(main)


@pytest.mark.parametrize("strategy", ["duplicated", "always"])
@pytest.mark.parametrize("communication", ["all-to-all", "needed"])
def test_updates_reach_all_devices(acc_rig: MakeRig, strategy: str, communication: Any) -> None:
    async def body(t: acc.HostThread) -> list[Any]:
        jacc = acc.Jacc(t, devices=4, strategy=strategy, communication=communication)
        a, b = t.array("a", N, fill=1.0), t.array("b", N)
        await jacc.jacc_copyin(a, b)
        await jacc.jacc_kernel_push(increment, acc.jacc_args(increment, a))
        await jacc.jacc_update_host(a)
        seen = [a.data.copy()]
        a.data[:] = np.arange(N)
        await jacc.jacc_update_device(a)
        await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, a, b, 2.0))
        await jacc.jacc_update_host(b)
        await jacc.jacc_delete(a, b)
        return [*seen, b.data.copy()]

    rig = acc_rig({"jit.compile": 0}, devices=4, machine_name="dgx1-v100")
    first, second = rig.alone(body)
    assert (first == 2.0).all() and (second == 2.0 * np.arange(N)).all()
    rig.assert_clean()


def test_an_update_of_one_device_is_refused_where_several_have_the_data(acc_rig: MakeRig) -> None:
    async def body(t: acc.HostThread) -> None:
        jacc = acc.Jacc(t, devices=2)
        a, other = t.array("a", N), t.array("other", N)
        await jacc.jacc_copyin(a)
        with pytest.raises(ValueError, match=r"update device\(a\) reaches one device, .* on 2: use jacc_update_device"):
            await t.update(acc.device(a))
        await t.update(acc.host(a))
        await t.enter_data(acc.copyin(other))
        await t.update(acc.device(other))

    acc_rig(devices=2).alone(body)


def test_an_array_pushed_without_present_is_brought_together_first(acc_rig: MakeRig) -> None:
    """It is on the devices all the same, and each of them has made a part of it."""

    async def body(t: acc.HostThread) -> Any:
        jacc = acc.Jacc(t, devices=4, strategy="always", communication="needed")
        a, b, c = t.array("a", N, fill=np.arange(N)), t.array("b", N), t.array("c", N)
        await jacc.jacc_copyin(a, b, c)
        await jacc.jacc_kernel_push(scale, acc.jacc_args(scale, a, b, 3.0))
        z = acc.jacc_arg_build("z", c, acc.Attribute.WRITE | acc.Attribute.PRESENT)
        await jacc.jacc_kernel_push(add, (acc.jacc_arg_build("x", b), acc.jacc_arg_build("y", b), z))
        await jacc.jacc_copyout(c)
        return c.data.copy()

    rig = acc_rig({"jit.compile": 0}, devices=4, machine_name="dgx1-v100")
    assert (rig.alone(body) == 6.0 * np.arange(N)).all()
