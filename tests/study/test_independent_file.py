"""Files of measured results: what they hold, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from offloadrt.papers.independent import results, rules
from offloadrt.study import UserError
from offloadrt.study.independent.measured import parse, read
from offloadrt.study.independent.rules import parse as parse_rules

ENTRY = """
[[result]]
id = "one"
kind = "uvm_batch"
machine = "Tesla T4"
values = [{ name = "batches", value = 3, unit = "batches" }, { name = "span", unit = "ms" }]
"""


def test_a_value_may_come_without_its_number():
    (entry,) = parse(ENTRY, "f.toml")
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
        parse(ENTRY.replace(*change), "f.toml")
    assert str(caught.value).startswith(said)


def test_two_entries_of_one_id_are_refused():
    with pytest.raises(UserError, match=r"^f.toml: result 'one': id: another entry has it as well$"):
        parse(ENTRY + ENTRY, "f.toml")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ('scenario = "stream"', "run: Object missing required field `figures`"),
        (
            'scenario = "stream"\nfigures = { bathces = "batches" }',
            "run.figures.bathces: the entry has no value bathces",
        ),
        (
            'scenario = "stream"\nfigures.span = { figure = "span_s", difference_to = "x" }',
            "run.figures.span: the entry has",
        ),
        ('scenario = "stream"\nfigures = {}\nseed = 3', "run: Object contains unknown field `seed`"),
    ],
)
def test_a_bad_run_is_named_with_its_field(run, said):
    with pytest.raises(UserError) as caught:
        parse(f"{ENTRY}[result.run]\n{run}\n", "f.toml")
    assert str(caught.value).startswith(f"f.toml: result 'one': {said}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(UserError, match=r"none.toml: cannot be read: No such file"):
        read(tmp_path / "none.toml")


def test_the_entries_of_the_package_have_sources_and_the_rules_are_in_order():
    assert all(entry.source and entry.confidence for entry in results())
    assert len(results()) == 53
    assert rules().program


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("machine = []\nprogram = []\nprogams = []", "r.toml: the file: Object contains unknown field `progams`"),
        ("machine = [{ pattern = '(', profile = 't4' }]\nprogram = []", "r.toml: '(' is no pattern: "),
        ("machine = [{ pattern = 'T4' }]\nprogram = []", "r.toml: machine[0]: Object missing required field `profile`"),
    ],
)
def test_bad_rules_are_named_with_file_and_field(text, said):
    with pytest.raises(UserError) as caught:
        parse_rules(text, "r.toml")
    assert str(caught.value).startswith(said)
