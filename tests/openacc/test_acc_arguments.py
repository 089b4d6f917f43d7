"""What cannot be an argument of a directive or routine: one error, which names it, the thread and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from acc_kernels import increment
from openacc_rig import MakeRig
from wrong_calls import is_told

from offloadrt import openacc as acc


def enter(clause: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda t: t.enter_data(clause(t.array("a", 8)), **options)


def region(**options: Any) -> Callable[[Any], Any]:
    return lambda t: t.parallel(increment, t.array("a", 8), **options)


async def choose(t: Any, number: Any) -> None:
    t.acc_set_device_num(number)


def argument(bounds: Any) -> Callable[[Any], Any]:
    return lambda t: acc.jacc_arg_build("a", t.array("a", 8), acc.Attribute.PRESENT, bounds=bounds)


WRONG: list[tuple[Callable[[Any], Any], str]] = [
    (enter(lambda a: acc.copyin(None)), "enter data: None is neither an array nor a section"),
    (enter(lambda a: acc.copyin(np.zeros(3))), r"enter data: array\(\[0., 0., 0.\]\) is neither an array"),
    (enter(lambda a: acc.copyin(acc.section(np.zeros(3), 0, 2))), "section: array cannot be array"),
    (enter(lambda a: acc.copyin(acc.section(a, 4, 40))), r"a\[4:40\] reaches beyond the 8 elements"),
    (enter(lambda a: acc.copyout(a)), r"copyout\(…\) is not allowed on enter data"),
    (enter(lambda a: a), "enter data takes data clauses, not HostArray"),
    (enter(lambda a: acc.copyin(a, a)), "array 'a' stands in two data clauses of one enter data"),
    (enter(acc.copyin, async_="1"), "enter_data: async_ cannot be '1'; it takes int | None"),
    (enter(acc.copyin, async_=-7), "enter data: async value -7 is none"),
    (enter(acc.copyin, wait=1.0), r"enter_data: wait cannot be 1.0; it takes int | Sequence\[int\]"),
    (lambda t: t.wait(async_=t.array("a", 8)), "wait: async_ cannot be HostArray"),
    (region(data=5), r"parallel: data cannot be 5; it takes Sequence\[DataClause\]"),
    (lambda t: t.data(), r"data: at least one clause says of which data, as in copy\(a\)"),
    (lambda t: t.enter_data(), "enter data: at least one clause says of which data"),
    (lambda t: t.exit_data(), "exit data: at least one clause says of which data"),
    (lambda t: t.update(), "update: at least one clause says of which data"),
    (lambda t: t.host_data(), "host_data: at least one clause says of which data"),
    (lambda t: t.update(acc.host(t.array("a", 8)), if_present="no"), "update: if_present cannot be 'no'"),
    (lambda t: t.exit_data(acc.copyout(t.array("a", 8)), finalize="no"), "exit_data: finalize cannot be 'no'"),
    (lambda t: t.wait("a"), "wait: async value 'a' is none"),
    (lambda t: t.wait(-9), "wait: async value -9 is none"),
    (lambda t: t.update(acc.host(t.array("a", 8))), r"<a\+0> \(64 bytes\) is not present"),
    (lambda t: t.update(acc.copyin(t.array("a", 8))), r"update takes host\(…\) and device\(…\)"),
    (lambda t: choose(t, 9), "device number 9 is invalid"),
    (lambda t: choose(t, -1), "device number -1 is invalid"),
    (lambda t: choose(t, "0"), "acc_set_device_num: number cannot be '0'"),
    (lambda t: t.parallel(len, t.array("a", 8)), "len is no kernel"),
    (lambda t: t.parallel(increment, np.zeros(3)), "kernel 'increment': argument .* is a NumPy array"),
    (region(num_gangs=-1), "parallel: num_gangs is -1"),
    (region(vector_length="8"), "parallel: vector_length cannot be '8'"),
    (
        region(default="nothing"),
        r"parallel: default cannot be 'nothing'; it takes Literal\['copy', 'present', 'none'\]",
    ),
    (region(default="none"), r"array 'a' is used in parallel with default\(none\)"),
    (region(default="present"), r"<a\+0> \(64 bytes\) cannot be mapped: 'present'"),
    (
        lambda t: t.parallel(increment, (a := t.array("a", 8)), data=acc.copy(a)),
        "parallel: data cannot be DataClause",
    ),
    (lambda t: t.parallel(increment, (a := t.array("a", 8)), data=[a]), r"parallel: data cannot be \[HostArray"),
    (lambda t: t.host_data(np.zeros(2)).begin(), "host_data takes whole arrays of the program, not array"),
    (lambda t: t.host_data(None).begin(), "host_data takes whole arrays of the program, not None"),
    (
        lambda t: t.host_data(acc.section(t.array("a", 8), 0, 2)).begin(),
        "host_data takes whole arrays of the program, not",
    ),
    (lambda t: t.acc_is_present("a"), "acc_is_present: array cannot be 'a'"),
    (lambda t: acc.Jacc(t).jacc_copyin(np.zeros(3)), "jacc_copyin: .* is no array"),
    (argument((0, 99)), r"argument 'a': bounds \(0, 99\) lie outside of a\[0:8\]"),
    (argument("xy"), "argument 'a': bounds are 'xy', and not two whole numbers"),
    (argument((0, 1, 2)), r"argument 'a': bounds are \(0, 1, 2\), and not two whole numbers"),
]


def test_an_error_names_what_is_wrong(acc_rig: MakeRig) -> None:
    """Each is an error of its own run, with its thread and virtual time."""
    for wrong, message in WRONG:
        is_told(acc_rig().alone, wrong, message)
