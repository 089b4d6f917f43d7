"""Parameters of scenarios: read from texts, checked, explained."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import attrs
import pytest

from offloadrt.study import ParameterError, Range, UserError, scenario
from offloadrt.study.scripts.parameters import bind, parameter_help, parameters_of, split_assignment, sweep_axes


async def sample(
    run: Any,
    threads: Annotated[int, Range(1, 4096)] = 8,
    factor: Annotated[float, Range(0, None)] = 1.5,
    phantom: bool = True,
    memory: Literal["map", "pool"] = "map",
    size: Literal[5, 9] = 5,
    label: str = "x",
    patch: Annotated[int | None, Range(2)] = None,
) -> None:
    """A sample.

    Parameters:
        threads: how many
        memory: `map` or
            `pool`

    After the section: nothing of it.
    """


KNOWN = parameters_of(sample)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("threads", "16", 16),
        ("threads", "0x10", 16),
        ("threads", "1_000", 1000),
        ("threads", "007", 7),
        ("threads", "1e3", 1000),
        ("factor", "2", 2.0),
        ("factor", "1e-6", 1e-6),
        ("phantom", "false", False),
        ("phantom", "Yes", True),
        ("phantom", "0", False),
        ("memory", "pool", "pool"),
        ("size", "9", 9),
        ("label", "", ""),
        ("label", "none", "none"),
        ("patch", "none", None),
        ("patch", "5", 5),
    ],
)
def test_texts_become_values(name: str, text: str, value: object) -> None:
    read = KNOWN[name].read(text)
    assert read == value and type(read) is type(value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"treads": "2"}, "parameter treads: scenario s has no such parameter; did you mean threads?"),
        ({"zzz": "2"}, "parameter zzz: scenario s has no such parameter (it has: threads, factor"),
        ({"threads": "many"}, "parameter threads: 'many' is not a value: expected int, 1 to 4096"),
        ({"threads": "2.5"}, "parameter threads: '2.5' is not a value: expected int, 1 to 4096"),
        ({"threads": "0"}, "parameter threads: 0 is out of range: expected int, 1 to 4096"),
        ({"threads": 5000}, "parameter threads: 5000 is out of range"),
        ({"threads": True}, "parameter threads: True is not a value: expected int"),
        ({"threads": 2.0}, "parameter threads: 2.0 is not a value: expected int"),
        ({"threads": "inf"}, "parameter threads: 'inf' is not a value"),
        ({"factor": "-1"}, "parameter factor: -1.0 is out of range: expected float, 0 or more"),
        ({"factor": "nan"}, "parameter factor: nan is not finite"),
        ({"phantom": "maybe"}, "parameter phantom: 'maybe' is not a value: expected true or false"),
        ({"memory": "pol"}, "parameter memory: 'pol' is not one of map, pool; did you mean pool?"),
        ({"size": "7"}, "parameter size: '7' is not one of 5, 9"),
        ({"size": 7}, "parameter size: 7 is not one of 5, 9"),
        ({"patch": "1"}, "parameter patch: 1 is out of range: expected int, 2 or more, or none"),
        ({"label": 3}, "parameter label: 3 is not a value: expected text"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        bind(KNOWN, given, owner="scenario s")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_the_rest_takes_its_defaults() -> None:
    assert bind(KNOWN, {"threads": "2"}, owner="s") == {
        "threads": 2, "factor": 1.5, "phantom": True, "memory": "map", "size": 5, "label": "x", "patch": None,
    }  # fmt: skip


def test_a_parameter_without_default_is_needed() -> None:
    async def needy(run: Any, threads: int) -> None: ...

    with pytest.raises(ParameterError, match="parameter threads: s needs it: int"):
        bind(parameters_of(needy), {}, owner="s")


def test_help_comes_from_the_docstring() -> None:
    assert {name: parameter.help for name, parameter in KNOWN.items() if parameter.help} == {
        "threads": "how many",
        "memory": "`map` or `pool`",
    }
    assert parameter_help("No section here.", ["threads"]) == {}


@attrs.frozen
class Rules:
    limit: Annotated[int | None, Range(1, 9), "at most"] = None
    eager: Annotated[bool, "at once"] = False


async def with_rules(run: Any, threads: int = 1, rules: Rules = Rules(eager=True)) -> tuple[int, Rules]:
    """Run.

    Parameters:
        limit: of this scenario
    """
    return threads, rules


async def test_fields_of_a_class_are_parameters_that_scenarios_share() -> None:
    shared = scenario(with_rules)
    assert list(shared.parameters) == ["threads", "limit", "eager"]
    assert shared.parameters["limit"].expected == "int, 1 to 9, or none"
    assert [shared.parameters[name].help for name in ("limit", "eager")] == ["of this scenario", "at once"]
    assert shared.bind({"limit": "3"}) == {"threads": 1, "limit": 3, "eager": True}
    assert await shared(None, **shared.bind({"limit": 3, "eager": "no"})) == (1, Rules(3, False))
    assert await shared(None, threads=2) == (2, Rules(None, True))
    with pytest.raises(ParameterError, match="parameter limit: 10 is out of range: expected int, 1 to 9"):
        shared.bind({"limit": 10})


def _signatures() -> list[tuple[Any, str]]:
    async def untyped(run: Any, a=1) -> None: ...  # type: ignore[no-untyped-def]  # that is the case under test
    async def variadic(run: Any, *a: int) -> None: ...
    async def unreadable(run: Any, a: list[int] = []) -> None: ...  # noqa: B006 - its type is what is refused
    async def either(run: Any, a: int | str = 1) -> None: ...
    async def outside(run: Any, a: Annotated[int, Range(1, 2)] = 3) -> None: ...
    async def twice(run: Any, limit: int = 1, rules: Rules = Rules()) -> None: ...
    async def nothing() -> None: ...

    return [
        (untyped, "parameter a has no type"),
        (variadic, "cannot be a parameter"),
        (unreadable, "is not one of int, float"),
        (either, "a union of several types"),
        (outside, "the default of parameter a: 3 is out of range"),
        (twice, "two parameters are called limit"),
        (nothing, "takes the run as its first argument"),
    ]


@pytest.mark.parametrize(("function", "message"), _signatures(), ids=lambda value: getattr(value, "__name__", ""))
def test_a_signature_that_a_command_line_cannot_give_is_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        parameters_of(function)


def test_assignments_and_axes() -> None:
    assert split_assignment("a=b=c") == ("a", "b=c")
    for text in ("a", "=b", ""):
        with pytest.raises(UserError, match="name=value"):
            split_assignment(text)
    assert sweep_axes("s", ["b=1, 2"], {"a": (1, 2), "b": (3,)}) == {"a": (1, 2), "b": ("1", "2")}
    with pytest.raises(UserError, match="no sweep of its own"):
        sweep_axes("s", [], {})


def test_errors_survive_a_trip_to_another_process() -> None:
    import pickle

    error = ParameterError("threads", "0 is out of range")
    assert str(pickle.loads(pickle.dumps(error))) == str(error) == "parameter threads: 0 is out of range"
