"""Which memory configuration the runtime takes: the whole truth table of the zero-copy paper's rules."""

from __future__ import annotations

import itertools

import pytest

from offloadrt.runtime.environment import select_configuration
from offloadrt.runtime.errors import UnifiedMemoryUnavailable
from offloadrt.study import execute, find_scenario
from offloadrt.study.errors import UserError
from offloadrt.study.running.run import Run

ZERO_COPY = {
    # APU, XNACK, OMPX_APU_MAPS: what a program is run under that was built for copies
    (False, False, False): "copy",
    (False, False, True): "copy",
    (False, True, False): "copy",
    (False, True, True): "implicit_zero_copy",
    (True, False, False): "copy",
    (True, False, True): "copy",
    (True, True, False): "implicit_zero_copy",
    (True, True, True): "implicit_zero_copy",
}
DEVICES = sorted(ZERO_COPY)


def select(usm: bool, apu: bool, xnack: bool, apu_maps: bool, eager: bool, unified: bool = True) -> str:
    environ = {"OMPX_APU_MAPS": str(int(apu_maps)), "OMPX_EAGER_ZERO_COPY_MAPS": "true" if eager else "false"}
    return select_configuration(usm, apu, xnack, unified, environ)


@pytest.mark.parametrize("device", DEVICES)
def test_a_program_built_for_copies(device: tuple[bool, bool, bool]) -> None:
    apu, xnack, apu_maps = device
    assert select(False, apu, xnack, apu_maps, eager=False) == ZERO_COPY[device]


@pytest.mark.parametrize("device", DEVICES)
def test_eager_maps_need_no_xnack(device: tuple[bool, bool, bool]) -> None:
    assert select(False, *device, eager=True) == "eager_maps"


@pytest.mark.parametrize(("device", "eager"), list(itertools.product(DEVICES, (False, True))))
def test_what_is_built_for_unified_shared_memory_gets_it_or_does_not_start(
    device: tuple[bool, bool, bool], eager: bool
) -> None:
    assert select(True, *device, eager=eager) == "usm"
    with pytest.raises(UnifiedMemoryUnavailable, match="requires unified_shared_memory"):
        select(True, *device, eager=eager, unified=False)


def test_nothing_is_set_in_an_empty_environment() -> None:
    assert select_configuration(False, True, True, True, {}) == "implicit_zero_copy"
    assert select_configuration(False, False, False, False, {}) == "copy"


def chosen(machine: str, **environment: str) -> str:
    """What a run takes in an environment."""
    run = Run(machine=machine, environment=environment)
    run.configuration = "environment"
    return run.openmp.devices[0].configuration.name


@pytest.mark.parametrize(
    ("environment", "configuration"),
    [
        ({}, "implicit_zero_copy"),
        ({"HSA_XNACK": "0"}, "copy"),
        ({"HSA_XNACK": "0", "OMPX_EAGER_ZERO_COPY_MAPS": "1"}, "eager_maps"),
    ],
)
def test_a_run_on_an_apu_asks_the_environment(environment: dict[str, str], configuration: str) -> None:
    assert chosen("mi300a", **environment) == configuration


def test_an_implicit_zero_copy_binary_copies_on_a_discrete_device() -> None:
    assert chosen("alex-a100") == "copy"
    with pytest.raises(UserError, match="'implicit_zero_copy' on alex-a100: only the kernels of an APU"):
        chosen("alex-a100", HSA_XNACK="1", OMPX_APU_MAPS="1")


def test_variables_that_are_entries_of_the_machine() -> None:
    run = Run(machine="mi300a", environment={"LIBOMPTARGET_AMDGPU_NUM_HSA_QUEUES": "2"})
    assert run.machine.spec.count("hsa.queues") == 2


def test_an_unknown_variable_is_an_error() -> None:
    with pytest.raises(UserError, match="OMPX_APU_MAP: nothing reads it; did you mean OMPX_APU_MAPS"):
        chosen("mi300a", OMPX_APU_MAP="1")


@pytest.mark.parametrize(
    ("variables", "calls"),
    [
        ({"HSA_XNACK": "1"}, {"svm_attributes_set": 0, "memory_async_copy": 1}),
        ({"HSA_XNACK": "0"}, {"svm_attributes_set": 0, "memory_async_copy": 4}),
        ({"OMPX_EAGER_ZERO_COPY_MAPS": "1"}, {"svm_attributes_set": 4, "memory_async_copy": 1}),
    ],
)
def test_a_scenario_that_lets_the_runtime_choose(variables: dict[str, str], calls: dict[str, int]) -> None:
    given = {"n": 64, "iterations": 1, "configuration": "environment"}
    result = execute(find_scenario("fig2_zerocopy"), given, environment=variables)
    found = {name: result.calls[name].count if name in result.calls else 0 for name in calls}
    assert found == {**calls, "memory_async_copy": calls["memory_async_copy"] + 3}
