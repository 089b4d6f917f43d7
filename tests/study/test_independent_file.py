"""Files of measured results: what they hold, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from offloadrt.extensions.evidence.independent.prediction import NO_RUN, parse, plan, read
from offloadrt.papers.independent import results
from offloadrt.study import UserError

ENTRY = """
[[result]]
id = "one"
kind = "uvm_batch"
machine = "Tesla T4"
values = [{ name = "batches", value = 3, unit = "batches" }, { name = "span", unit = "ms" }]
"""
UNPREDICTED = 'not_predicted = "no machine"'


def test_a_value_may_come_without_its_number():
    (entry,) = parse(ENTRY + UNPREDICTED, "f.toml")
    assert [(value.name, value.value) for value in entry.values] == [("batches", 3), ("span", None)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("[[result]]", "[[results]]"), "f.toml: result: the file has no [[result]] tables"),
        (('id = "one"', "id = 1"), "f.toml: result number 1: id: Expected `str`, got `int`"),
        (('kind = "uvm_batch"', ""), "f.toml: result 'one': kind: Object missing required field `kind`"),
        ((', unit = "ms"', ""), "f.toml: result 'one': values[1]: Object missing required field `unit`"),
        (("value = 3", 'value = "3"'), "f.toml: result 'one': values[0].value: Expected `float | null`, got `str`"),
        (("value = 3", "value = nan"), "f.toml: result 'one': values[0].value: nan is not finite"),
        (('"span"', '"batches"'), "f.toml: result 'one': values[1].name: 'batches' is there twice"),
        (("values = [{", "values = [] # [{"), "f.toml: result 'one': values: there are none"),
        (('id = "one"', 'id = "one'), "f.toml: Illegal character"),
    ],
)
def test_a_bad_entry_is_named_with_file_and_field(change, said):
    with pytest.raises(UserError) as caught:
        parse(ENTRY.replace(*change) + UNPREDICTED, "f.toml")
    assert str(caught.value).startswith(said)


def test_two_entries_of_one_id_are_refused():
    with pytest.raises(UserError, match=r"^f.toml: result 'one': id: another entry has it as well$"):
        parse((ENTRY + UNPREDICTED) * 2, "f.toml")


RUN = 'scenario = "stream"\nmachine = "t4"\n'


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ('machine = "t4"\nfigures = {}', "run: Object missing required field `scenario`"),
        ('scenario = "stream"\nfigures = {}', "run: Object missing required field `machine`"),
        (RUN, "run: Object missing required field `figures`"),
        (f'{RUN}figures = {{ bathces = "batches" }}', "run.figures.bathces: the entry has no value bathces"),
        (f'{RUN}figures.span = {{ figure = "span_s", difference_to = "x" }}', "run.figures.span: the entry has"),
        (f"{RUN}figures = {{}}\nseed = 3", "run: Object contains unknown field `seed`"),
        (
            f'{RUN}figures = {{}}\nnot_predicted = {{ spam = "?" }}',
            "run.not_predicted.spam: the entry has no value spam",
        ),
        (
            f'{RUN}figures = {{ span = "span_s" }}\nnot_predicted = {{ span = "?" }}',
            "run.not_predicted.span: the run has a figure for it",
        ),
    ],
)
def test_a_bad_run_is_named_with_its_field(run, said):
    with pytest.raises(UserError) as caught:
        parse(f"{ENTRY}[result.run]\n{run}\n", "f.toml")
    assert str(caught.value).startswith(f"f.toml: result 'one': {said}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=r"none.toml: cannot be read: No such file"):
        read(tmp_path / "none.toml")


def test_an_entry_has_a_run_or_is_not_predicted_and_not_both():
    (planned,) = (plan(entry, "f.toml") for entry in parse(ENTRY, "f.toml"))
    assert {value.reason for value in planned.values} == {NO_RUN}
    with pytest.raises(UserError, match=r"^f.toml: result 'one': not_predicted: the entry has a run"):
        parse(f"{ENTRY}{UNPREDICTED}\n[result.run]\n{RUN}figures = {{}}", "f.toml")


def test_the_entries_of_the_package_have_sources():
    assert all(entry.source and entry.confidence for entry in results())
    assert len(results()) == 78


def test_each_value_of_the_package_has_a_figure_or_a_reason():
    for entry in results():
        if entry.run is not None:
            named = {*entry.run.figures, *entry.run.not_predicted}
            assert named == {value.name for value in entry.values}, entry.id
