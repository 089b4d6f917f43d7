"""What is predicted of measured results: which run, which figure, and how far it is off."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.extensions.evidence.independent.outcome import (
    Accuracy,
    KindAccuracy,
    PredictedEntry,
    PredictedValue,
    intervals,
)
from offloadrt.extensions.evidence.independent.prediction import (
    UnitMismatch,
    converted,
    parse,
    predict,
    unit_of,
)
from offloadrt.study import UserError
from offloadrt.study.sweep import InProcess

TOYS = Path(__file__).parent / "toys.py"


def run_of(figures, parameters="threads = 4", scenario="queueing", machine="t4", more=""):
    named = f'scenario = "{TOYS}:{scenario}"\nmachine = "{machine}"\nparameters = {{ {parameters} }}\n'
    return f"[result.run]\n{named}figures = {{ {figures} }}\n{more}"


ELAPSED = run_of('x = "elapsed_s"')
THRESHOLD_101 = 'figures.x = { figure = "kernel_s", parameters = { threshold = 101 } }'


def entry(values, run=ELAPSED, what="queue of 4", kind="toy"):
    return f"""
[[result]]
id = "{what.replace(" ", "-")}"
kind = "{kind}"
machine = "T4"
what = "{what}"
values = [{", ".join(f'{{ name = "{n}", value = {v}, unit = "{u}" }}' for n, v, u in values)}]
{run}
"""


def predicted(*entries, draws=0):
    return predict(parse("".join(entries), "f.toml"), "f.toml", InProcess(), draws=draws)


def value_of(*entries, **options):
    (only,) = predicted(*entries, **options).entries
    (value,) = only.values
    return value


def test_an_entry_names_its_run_and_the_unit_of_the_value_is_kept():
    value = value_of(entry([("x", 1000, "ms")]))
    assert (value.emulated, value.ratio) == (2000.0, 2.0)  # four threads hold the lock for half a second each
    assert value.error == pytest.approx(math.log(2))


def test_an_entry_says_more_of_a_figure_where_its_name_does_not_do():
    figures = """a = { figure = "elapsed_s", parameters = { threads = 8 } },
        b = { figure = "elapsed_s", over = { threads = 1 } }, c = { figure = "elapsed_s", difference_to = "a" },
        d = { figure = "contended", unit = "ms" }""".replace("\n", " ")
    values = [("a", 4, "s"), ("b", 4, "ratio"), ("c", 1, "s"), ("d", 1, "s")]
    values = predicted(entry(values, run_of(figures))).entries[0].values
    assert [value.emulated for value in values] == [4.0, 4.0, -2.0, 0.003]
    assert values[2].reported == -3.0 and values[2].difference_to == "a"


def test_the_value_that_others_are_differences_to_is_not_compared_itself():
    figures = 'a = { figure = "elapsed_s", difference_to = "a" }, b = { figure = "elapsed_s", difference_to = "a" }'
    values = predicted(entry([("a", 10, "s"), ("b", 12, "s")], run_of(figures))).entries[0].values
    assert values[0].emulated is None and "the others of its entry" in values[0].reason
    assert (values[1].reported, values[1].emulated) == (2.0, 0.0)


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ('not_predicted = "kernels are not predicted"', "kernels are not predicted"),
        (run_of(""), "its run names no figure for it"),
        (run_of("", more='not_predicted = { x = "it is an input" }'), "it is an input"),
        (run_of('x = { figure = "elapsed_s", difference_to = "y" }'), "its difference to y, which is not predicted"),
        (run_of('x = "note"'), "its run has no figure note here"),
    ],
)
def test_what_is_not_predicted_has_a_reason(run, reason):
    unit = "note" if "note" in run else "s"
    first, _ = predicted(entry([("x", 1, unit), ("y", 1, "s")], run)).entries[0].values
    assert first.emulated is None and first.error is None
    assert reason in first.reason


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ('scenario = "nothing"\nmachine = "t4"\nfigures = {}', "run.scenario: no scenario is called nothing"),
        (
            'scenario = "stream"\nmachine = "t4"\nfigures = {}\nparameters = { size = 1 }',
            "run.parameters.size: scenario stream has no",
        ),
        ('scenario = "stream"\nmachine = "no-such-profile"\nfigures = {}', "run.machine: "),
        (
            'scenario = "stream"\nmachine = "t4"\nfigures.x = "to_device_bytes"',
            "run.figures.x: to_device_bytes: the value is in s and the figure in B",
        ),
        (
            'scenario = "stream"\nmachine = "t4"\nfigures.x = { figure = "kernel_s", over = { threshold = 101 } }',
            "run.figures.x: kernel_s: the value is in s and the figure in fraction",
        ),
        (
            f'scenario = "stream"\nmachine = "t4"\n{THRESHOLD_101}',
            "run.figures.x.parameters.threshold: ",
        ),
    ],
)
def test_a_run_that_cannot_be_made_is_an_error_with_entry_and_field(run, said):
    with pytest.raises(UserError) as caught:
        predicted(entry([("x", 1, "s")], f"[result.run]\n{run}", what="x"))
    assert str(caught.value).startswith(f"f.toml: result 'x': {said}")


def test_the_digest_moves_with_values_runs_and_machines_and_not_with_words():
    one = entry([("x", 1, "s")])
    digests = [
        predicted(text).digest
        for text in [
            one,
            entry([("x", 2, "s")]),
            entry([("x", 1, "s")], run_of('x = "elapsed_s"', "threads = 5")),
            entry([("x", 1, "s")], run_of('x = "elapsed_s"', machine="titan-v")),
        ]
    ]
    assert len(set(digests)) == 4
    assert predicted(one.replace("what =", 'note = "new words"\nwhat =')).digest == digests[0]


def test_a_run_that_fails_makes_its_values_not_predicted():
    value = value_of(entry([("x", 1, "s")], run_of('x = "elapsed_s"', "bang = true", scenario="picky")))
    assert value.emulated is None and "as told" in value.reason


def test_the_spread_holds_what_the_ranges_do():
    run = '[result.run]\nscenario = "stream"\nmachine = "t4"\nparameters.elements = 65536\nfigures.x = "kernel_s"'
    value = value_of(entry([("x", 1, "ms")], run), draws=8)
    assert value.low < value.emulated < value.high


def test_draws_leave_out_inputs_and_what_says_why_and_the_report_names_the_latter():
    run = '[result.run]\nscenario = "stream"\nmachine = "t4"\nparameters.elements = 65536\nfigures.x = "kernel_s"'
    long = entry([("x", 1, "ms")], f'not_drawn = "it takes a day"\n{run}', what="long")
    one, two = (entry([("x", 1, "ms")], run, what=what, kind=kind) for what, kind in (("a", "b"), ("c", "unit_cost")))
    report = predicted(one, long, two, draws=1)
    assert len(report.entries) == 1 and report.runs == 3, "as it stands, as if nobody had measured, and in the draw"
    assert "it takes a day" in "".join(map(str, intervals(report)))
    assert len(predicted(one, long, two).entries) == 3


def test_values_outside_of_their_intervals_are_counted_by_cause():
    """Three values of a millisecond, of a kernel that takes microseconds, and one that is right."""
    run = '[result.run]\nscenario = "stream"\nmachine = "t4"\nparameters.elements = 65536\nfigures = {figures}\n'
    two = run.format(figures='{ x = "kernel_s", y = "kernel_s" }')
    far = entry([("x", 9, "ms"), ("y", 9, "ms")], f'missed = {{ x = "late", "*" = "early" }}\n{two}', what="a")
    also = entry([("x", 9, "ms")], 'missed.x = "early"\n' + run.format(figures='{ x = "kernel_s" }'), what="b")
    said = "\n".join(map(str, intervals(predicted(far, also, draws=1))))
    assert "[bold]outside, by cause[/]: 3 values\n  2 on t4: early\n  1 on t4: late\n" in said


@given(st.lists(st.floats(0, 5), min_size=1, max_size=40))
def test_the_accuracy_of_a_kind_is_what_numpy_says(errors):
    accuracy = Accuracy.of(errors)
    assert accuracy.values == len(errors)
    assert accuracy.median == pytest.approx(np.median(errors))
    assert accuracy.p90 == np.quantile(errors, 0.9, method="inverted_cdf")


def test_accuracies_are_for_each_kind_and_leave_out_inputs_and_what_is_not_predicted():
    report = predicted(
        entry(
            [("all", 1, "s"), ("two", 1, "s")],
            run_of('all = "elapsed_s", two = { figure = "elapsed_s", parameters = { threads = 2 } }'),
            kind="b",
        ),
        entry([("x", 4, "s"), ("none", 1, "s")], what="queue of 5", kind="a"),
        entry([("x", 1, "s")], what="queue of 6", kind="unit_cost"),
    )
    kinds = {accuracy.kind: accuracy.today for accuracy in report.accuracies()}
    counts = {"a": 1, "b": 2, "on t4": 3, "in what has no known weakness": 3, "all": 3}
    assert {kind: accuracy.values for kind, accuracy in kinds.items()} == counts
    assert kinds["b"].median == pytest.approx(math.log(2) / 2)  # ratios of 2 and 1


def test_the_three_predictions_of_a_value_are_summed_up_apart():
    values = [PredictedValue("x", "s", 1.0, 2.0, first=8.0, left_out=4.0), PredictedValue("y", "s", 1.0, 2.0)]
    of = KindAccuracy.of("k", values)
    assert [(a and (a.values, math.exp(a.median))) for a in (of.today, of.first, of.left_out)] == [
        (2, pytest.approx(2)),
        (1, pytest.approx(8)),
        (1, pytest.approx(4)),
    ]


def test_a_machine_that_is_left_out_is_predicted_from_others():
    """T4's costs of a fault do not come from its own measurements then; what a data sheet says stays."""
    run = '[result.run]\nscenario = "stream"\nmachine = "t4"\nparameters.elements = 1048576\nfigures.x = "kernel_s"'
    value = value_of(entry([("x", 1, "ms")], run))
    assert value.left_out is not None and value.left_out != value.emulated
    other = value_of(entry([("x", 1, "ms")], run.replace('"t4"', '"rtx-5070ti"')))
    assert other.left_out == other.emulated


@pytest.mark.parametrize(
    ("reported", "emulated", "error"), [(0, 0, 0), (0, 1, math.inf), (-1, 1, math.inf), (2, 1, math.log(2))]
)
def test_a_wrong_sign_is_infinitely_wrong(reported, emulated, error):
    assert PredictedValue("x", "s", reported, emulated).error == pytest.approx(error)


@pytest.mark.parametrize(
    ("number", "unit", "to", "expected"),
    [
        (0.5, "fraction", "%", 50),
        (1e-9, "s/B", "us/KB", 1),
        (2e-6, "s", "ms", 2e-3),
        (3, "batches", "batches", 3),
        (1 << 20, "B", "MiB", 1),
        (5e9, "B/s", "GB/s", 5),
        (2e12, "FLOP/s", "TFLOP/s", 2),
    ],
)
def test_figures_are_converted_to_the_unit_of_the_value(number, unit, to, expected):
    assert converted(number, unit, to) == pytest.approx(expected)


def test_a_figure_of_another_dimension_is_refused():
    with pytest.raises(UnitMismatch, match="the value is in ms and the figure in B"):
        converted(1, unit_of("to_device_bytes"), "ms")


def test_a_cause_belongs_to_values_that_are_far_off() -> None:
    near, far, wrong_sign = (
        PredictedValue("near", "us", 1.0, 2.9),
        PredictedValue("far", "us", 3.1, 1.0),
        PredictedValue("sign", "us", 1.0, -1.0),
    )
    entry = PredictedEntry("e", "toy", "", [near, far, wrong_sign, PredictedValue("none", "us", 1.0)], "why")
    assert entry.far_off == ["far", "sign"]


def test_values_of_one_entry_may_be_of_two_programs() -> None:
    """The program of a value is the entry's own, or the one that its figure names with all its parameters."""
    other = f'{{ figure = "elapsed_s", scenario = "{TOYS}:queueing", parameters = {{ threads = 4 }} }}'
    figures = f'x = "elapsed_s", y = {other}'
    x, y = predicted(entry([("x", 1, "s"), ("y", 1, "s")], run_of(figures))).entries[0].values
    assert x.emulated == y.emulated is not None


def test_what_was_predicted_first_stands_beside_what_is_predicted_now() -> None:
    value = value_of(entry([("x", 1, "s")], "first = { x = 3.0 }\n" + ELAPSED))
    assert (value.first, value.reported) == (3.0, 1.0)


def test_a_first_prediction_of_no_value_is_refused() -> None:
    with pytest.raises(UserError, match=r"first\.z: the entry has no value z \(x\)"):
        value_of(entry([("x", 1, "s")], "first = { z = 3.0 }\n" + ELAPSED))
