"""Which object each argument of a target is, and which cannot be told."""

from __future__ import annotations

import re

import pytest
from written import function

from offloadrt.extensions.otm.ranking import HostProgram
from offloadrt.kernels import ArrayUse, Kernel, SourceRefused, expect

one = Kernel("k", arrays=(ArrayUse("p", 0, reads=1),))
two = Kernel("two", arrays=(ArrayUse("p", 0, reads=1), ArrayUse("q", 1, reads=1)))
MADE = ["x, y = t.array('x', n), t.array('y', n)"]


def regions(*lines: str, parameters: str = "t, n, c") -> list[tuple[tuple[str, ...], float]]:
    """Objects and frequency of each in a host function that makes `x` and `y`."""
    text = f"async def f({parameters}):\n" + "".join(f"    {line}\n" for line in [*MADE, *lines])
    program = HostProgram.of(function(text, k=one, two=two, expect=expect))
    return [(region.objects, region.frequency) for region in program.regions]


TOLD = [
    (["z = x", "await t.target(k, z)"], "x"),
    (["z = w = x", "await t.target(k, w)"], "x"),
    (["z, w = x, y", "z, w = w, z", "await t.target(k, z)"], "y"),
    (["z = t.array(name='other', shape=n)", "await t.target(k, z)"], "other"),
    (["z = await t.managed_array('other', n)", "await t.target(k, z)"], "other"),
    (["await t.target(k, t.array('other', n))"], "other"),
    (["a, b = arrays_of(t)", "await t.target(k, b)"], "b"),
    (["await t.target(k, from_outside)"], "from_outside"),
    (["z = from_outside", "await t.target(k, z)"], "from_outside"),
    (["await t.target(k, c)"], "c"),
    (["z = None", "if c: z = x", "await t.target(k, z)"], "x"),
    (["z = x if c else None", "await t.target(k, z)"], "x"),
    (["if c: z = x", "else: z = x", "await t.target(k, z)"], "x"),
    (["z = x", "if c:", "    z = y", "    return", "await t.target(k, z)"], "x"),
    (["if c: z = t.array('z', n)", "else: z = t.array('z', 2 * n)", "await t.target(k, z)"], "z"),
    (["z = x", "for _ in n:", "    z = y", "    await t.target(k, z)"], "y"),
    (["try: z = x", "except MemoryError: z = y", "await t.target(k, z)"], "x"),
    (["await t.target(k, (z := x))", "x = y", "await t.target(k, z)"], "x"),
    (["async def inner(p=None): await t.target(k, p)", "await inner(p=x)"], "x"),
    (["async def inner(p=x): await t.target(k, p)", "await inner()"], "x"),
    (["async def inner(p=x): await t.target(k, p)", "x = y", "await inner()"], "x"),
    (["async def inner(u, *, p=x): await u.target(k, p)", "await t.parallel(inner)"], "x"),
    (["async def inner(p=x): await t.target(k, p)", "await inner(y)"], "y"),
    (["async def inner():", "    x = y", "    await t.target(k, x)", "await inner()"], "y"),
]


@pytest.mark.parametrize(("lines", "name"), TOLD, ids=["; ".join(row[0]) for row in TOLD])
def test_a_name_that_is_one_object_is_told(lines: list[str], name: str) -> None:
    assert {objects for objects, _ in regions(*lines)} == {(name,)}


UNTOLD = [
    (["z = x if c else y", "await t.target(k, z)"], "x if c else y is x or y"),
    (["if c: z = x", "else: z = y", "await t.target(k, z)"], "z is x or y"),
    (["if c: z = arrays_of(t)", "else: z = y", "await t.target(k, z)"], "z is z or y"),
    (["all = [x, y]", "await t.target(k, all[0])"], "all[0] is no name of an array"),
    (["all = [x, y]", "z = all[0]", "await t.target(k, z)"], "z is all[0]"),
    (["all = [x, y]", "for z in all:", "    await t.target(k, z)"], "z is each of all in turn"),
    (["[await t.target(k, z) for z in (x, y)]"], "z is each of (x, y) in turn"),
    (["z = t.array(f'x{n}', n)", "await t.target(k, z)"], "the array of line 3 is called f'x{n}'"),
    (["while n:", "    await t.target(k, x)", "    x, y = y, x"], "x is assigned again in the loop of line 3"),
    (
        ["for _ in n:", "    z = x", "    if c:", "        z = y", "        break", "await t.target(k, z)"],
        "z is x or y",
    ),
    (["for z in (x, y):", "    if c: break", "await t.target(k, z)"], "z is x or y"),
    (["c.mask = x", "await t.target(k, c.mask)"], "c.mask is assigned in line 3"),
    (
        ["for _ in n:", "    await t.target(k, c.p)", "    c.p, c.q = c.q, c.p"],
        "c.p is assigned in line 5",
    ),
    (
        ["def flip(): c.p, c.q = c.q, c.p", "while n:", "    await t.target(k, c.p)", "    flip()"],
        "c.p is assigned in line 3",
    ),
    (["z, w = (x, y) if c else (y, x)", "await t.target(k, z)"], "z is a part of (x, y) if c else (y, x)"),
    (["z, w = ((x, y), (y, x))[n % 2]", "await t.target(k, z)"], "z is a part of ((x, y), (y, x))[n % 2]"),
    (["z, w = reversed((x, y))", "await t.target(k, w)"], "w is a part of reversed((x, y))"),
    (["z = next(iter((x, y)))", "await t.target(k, z)"], "z is next(iter((x, y)))"),
    (["pair = x, y", "z, w = pair", "await t.target(k, z)"], "z is a part of pair"),
    (["z, *w = x, y", "await t.target(k, z)"], "z is a part of (x, y)"),
    (["async def inner(p=None): await t.target(k, p)", "await inner()"], "the call in line 4 does not say what p is"),
    (["async def inner(p=x): await t.target(k, p)", "await inner(*c)"], "the call in line 4 does not say what p is"),
    (
        ["async def flip():", "    nonlocal x, y", "    x, y = y, x", "await flip()", "await t.target(k, x)"],
        "x is assigned in flip of line 3",
    ),
    (
        ["def flip():", "    nonlocal x", "    x = y", "x = y", "while c:", "    await t.target(k, x)", "    flip()"],
        "x is assigned in flip of line 3",
    ),
    (["async def inner(p): await t.target(k, p)", "await inner(*c)"], "the call in line 4 does not say what p is"),
    (["await t.target(k, k)"], "k is no array"),
]


@pytest.mark.parametrize(("lines", "why"), UNTOLD, ids=["; ".join(row[0]) for row in UNTOLD])
def test_what_may_be_one_object_or_another_is_refused(lines: list[str], why: str) -> None:
    what = f"which object is p of kernel 'k' cannot be told ({why}); name one object there"
    line = next(number for number, text in enumerate(lines, start=3) if "t.target" in text)
    with pytest.raises(SourceRefused, match=rf":{line}: host function '\w+': {re.escape(what)}"):
        regions(*lines)


def test_a_loop_over_the_names_of_objects_is_unrolled() -> None:
    assert regions("for z in (x, y):", "    await t.target(k, z)") == [(("x",), 1.0), (("y",), 1.0)]
    assert regions("for z, m in [(x, 1), (y, n)]:", "    await t.target(k, z, m)") == [(("x",), 1.0), (("y",), 1.0)]
    assert regions("for d in (k, two):", "    await t.target(d, x, y)") == [(("x",), 1.0), (("x", "y"), 1.0)]
    left = ["for z in (x, y):", "    await t.target(k, z)", "    if c: return", "await t.target(k, x)"]
    assert regions(*left) == [(("x",), 1.0), (("y",), 0.5), (("x",), 0.25)]
    swapped = ["for _ in (c, c, c):", "    await t.target(k, x)", "    x, y = y, x"]
    assert regions(*swapped) == [(("x",), 1.0), (("y",), 1.0), (("x",), 1.0)]


def test_numbers_need_not_be_told() -> None:
    lines = ["for m in n:", "    m = m if c else n[0]", "    await t.target(k, x, m, n[1], 2 * m)"]
    assert regions(*lines) == [(("x",), 32.0)]


@pytest.mark.parametrize("call", ["await t.run(s)", "await s(t)", "await t.parallel(s)"])
def test_what_may_be_one_region_or_function_or_another_is_not_passed_over(call: str) -> None:
    made = "t.construct_target(k, {})" if "run" in call else "inner_{}"
    inner = [f"async def inner_{name}(t): await t.target(k, {name})" for name in "xy"]
    chosen = [*inner, f"s = {made.format('x')}", f"if c: s = {made.format('y')}", call]
    with pytest.raises(
        SourceRefused, match=r":7: host function 'f': what runs here cannot be told \(s is .*\); write an if"
    ):
        regions(*chosen)
    assert regions(*inner, f"s = {made.format('x')}", call) == [(("x",), 1.0)]


@pytest.mark.parametrize(
    ("lines", "step"),
    [
        (["steps = [t.construct_target(k, x)]", "for s in steps:", "    await t.run(s)"], "s"),
        (["s = build(t, x)", "await t.run(s)"], "s"),
        (["steps = [t.construct_target(k, x)]", "await t.run(steps[n % 1])"], "steps[n % 1]"),
        (["await t.run(build(t, x))"], "build(t, x)"),
        (["await t.run(c.step)"], "c.step"),
    ],
)
def test_a_region_that_is_not_known_is_not_passed_over(lines: list[str], step: str) -> None:
    with pytest.raises(SourceRefused, match=rf"which region {re.escape(step)} is cannot be told; write step = t.cons"):
        regions(*lines)


def test_updates_are_run_and_are_no_regions() -> None:
    lines = ["look = t.construct_target_update(c)", "await t.run(look)", "await t.run(t.construct_target_update(x))"]
    assert regions(*lines, "await t.target(k, x)") == [(("x",), 1.0)]


def test_regions_written_one_by_one_may_be_gone_through() -> None:
    made = ["r, s = t.construct_target(k, x), t.construct_target(k, y)"]
    assert regions(*made, "for step in (r, s):", "    await t.run(step)") == [(("x",), 1.0), (("y",), 1.0)]


def test_a_name_of_an_inner_function_is_not_that_of_the_one_around_it() -> None:
    inner = ["def outer():", "    x = c", "    def flip():", "        nonlocal x", "        x = y"]
    assert regions(*inner, "outer()", "await t.target(k, x)") == [(("x",), 1.0)]


def test_a_name_of_the_module_that_a_function_assigns_to_is_refused() -> None:
    lines = ["def flip():", "    global left", "    left = y", "while c:", "    await t.target(k, left)", "    flip()"]
    with pytest.raises(SourceRefused, match=re.escape("(left is assigned in flip of line 3)")):
        regions(*lines)
