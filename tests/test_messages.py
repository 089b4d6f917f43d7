"""Every message between actors is typed, frozen, described in a README of the package and understood by who gets it.

The rule: a class of message stands in the tuple ``MESSAGES`` of the module that defines it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest

import offloadrt
from offloadrt import openmp as omp
from offloadrt.driver import CudaDriver, Kfd, Uvm
from offloadrt.machine import Machine, load
from offloadrt.sim import Simulation

PACKAGE = Path(offloadrt.__file__).parent
SENDS = {"put", "call"}
"""Methods of ``sim.Mailbox`` that send a message."""


def modules() -> Iterator[tuple[str, str]]:
    """(dotted name, source) of every module above ``sim``."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        if parts[1] != "sim":
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield name, path.read_text(encoding="utf-8")


def defines_messages(tree: ast.Module) -> bool:
    targets = [node.targets if isinstance(node, ast.Assign) else [node.target] for node in tree.body if _assigns(node)]
    return any(isinstance(target, ast.Name) and target.id == "MESSAGES" for found in targets for target in found)


def _assigns(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Assign, ast.AnnAssign))


def all_messages() -> list[type]:
    """The classes of all ``MESSAGES`` tuples of the package."""
    found: list[type] = []
    for name, source in modules():
        if "MESSAGES" in source and defines_messages(ast.parse(source)):
            found.extend(importlib.import_module(name).MESSAGES)
    return found


MESSAGES = all_messages()


def sent_classes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, class) of every object that is made in the arguments of a ``put`` or ``call``, or kept to be sent."""
    constants = {
        target.id: value.func.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(value := node.value, ast.Call)
        and isinstance(value.func, ast.Name)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SENDS:
            for argument in node.args:
                for part in ast.walk(argument):
                    if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id[:1].isupper():
                        yield node.lineno, part.func.id
                    elif isinstance(part, ast.Name) and part.id in constants:
                        yield node.lineno, constants[part.id]


def described_messages() -> list[str]:
    """The classes that the package's READMEs list: the first column of each table that begins with ``| message |``."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("README.md"))]
    tables = [
        rows
        for text in texts
        for rows in re.findall(r"^\| message \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    ]
    return [name for rows in tables for row in rows.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]


def test_the_audit_finds_the_messages() -> None:
    names = [message.__name__ for message in MESSAGES]
    assert len(names) == len(set(names)), "two classes of message have one name"
    assert {"CopyPacket", "DrainKernels", "RunTask"} <= set(names)


def test_the_readmes_list_every_message_once_and_no_other() -> None:
    assert sorted(described_messages()) == sorted(message.__name__ for message in MESSAGES)


def test_whatever_is_sent_is_a_listed_message() -> None:
    known = {message.__name__ for message in MESSAGES}
    sent = [(name, line, made) for name, source in modules() for line, made in sent_classes(ast.parse(source))]
    assert {made for _, _, made in sent} & known, "the audit sees no message being sent"
    assert [one for one in sent if one[2] not in known] == []


def made(message: type) -> Any:
    """A message whose fields are all None."""
    return message(*[None for _ in inspect.signature(message).parameters])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
class TestMessage:
    def test_is_a_class_of_fields_with_a_docstring(self, message: type) -> None:
        assert attrs.has(message) or issubclass(message, msgspec.Struct)
        assert message.__doc__
        assert not message.__doc__.startswith("Method generated")

    def test_is_frozen(self, message: type) -> None:
        instance = made(message)
        for field in [*instance.__slots__, "cause"]:
            with pytest.raises(AttributeError):
                setattr(instance, field, 1)

    def test_has_slots_only(self, message: type) -> None:
        assert not hasattr(made(message), "__dict__")


# Unknown messages


@attrs.frozen
class Stranger:
    """A message that no actor knows; it looks as much like a packet as is needed to be submitted to a stream."""

    done: None = None
    cause: int = 0


@attrs.define
class Actors:
    """All actors of an emulated machine with an OpenMP program, and of an APU with its kernel driver, started."""

    sim: Simulation
    machine: Machine
    driver: CudaDriver
    program: omp.OpenMP
    apu: Kfd
    uvm: Uvm


async def to_a_hardware_queue(actors: Actors) -> None:
    stream = await actors.driver.streams.create()
    stream.submit(Stranger())  # type: ignore[arg-type]  # it is no packet: that is the point


async def to_the_compute_units(actors: Actors) -> None:
    actors.machine.devices[0].start()
    actors.machine.devices[0].compute.mailbox.put(Stranger())


async def to_the_compute_units_as_a_call(actors: Actors) -> None:
    actors.machine.devices[0].start()
    await actors.machine.devices[0].compute.mailbox.call(Stranger())


async def to_a_copy_engine(actors: Actors) -> None:
    actors.machine.devices[0].start()
    actors.machine.devices[0].engines["h2d"].mailbox.put(Stranger())


def mailbox_of(owner: Any, name: str) -> Any:
    """A mailbox that only its owner sends to."""
    return getattr(owner, name)


async def to_a_dma_ring(actors: Actors) -> None:
    actors.apu.device.rings[0].mailbox.put(Stranger())


async def to_an_hsa_queue(actors: Actors) -> None:
    stream = actors.apu.device.open_stream()
    actors.apu.device.hsa_queues.take(stream).submit(Stranger())  # type: ignore[arg-type]  # that is the point


async def to_the_page_fault_handler(actors: Actors) -> None:
    faults = actors.apu.device.faults
    assert faults is not None
    faults.handler.put(Stranger())


async def to_the_page_fault_handler_of_managed_memory(actors: Actors) -> None:
    actors.uvm.handler.mailbox.put(Stranger())


async def to_the_migration_worker(actors: Actors) -> None:
    actors.uvm.worker.mailbox.put(Stranger())


async def to_a_remote_port(actors: Actors) -> None:
    mailbox_of(actors.uvm.kernels, "ports")["h2d"].submit(Stranger())


async def to_a_peer_relay(actors: Actors) -> None:
    peers = actors.machine.peers
    assert peers is not None
    peers.relay.submit(Stranger())  # type: ignore[arg-type]  # that is the point


async def to_the_callback_thread(actors: Actors) -> None:
    actors.driver.streams.callbacks().mailbox.put(Stranger())


async def to_the_hidden_helper_threads(actors: Actors) -> None:
    mailbox_of(actors.program.helpers, "_ready").put(Stranger())


@pytest.mark.parametrize("gear", ["native", "turbo"])
@pytest.mark.parametrize(
    "send",
    [
        to_a_hardware_queue,
        to_the_compute_units,
        to_the_compute_units_as_a_call,
        to_a_copy_engine,
        to_a_dma_ring,
        to_an_hsa_queue,
        to_the_page_fault_handler,
        to_the_page_fault_handler_of_managed_memory,
        to_the_migration_worker,
        to_a_remote_port,
        to_a_peer_relay,
        to_the_callback_thread,
        to_the_hidden_helper_threads,
    ],
    ids=lambda send: send.__name__,
)
def test_an_actor_refuses_a_message_that_it_does_not_know(send: Callable[[Actors], Any], gear: Any) -> None:
    sim = Simulation(gear=gear)
    machine = Machine(sim, load("alex-a100"))
    driver = CudaDriver.of(machine)
    apu = Machine(sim, load("mi300a"))
    managed = CudaDriver.of(Machine(sim, load("summitdev-p100"))).managed.manage()
    actors = Actors(sim, machine, driver, omp.OpenMP(machine, [driver]), Kfd(apu, apu.devices[0]), managed)

    async def main() -> None:
        actors.program.start()
        actors.apu.start()
        actors.uvm.start()
        await send(actors)
        await sim.sleep(1.0)

    with pytest.raises(TypeError, match=r"do(es)? not understand"):
        sim.run(main)
