"""Host functions of stdpar programs, one for each thing that the pass on sources has to see."""

from __future__ import annotations

import math
from typing import Any

from offloadrt.extensions.stdpar.elision import par_unseq, seq

SIZE = 100
COUNTS = [0]


def external() -> None:
    """Does not call algorithms, so it is not inlined."""


async def direct_caller(t: Any, a: Any) -> Any:
    await t.fill(par_unseq, a, 0.0)
    return a


async def wrapper(t: Any, a: Any) -> None:
    await direct_caller(t, a)


async def sequence(t: Any, a: Any, b: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    await t.transform(par_unseq, a, b)


async def example(t: Any, a: Any, n: int) -> None:
    for _ in range(n):
        await t.for_each(par_unseq, a)
        await t.for_each(par_unseq, a)


async def external_call(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    external()
    await t.fill(par_unseq, a, 0.0)


async def allocations(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    b = await t.new_array("b", SIZE)
    await t.copy(par_unseq, a, b)
    await t.delete(b)


async def load_and_store(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    x = a[3]
    await t.fill(par_unseq, a, x)
    a[4] = x
    await t.fill(par_unseq, a, x)
    a.size += 1


async def stack(t: Any, a: Any) -> None:
    local = [0.0, 1.0]
    other = await t.stack_array("s", 2)
    await t.fill(par_unseq, a, 0.0)
    local[0] = other[1]
    await t.fill(par_unseq, a, 1.0)


async def arguments(t: Any, domain: Any) -> None:
    await t.fill(par_unseq, domain.x, domain.value[3])
    await t.transform(par_unseq, domain.y[2:], math.sqrt(SIZE), max(SIZE, 3))


async def returns_value(t: Any, a: Any) -> float:
    await t.fill(par_unseq, a, 0.0)
    return float(await t.reduce(par_unseq, a) * 2.0)


async def inlines(t: Any, a: Any) -> None:
    await direct_caller(t, a)
    await direct_caller(t, a)


async def calls_wrapper(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    await wrapper(t, a)


async def local_functions(t: Any, a: Any) -> None:
    async def zero() -> None:
        await t.fill(par_unseq, a, 0.0)

    await zero()
    await zero()


async def branch(t: Any, a: Any, n: int) -> None:
    await t.fill(par_unseq, a, 0.0)
    if n > 10:
        external()
    await t.fill(par_unseq, a, 1.0)


async def on_the_host(t: Any, a: Any) -> None:
    await t.fill(par_unseq, a, 0.0)
    await t.fill(seq, a, 0.0)


async def early_exits(t: Any, a: Any, n: int) -> None:
    while True:
        await t.fill(par_unseq, a, 0.0)
        try:
            if n > 3:
                break
            await t.copy(par_unseq, a, a)
            if n > 2:
                return
        finally:
            external()
    await t.fill(par_unseq, a, 0.0)


async def endless(t: Any, a: Any) -> None:
    while True:
        await t.fill(par_unseq, a, 0.0)
    external()


async def spins(t: Any, a: Any, n: int) -> None:
    await t.fill(par_unseq, a, 0.0)
    if n:
        await t.fill(par_unseq, a, 1.0)
    while True:
        pass


async def other_names(t: Any, a: Any) -> None:
    f = t.for_each
    await f(par_unseq, a)

    async def copy() -> None:
        await t.copy(par_unseq, a, a)

    for later in (lambda: t.fill(par_unseq, a, 0.0), copy):
        await later()


async def global_state(t: Any, a: Any) -> None:
    global SIZE
    await t.fill(par_unseq, a, 0.0)
    SIZE = 3
    await t.fill(par_unseq, a, 0.0)
    for _ in COUNTS:
        pass


async def methods(t: Any, a: Any) -> None:
    local = t.stack_array("s", 2)
    async with t.function():
        await t.fill(par_unseq, a, 0.0)
        await t.compute(1e-3)
        await t.fill(par_unseq, a, 1.0)
    await t.fill(par_unseq, a, 2.0)
    await t.read(local)
    await t.read(a)
    await t.fill(par_unseq, a, 3.0)
    await t.external("solver")
    with open("/dev/null"):
        await t.fill(par_unseq, a, 4.0)


async def not_on_the_stack(t: Any, a: Any, pointers: Any) -> None:
    rows = [a, a]
    either = [0.0]
    if pointers:
        either = pointers
    await t.fill(par_unseq, a, 0.0)
    rows[1] = either
    await t.fill(par_unseq, a, 0.0)
    rows[1][0] = 1.0
    await t.fill(par_unseq, a, 0.0)
    either[0] = 1.0


async def leaves_contexts(t: Any, a: Any) -> None:
    for _ in range(3):
        async with t.function():
            await t.fill(par_unseq, a, 0.0)
            break
    await t.fill(par_unseq, a, 0.0)


async def recursive(t: Any, a: Any, n: int) -> None:
    await t.fill(par_unseq, a, 0.0)
    await recursive(t, a, n - 1)


class Domain:
    async def zero(self, t: Any) -> None:
        await t.fill(par_unseq, self, 0.0)

    async def step(self, t: Any) -> None:
        await self.zero(t)
        await t.fill(par_unseq, self, 1.0)
