"""What is predicted of measured results: which run, which figure, and how far it is off."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.papers.independent import rules as package_rules
from offloadrt.study import UserError
from offloadrt.study.executors import InProcess
from offloadrt.study.independent.measured import parse
from offloadrt.study.independent.planning import plan
from offloadrt.study.independent.prediction import KindAccuracy, PredictedEntry, PredictedValue, predict
from offloadrt.study.independent.quantities import UnitMismatch, converted, unit_of
from offloadrt.study.independent.rules import parse as parse_rules

TOYS = Path(__file__).parent / "toys.py"
RULES = r"""
[[machine]]
pattern = "T4"
profile = "t4"

[[machine]]
pattern = "Z9"
profile = "no-such-profile"

[[condition]]
pattern = 'held for (?P<ms>\d+) ms'
parameters = { hold_s = "{ms|thousands}" }

[[program]]
match = { text = 'queue of (?P<threads>\d+)' }
scenario = "TOYS:queueing"
parameters = { threads = "{threads}" }

[[program]]
match = { what = 'a kernel' }
reason = "kernels are not predicted"

[[setting]]
pattern = '(?P<threads>\d+)_threads'
parameters = { threads = "{threads}" }

[[value]]
name = ""
units = "ratio"
figure = "elapsed_s"
over = { threads = 1 }

[[value]]
name = "more"
figure = "elapsed_s"
difference_to = ".*more"

[[value]]
name = "fewer"
figure = "elapsed_s"
difference_to = "none"

[[value]]
name = "all|"
figure = "elapsed_s"

[[value]]
name = "speed"
figure = "per_thread_s"

[[value]]
name = "colour"
figure = "note"
""".replace("TOYS", str(TOYS))


def entry(values, what="queue of 4", machine="T4", kind="toy", conditions="", run=""):
    return f"""
[[result]]
id = "{what.replace(" ", "-")}"
kind = "{kind}"
machine = "{machine}"
what = "{what}"
conditions = "{conditions}"
values = [{", ".join(f'{{ name = "{n}", value = {v}, unit = "{u}" }}' for n, v, u in values)}]
{run}
"""


def predicted(*entries, rules=RULES, ranges=False):
    read = parse("".join(entries), "f.toml"), parse_rules(rules, "r.toml")
    return predict(*read, "f.toml", InProcess(), ranges=ranges)


def value_of(*entries, **options):
    (only,) = predicted(*entries, **options).entries
    (value,) = only.values
    return value


def test_a_rule_finds_the_run_and_the_unit_of_the_value_is_kept():
    value = value_of(entry([("all", 1000, "ms")]))
    assert (value.emulated, value.ratio) == (2000.0, 2.0)  # four threads hold the lock for half a second each
    assert value.error == pytest.approx(math.log(2))


def test_a_value_sets_parameters_by_its_name():
    values = predicted(entry([("2_threads", 1, "s"), ("8_threads", 1, "s")])).entries[0].values
    assert [value.emulated for value in values] == [1.0, 4.0]


def test_a_ratio_is_that_to_another_run():
    assert value_of(entry([("8_threads", 2, "ratio")])).ratio == 4.0


def test_differences_are_compared_where_a_rule_says_so():
    values = predicted(entry([("2_threads_more", 10, "s"), ("8_threads_more", 12, "s")])).entries[0].values
    assert values[0].emulated is None and "the others of its entry" in values[0].reason
    assert (values[1].reported, values[1].emulated, values[1].ratio) == (2.0, 3.0, 1.5)
    assert values[1].difference_to == "2_threads_more"


def test_an_entry_names_its_own_run():
    run = f'[result.run]\nscenario = "{TOYS}:queueing"\nparameters = {{ threads = 3 }}\nfigures = {{ x = "elapsed_s" }}'
    assert value_of(entry([("x", 3, "s")], what="?", run=run)).emulated == 1.5


def test_an_entry_says_more_of_a_figure_where_its_name_does_not_do():
    figures = """{ a = { figure = "elapsed_s", parameters = { threads = 8 } },
        b = { figure = "elapsed_s", over = { threads = 1 } }, c = { figure = "elapsed_s", difference_to = "a" },
        d = { figure = "contended", unit = "ms" } }""".replace("\n", " ")
    run = f'[result.run]\nscenario = "{TOYS}:queueing"\nparameters = {{ threads = 4 }}\nfigures = {figures}'
    values = (
        predicted(entry([("a", 4, "s"), ("b", 4, "ratio"), ("c", 1, "s"), ("d", 1, "s")], run=run)).entries[0].values
    )
    assert [value.emulated for value in values] == [4.0, 4.0, -2.0, 0.003]
    assert values[2].reported == -3.0


@pytest.mark.parametrize(
    ("values", "options", "reason"),
    [
        ([("all", 1, "s")], {"what": "a program"}, "no rule knows its program"),
        ([("all", 1, "s")], {"what": "a kernel"}, "kernels are not predicted"),
        ([("all", 1, "s")], {"machine": "K20"}, "no profile stands for its machine (K20)"),
        ([("all", 1, "s")], {"machine": "Z9"}, "no-such-profile"),
        ([("all", 1, "B")], {}, "elapsed_s: the value is in B and the figure in s"),
        ([("none", 1, "s")], {}, "no rule knows which figure of queueing it is"),
        ([("fewer", 1, "s")], {}, "it is compared by a difference, and the entry does not say to what"),
        ([("1_threads", 1, "ratio")], {}, "it is a ratio, and its name does not say of what"),
        ([("speed", 1, "s"), ("colour", 1, "note")], {}, "its run has no figure note here"),
        ([("all", 1, "s")], {"what": "queue of 65"}, "queueing: parameter threads: 65 is out of range"),
    ],
)
def test_what_cannot_be_predicted_has_a_reason(values, options, reason):
    *_, last = predicted(entry(values, **options)).entries[0].values
    assert last.emulated is None and last.error is None
    assert reason in last.reason


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ('scenario = "nothing"\nfigures = {}', "run.scenario: no scenario is called nothing"),
        ('scenario = "stream"\nfigures = {}\nparameters = { size = 1 }', "run.parameters.size: scenario stream has no"),
    ],
)
def test_an_own_run_that_cannot_be_made_is_an_error_with_entry_and_field(run, said):
    with pytest.raises(UserError) as caught:
        predicted(entry([("x", 1, "s")], what="x", run=f"[result.run]\n{run}"))
    assert str(caught.value).startswith(f"f.toml: result 'x': {said}")


def test_the_digest_moves_with_values_runs_and_machines_and_not_with_words():
    one = entry([("all", 1, "s")])
    digests = [
        predicted(text, rules=rules).digest
        for text, rules in [
            (one, RULES),
            (entry([("all", 2, "s")]), RULES),
            (entry([("all", 1, "s")], what="queue of 5"), RULES),
            (one, RULES.replace('profile = "t4"', 'profile = "titan-v"')),
        ]
    ]
    assert len(set(digests)) == 4
    assert predicted(one.replace("conditions =", 'note = "new words"\nconditions =')).digest == digests[0]


def test_a_run_that_fails_makes_its_values_not_predicted():
    run = f'[result.run]\nscenario = "{TOYS}:picky"\nparameters = {{ bang = true }}\nfigures = {{ x = "elapsed_s" }}'
    value = value_of(entry([("x", 1, "s")], what="?", run=run))
    assert value.emulated is None and "as told" in value.reason


def test_the_spread_holds_what_the_ranges_do():
    run = '[result.run]\nscenario = "stream"\nparameters = { elements = 65536 }\nfigures = { x = "kernel_s" }'
    value = value_of(entry([("x", 1, "ms")], what="?", run=run), ranges=True)
    assert value.low < value.emulated < value.high


@given(st.lists(st.floats(0, 5), min_size=1, max_size=40))
def test_the_accuracy_of_a_kind_is_what_numpy_says(errors):
    accuracy = KindAccuracy.of("k", errors)
    assert accuracy.values == len(errors)
    assert accuracy.median == pytest.approx(np.median(errors))
    assert accuracy.p90 == np.quantile(errors, 0.9, method="inverted_cdf")


def test_accuracies_are_for_each_kind_and_leave_out_inputs_and_what_is_not_predicted():
    report = predicted(
        entry([("all", 1, "s"), ("2_threads", 1, "s")], kind="b"),
        entry([("all", 4, "s"), ("none", 1, "s")], what="queue of 5", kind="a"),
        entry([("all", 1, "s")], what="queue of 6", kind="unit_cost"),
    )
    kinds = {accuracy.kind: accuracy for accuracy in report.accuracies()}
    assert {kind: accuracy.values for kind, accuracy in kinds.items()} == {"a": 1, "b": 2, "all": 3}
    assert kinds["b"].median == pytest.approx(math.log(2) / 2)  # ratios of 2 and 1


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


HELD_BACK = [
    ("t4-stream-1073741824-kernel-time", "STREAM triad", "median", "ms", "stream", {"elements": 1 << 30}),
    ("t4-stencil-16384-kernel-time", "5-point stencil, 20 iterations", "median", "ms", "stencil", {"n": 16384}),
    ("t4-stencil24000-batches", "stencil N=24000: fault batches", "batches", "batches", "stencil", {"n": 24000}),
    ("t4-stencil-8K", "fault batches", "batches", "batches", "stencil", {"n": 8000}),
    (
        "t4-stencil-oversub-32768-5-11264", "oversubscribed", "median", "ms", "stencil",
        {"n": 32768, "iterations": 5, "occupied_mib": 11264},
    ),
    ("t4-sgemm-16384", "sgemm", "D5_median", "us", "sgemm", {"n": 16384}),
    ("t4-threshold-sgemm8192", "kernel time of sgemm8192", "t0", "s", "sgemm", {"n": 8192, "threshold": 0}),
    ("t4-cufft-134217728", "cuFFT", "median", "ms", "cufft", {"n": 1 << 27}),
    ("t4-bfs-23", "BFS", "faults_per_batch_p90", "faults", "rmat_bfs", {"scale": 23}),
    ("t4-graphbfs22-prefetch", "BFS", "batches_C1", "batches", "rmat_bfs", {"scale": 22, "prefetch": False}),
    ("t4-sparse-4GiB-8", "sparse", "faults_t25", "faults", "sparse_pages", {"per_block": 8, "threshold": 25}),
    ("t4-stream268M-batchlog", "fault batches", "t0_to_t4_p90", "us", "stream", {"elements": 1 << 28}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "what", "value", "unit", "scenario", "parameters"), HELD_BACK)
def test_the_rules_of_the_package_know_entries_that_it_does_not_have(name, what, value, unit, scenario, parameters):
    text = f"""[[result]]
id = "{name}"
kind = "uvm_batch"
machine = "Tesla T4 16 GB"
what = "{what}"
conditions = "prefetch on, threshold 51"
values = [{{ name = "{value}", unit = "{unit}" }}]"""
    (entry,) = parse(text, "f.toml")
    (planned,) = plan(entry, package_rules(), "f.toml").values
    assert planned.point is not None, planned.reason
    assert planned.point.scenario.endswith(f":{scenario}")
    assert {key: planned.point.parameters[key] for key in parameters} == parameters


CALLS = [
    ("a100-launch", "kernel launch rate", "A100", "raw_back_to_back", "us", "launches", "back_to_back_s", {}),
    ("a100-malloc", "cudaMalloc by size", "A100", "16MiB", "us", "allocations", "alloc_s", {"nbytes": 16 << 20}),
    ("v-copy", "copy by size", "TITAN V", "pageable_d2h_4KiB", "us", "link_copies", "copy_s", {"memory": "pageable"}),
    ("mutex", "n threads share a mutex", "E5-2680 v4", "64_threads", "us", "mutex", "operation_s", {"sharing": 64}),
]


@pytest.mark.parametrize(("name", "what", "machine", "value", "unit", "scenario", "figure", "parameters"), CALLS)
def test_the_rules_know_benchmarks_of_calls(name, what, machine, value, unit, scenario, figure, parameters):
    text = f'[[result]]\nid = "{name}"\nkind = "k"\nmachine = "{machine}"\nwhat = "{what}"\n'
    (measured,) = parse(f'{text}values = [{{ name = "{value}", unit = "{unit}" }}]', "f.toml")
    (planned,) = plan(measured, package_rules(), "f.toml").values
    assert planned.point is not None, planned.reason
    assert planned.point.scenario.endswith(f":{scenario}") and planned.figure == figure
    assert parameters.items() <= planned.point.parameters.items()


def test_a_cause_belongs_to_values_that_are_far_off() -> None:
    near, far, wrong_sign = (
        PredictedValue("near", "us", 1.0, 2.9),
        PredictedValue("far", "us", 3.1, 1.0),
        PredictedValue("sign", "us", 1.0, -1.0),
    )
    entry = PredictedEntry("e", "toy", "", [near, far, wrong_sign, PredictedValue("none", "us", 1.0)], "why")
    assert entry.far_off == ["far", "sign"]
