"""The description of a run: from the command line to JSON, to the key of a sweep's store and back."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest
from cyclopts import App

from offloadrt.study import ParameterError, Run, UserError, execute, find_scenario
from offloadrt.study import spec as spec_module
from offloadrt.study.spec import AXES, POLICIES, RunSpec, options
from offloadrt.study.sweep import Keys, Point

QUEUEING = f"{Path(__file__).with_name('toys.py')}:queueing"
CHANGED = RunSpec(
    machine="mi300a",
    table_policy="barging",
    overrides={"alloc.cudaFree": "20us", "jitter": "0.1"},
    environment={"HSA_XNACK": "0"},
    range_end={"table.insert": 0.25},
    inputs={"otm.size": "low"},
    seed=3,
    strategy="random(2)",
    repeat=4,
    hash=True,
    record=True,
    sample_phases=True,
    faults=("cuMemAlloc:3", "slow:h2d:10x@2ms"),
)
COMMAND_LINE = attrs.evolve(CHANGED, record=False, range_end={}, inputs={})
"""The same without the fields that the command line does not have."""


def parsed(module: ModuleType, words: list[str]) -> Any:
    """Read words as the options of a command that takes a spec."""
    app = App(name="app", result_action="return_value")
    default = module.RunSpec()

    def command(*, spec=default) -> object:
        return spec

    command.__annotations__["spec"] = module.RunSpec
    app.command(command, name="command")
    return app(["command", *words], exit_on_error=False, print_error=False)


@pytest.fixture
def with_one_more_field() -> Any:
    """The module as it would be with one more field, and nothing else."""
    source = Path(str(spec_module.__file__)).read_text(encoding="utf-8")
    marker = "    record: Annotated["
    assert source.count(marker) == 1
    field = '    one_more: Annotated[str | None, Parameter(help="Something new.")] = None\n'
    module = ModuleType("one_more_field")
    sys.modules[module.__name__] = module
    exec(source.replace(marker, field + marker), module.__dict__)
    yield module
    del sys.modules[module.__name__]


def test_a_field_alone_makes_an_option_of_the_command_line_of_json_and_of_the_key(with_one_more_field: Any) -> None:
    module = with_one_more_field
    spec = parsed(module, ["--one-more", "x", "--seed", "1"])
    assert spec == module.RunSpec(one_more="x", seed=1)
    assert spec.words() == ["--seed", "1", "--one-more", "x"]
    assert spec.to_json() == b'{"seed":1,"one_more":"x"}' and module.RunSpec.from_json(spec.to_json()) == spec
    assert spec.options_of_result() == {"one_more": "x"}


def test_a_new_field_changes_no_key_that_was_stored(with_one_more_field: Any) -> None:
    later = with_one_more_field.RunSpec(**CHANGED.changed())
    assert later.changed() == CHANGED.changed()
    points = [Point(QUEUEING, {}, spec) for spec in (CHANGED, later)]
    assert Keys().of(points[0]) == Keys().of(points[1])


def test_a_spec_comes_back_from_json() -> None:
    assert RunSpec.from_json(CHANGED.to_json()) == CHANGED
    assert RunSpec.from_json(RunSpec().to_json()) == RunSpec() and RunSpec().to_json() == b"{}"


def test_a_spec_comes_back_from_its_words() -> None:
    words = COMMAND_LINE.words()
    assert words[:4] == ["--machine", "mi300a", "--table-policy", "barging"]
    assert words[-6:] == ["--env", "HSA_XNACK=0", "--set", "alloc.cudaFree=20us", "--set", "jitter=0.1"]
    assert parsed(spec_module, words) == COMMAND_LINE
    assert parsed(spec_module, []) == RunSpec() and RunSpec().words() == []


def test_every_field_differs_in_the_specs_above() -> None:
    alike = set(attrs.fields_dict(RunSpec)) - CHANGED.changed().keys()
    assert alike == {"runtime", "configuration", "allocator", "gear"}


@pytest.mark.parametrize("name", sorted(CHANGED.changed()))
def test_equal_specs_have_equal_hashes_and_keys_and_others_do_not(name: str) -> None:
    same = RunSpec(
        **{key: value.copy() if isinstance(value, dict) else value for key, value in CHANGED.changed().items()}
    )
    assert same == CHANGED and hash(same) == hash(CHANGED)
    other = attrs.evolve(CHANGED, **{name: getattr(RunSpec(), name)})
    assert other != CHANGED and hash(other) != hash(CHANGED)
    assert Point(QUEUEING, {}, same).key == Point(QUEUEING, {}, CHANGED).key != Point(QUEUEING, {}, other).key


def test_a_spec_does_not_change_with_what_it_was_made_of() -> None:
    overrides = {"alloc.cudaFree": "20us"}
    spec = RunSpec(overrides=overrides)
    overrides["alloc.cudaFree"] = "0"
    assert spec.overrides == {"alloc.cudaFree": "20us"}


def test_axes_are_the_machine_the_runtime_and_the_policies() -> None:
    assert ("machine", "runtime", *POLICIES) == AXES and set(POLICIES) < set(AXES)
    assert options()["overrides"] == "--set" and options()["table_policy"] == "--table-policy"
    assert "record" not in options()


def test_a_run_takes_a_spec_and_fields_by_name() -> None:
    run = Run(RunSpec(machine="mi300a", seed=5), seed=6)
    assert (run.spec.name, run.seed) == ("mi300a", 6)
    scenario = find_scenario(QUEUEING)
    assert execute(scenario, spec=RunSpec(seed=5), hash=True) == execute(scenario, seed=5, hash=True)


@pytest.mark.parametrize("make", [Run, RunSpec, lambda **fields: execute(find_scenario(QUEUEING), **fields)])
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seed": -1}, "^--seed -1: it cannot be negative$"),
        ({"seed": 1.5}, "^--seed 1.5: it is no whole number$"),
        ({"gear": "fast"}, "^--gear fast: it can be native or turbo$"),
        ({"repeat": 0}, "^--repeat 0: it can be 1 to 1,000,000$"),
        ({"faults": "cuMemAlloc:3"}, "takes a list of texts"),
    ],
)
def test_fields_that_cannot_be_are_refused(make: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make(**fields)
    with pytest.raises((TypeError, ParameterError), match="no_field"):
        make(no_field=1)


def test_all_ranges_at_one_end_leave_none_for_another() -> None:
    assert RunSpec(range_end="mean") == RunSpec()
    with pytest.raises(UserError, match="range_end low: it is of all ranges"):
        RunSpec(range_end="low").with_ends({"table.insert": "high"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"machine": ""}, r"^'': is neither a machine"),
        ({"hash": "x"}, r"^--hash 'x': it can be True or False"),
        ({"record": 3}, r"^--record 3: it can be True or False"),
        ({"sample_phases": "no"}, r"^--sample-phases 'no': it can be True or False"),
        ({"repeat": "x"}, r"^--repeat 'x': it can be 1 to"),
        ({"environment": 3}, r"^3: overrides, environment, inputs and range_end are dicts by name"),
        ({"overrides": ["jitter"]}, r"are dicts by name"),
        ({"sinks": [3]}, r"^sinks: 3 is no sink of a trace"),
    ],
)
def test_what_no_run_can_be_is_refused_by_name(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Run(**fields)


@pytest.mark.parametrize("fields", [{"hash": True}, {"record": True}])
def test_a_run_that_is_too_long_for_a_trace_says_so(fields: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text(
        "from offloadrt import Run, scenario\n\n\n@scenario\nasync def long(run: Run, days: int = 200):\n"
        "    async def body(t):\n        await t.compute(days * 86400.0)\n\n    await run.parallel(body)\n"
    )
    with pytest.raises(UserError, match=r"^virtual time 1\.73e\+07 s: a trace reaches 9\.2e\+06 s; --log"):
        execute(find_scenario(str(path)), spec=RunSpec(**fields))
    assert execute(find_scenario(str(path))).warnings[0].startswith("it took 200 days of virtual time")
