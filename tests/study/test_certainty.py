"""How sure: common draws, intervals, orders that can be told apart, and what decides them."""

from __future__ import annotations

import csv
import importlib.resources
import inspect
import itertools
import json
import re
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

import attrs
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_examples import examples

import offloadrt
from offloadrt.cli import main
from offloadrt.extensions.calibration.benchmark_entries import MEASURED, way_to_measure
from offloadrt.extensions.certainty.draws import MEASURED_KINDS, Draws, facts, predicted, sample, steps_of, uncertain
from offloadrt.extensions.explaining import deciding
from offloadrt.extensions.explaining.deciding import screen
from offloadrt.extensions.explaining.questions import explain, report
from offloadrt.study import execute, find_scenario
from offloadrt.study.certainty import NO_DRAWS, Effort, Ranking
from offloadrt.study.errors import UserError
from offloadrt.study.reporting.compare import Comparison, compare
from offloadrt.study.reporting.results import Interval, PredictionInterval, from_builtins, to_json
from offloadrt.study.reporting.words import seconds
from offloadrt.study.running import profiles
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import InProcess, executor, grid, sweep

UNSURE = Path(__file__).with_name("unsure.py")
TWINS = find_scenario(f"{UNSURE}:twins")


def compared(axes: dict[str, object], name: str = "twins", draws: int | None = 8, **options: object) -> Comparison:
    return compare(
        find_scenario(f"{UNSURE}:{name}"), axes, InProcess(), effort=Effort(draws), options=RunSpec(**options)
    )


def order(axes: dict[str, object], name: str = "twins", draws: int | None = 8, **options: object) -> Ranking:
    found = compared(axes, name, draws, **options).order
    assert found is not None
    return found


# draws


def test_the_stored_draws_are_those_of_scipy() -> None:
    stored = np.load(importlib.resources.files("offloadrt.extensions.certainty") / "draws.npy")  # type: ignore[arg-type]
    assert np.array_equal(stored, steps_of(64, 512))


def test_more_draws_go_on_where_fewer_end() -> None:
    spec = profiles.load("t4")
    draws = Draws.of([spec])
    beyond = draws.at(64, spec, RunSpec())
    assert set(beyond.ends) == set(uncertain(spec)) and beyond != draws.at(63, spec, RunSpec())
    assert np.array_equal(steps_of(128, 512)[:64], steps_of(64, 512))


def test_entries_of_one_source_are_drawn_together_and_others_apart() -> None:
    one, other = profiles.load("h100"), profiles.load("mi300a")
    ends, others = (Draws.of([one, other]).at(5, spec, RunSpec()).ends for spec in (one, other))
    both = set(ends) & set(others)
    same = {key for key in both if ends[key] == others[key]}
    runtime = {key for key in both if key.startswith(("table.", "memory_manager."))}
    assert runtime <= same, "LLVM's table is one program on both"
    differing = {key for key in both if one.entries[key].low != other.entries[key].low} & {
        key for key in both if one.entries[key].source_type == "engineering estimate"
    }
    assert differing and not differing & same, "guesses that differ were made apart"


def test_a_draw_of_one_machine_is_the_same_beside_another() -> None:
    spec = profiles.load("h100")
    alone, beside = Draws.of([spec]), Draws.of([spec, profiles.load("t4")])
    assert alone.at(3, spec, RunSpec()) == beside.at(3, spec, RunSpec())


def test_what_the_user_sets_moves_no_other_entry() -> None:
    spec = profiles.load("t4")
    draws, chosen = Draws.of([spec]), RunSpec(overrides={"alloc.cudaFree": "3us"})
    free, given_ = draws.at(2, spec, RunSpec()).ends, draws.at(2, spec, chosen).ends
    assert given_ == {key: place for key, place in free.items() if key != "alloc.cudaFree"}


# intervals


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=70))
def test_an_interval_is_what_numpy_says(values: list[float]) -> None:
    interval = Interval.of(1.0, values, 7)
    expected = np.quantile(values, [0.1, 0.5, 0.9], method="hazen")
    assert (interval.low, interval.median, interval.high) == pytest.approx(tuple(expected))
    assert interval.draws == len(values)


@pytest.mark.parametrize("count", [8, 16, 64])
def test_an_interval_holds_the_share_of_all_places_that_it_says(count: int) -> None:
    """However few draws it is of: a time that depends on so many entries, against 500 places at random."""
    rng, shares = np.random.default_rng(5), []
    places = (steps_of(64, 512)[:count] + 0.5) / (1 << 16)
    for entries in (1, 2, 5, 30) * 25:
        columns, weights = rng.choice(512, entries, replace=False), rng.lognormal(size=entries)
        interval = Interval.of(1.0, tuple(places[:, columns] @ weights), 7)
        times = rng.random((500, entries)) @ weights
        shares.append(np.mean((times >= interval.low) & (times <= interval.high)))
    assert 0.77 < np.mean(shares) < 0.83


def test_a_run_is_repeated_bit_by_bit_from_its_seed_and_number_of_draws() -> None:
    first, again = (order({"threads": ("1", "2")}) for _ in range(2))
    more = order({"threads": ("1", "2")}, draws=16)
    assert first == again
    values, longer = ({place.number: place.elapsed.values for place in found.ranked} for found in (first, more))
    assert {number: of[:8] for number, of in longer.items()} == values


def test_an_interval_is_of_runs_in_the_draws() -> None:
    spec = profiles.load("alex-a100")
    (point,) = grid(TWINS, {}, RunSpec())
    nominal = execute(TWINS, {})
    (sure,) = sample([point], [nominal], InProcess(), Effort(draws=3)).with_intervals([nominal])
    times = [execute(TWINS, {}, spec=Draws.of([spec]).at(n, spec, RunSpec())).elapsed_s for n in range(3)]
    assert sure.interval is not None and list(sure.interval.values) == times
    assert sure.interval.nominal == nominal.elapsed_s and set(sure.intervals) == {"elapsed_s"}, "the label is no figure"


def test_a_run_without_uncertain_entries_has_no_interval(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{UNSURE}:without_a_machine", "--json"]) == 0
    assert "intervals" not in json.loads(capsys.readouterr().out)
    assert main(["run", f"{UNSURE}:without_a_machine"]) == 0
    assert not re.search("draws|median|real machine", capsys.readouterr().out)
    set_ = [word for key in uncertain(profiles.load("t4")) for word in ("--set", f"{key}=mean")]
    assert main(["run", f"{UNSURE}:twins", "--machine", "t4", "--json", *set_]) == 0
    assert "intervals" not in json.loads(capsys.readouterr().out)


def test_a_run_says_how_sure_it_is_unless_told_not_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{UNSURE}:twins"]) == 0
    assert "80 % of 8 draws" in capsys.readouterr().out
    assert main(["run", f"{UNSURE}:twins", "--draws", "0"]) == 0
    assert "draws" not in capsys.readouterr().out
    assert main(["run", f"{UNSURE}:twins", "--budget", "0s"]) == 0
    assert "no interval: a run takes too long for the budget" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "programs"),
    [(f"{UNSURE}:twins", "OpenMP"), ("concepts/one_fault", "with managed memory"), ("concepts/one_stream", "CUDA")],
)
def test_a_run_with_an_interval_says_how_far_measured_programs_of_its_kind_were_off(
    name: str, programs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for draws, lines in (("8", 1), ("0", 0)):
        assert main(["run", name, "--draws", draws]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert len(re.findall(rf"measured times of [\w ]*{programs}.* were off by a factor of", said)) == lines


def test_an_interval_is_made_wider_by_what_measured_programs_of_its_kind_were_off(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", f"{UNSURE}:twins", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    interval, real = record["intervals"]["elapsed_s"], record["prediction_interval"]
    (most,) = (kind.most for kind in MEASURED_KINDS if kind.programs == "OpenMP programs")
    assert (real["low"], real["high"], real["factor"]) == (interval["low"] / most, interval["high"] * most, most)
    assert main(["run", f"{UNSURE}:twins"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    low, high = re.findall(r"on a real machine: (.*) to (.*?) in four of five cases", said)[0]
    assert (low, high) == (seconds(real["low"]), seconds(real["high"])) and real["basis"] in said


def test_an_interval_for_a_real_machine_is_kept_as_json_and_shown_in_notebooks() -> None:
    result = offloadrt.execute(f"{UNSURE}:twins", draws=2)
    real = result.prediction_interval
    assert isinstance(real, PredictionInterval) and from_builtins(msgspec.json.decode(to_json(result))) == result
    assert f"{seconds(real.low)} to {seconds(real.high)}" in str(result._repr_html_())
    assert offloadrt.execute(f"{UNSURE}:twins").prediction_interval is None


def test_a_program_of_a_kind_that_nobody_measured_has_no_interval_for_a_real_machine() -> None:
    result = offloadrt.execute(f"{UNSURE}:twins", draws=2)
    assert predicted(attrs.evolve(result, locks={}, calls={}), result.interval) is None
    assert predicted(result, None) is None and predicted(result, result.interval) == result.prediction_interval


def test_machines_are_not_told_apart_without_a_word_on_mechanisms(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["compare", f"{UNSURE}:twins", "--jobs", "1", "--draws", "2", "--machine"]
    assert main([*ask, "h100,a100-node4"]) == 0
    assert "does not cancel between machines: 60 measured times of OpenMP programs" in capsys.readouterr().out
    assert main([*ask, "h100", "threads=1,2"]) == 0
    assert "does not cancel between machines" not in capsys.readouterr().out


def test_a_few_draws_make_only_so_many_runs_to_find_what_decides(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", f"{UNSURE}:work", "where=device,host", "--jobs", "1", "--draws", "4", "--json"]) == 0
    order = json.loads(capsys.readouterr().out)["cases"][0]["order"]
    assert "were not looked at: --budget gives more time" in order["screened"]


def test_a_program_without_a_device_is_compared_with_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"{UNSURE}:without_a_machine"]) == 0
    assert "were off" not in capsys.readouterr().out


def test_a_sweep_draws_bands(tmp_path: Path) -> None:
    """The columns of the draws come last, and what was drawn is kept."""
    command = [
        "sweep",
        "overlap",
        "threads=1,2,4",
        "n=4096",
        "configuration=copy",
        "--jobs",
        "1",
        "--out",
        str(tmp_path),
    ]

    def table() -> list[list[str]]:
        with (tmp_path / "results.csv").open() as file:
            return list(csv.reader(file))

    assert main([*command, "--draws", "0"]) == 0
    plain = table()
    assert main([*command, "--draws", "4"]) == 0
    drawn = table()
    assert [row[: len(plain[0])] for row in drawn] == plain
    assert drawn[0][len(plain[0]) :][:3] == ["elapsed_s.low", "elapsed_s.median", "elapsed_s.high"]
    assert drawn[0][-2:] == ["prediction_interval.low", "prediction_interval.high"]
    places = [len(plain[0]) + end for end in (0, 2)] + [-2, -1]
    low, high, real_low, real_high = zip(*([float(row[place]) for place in places] for row in drawn[1:]), strict=True)
    assert all(a < b < c < d for a, b, c, d in zip(real_low, low, high, real_high, strict=True))
    kept = (tmp_path / "points.jsonl").read_bytes()
    assert kept.count(b"\n") == 3 + 3 * 4 and "FillBetween" in (tmp_path / "figure.svg").read_text()
    assert main([*command, "--draws", "4"]) == 0
    assert (tmp_path / "points.jsonl").read_bytes() == kept


# orders


MACHINES = ["alex-a100", "t4", "mi300a", "h200", "gh200", "rtx-5070ti"]


@examples(8)
@given(
    st.integers(1, 4),
    st.lists(st.integers(0, 9), min_size=2, max_size=4, unique=True),
    st.sampled_from(MACHINES),
    st.sampled_from([8, 11, 16, None]),
)
def test_equal_variants_are_never_told_apart(threads: int, labels: list[int], machine: str, draws: int | None) -> None:
    """Whether entries are screened (from 16 draws on) or not, and however many variants there are."""
    found = order({"label": tuple(map(str, labels)), "threads": (threads,)}, machine=machine, draws=draws)
    pairs = [*itertools.permutations(range(len(labels)), 2)]
    assert {found.shares[one][other] for one, other in pairs} == {0.5}
    assert not found.deciders and not found.order_effects, "nothing decides between equals"


SLOWER = st.one_of(
    st.floats(1e-9, 1e-3).map(lambda later_s: ("later_s", repr(later_s), "0.0")),
    st.integers(2, 4).map(lambda steps: ("steps", str(steps), "1")),
)


@examples(8)
@given(SLOWER, st.sampled_from(MACHINES), st.sampled_from([8, 16, None]))
def test_a_variant_that_is_slower_in_every_draw_is_always_told_apart(
    slower: tuple[str, str, str], machine: str, draws: int | None
) -> None:
    """It does the same and sleeps, or it does it more than once; wherever it stands among the variants."""
    name, more, less = slower
    for values in ((more, less), (less, more)):
        found = order({name: values, "threads": (1,)}, machine=machine, draws=draws)
        assert float(found.ranked[0].parameters[name]) == float(less)
        assert found.shares[0][1] == 1.0 and found.nearest() is None and not found.deciders


def test_machines_are_ranked_at_the_same_draws(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", f"{UNSURE}:twins", "--machine", "h100,mi300a,t4", "--jobs", "1", "--draws", "8"]
    assert main([*command, "--json"]) == 0
    (case,) = json.loads(capsys.readouterr().out)["cases"]
    assert len(case["order"]["ranked"]) == 3 and case["order"]["draws"] == 8
    assert all(len(variant["result"]["intervals"]["elapsed_s"]["values"]) == 8 for variant in case["variants"])
    assert all(variant["result"]["prediction_interval"]["factor"] > 1.0 for variant in case["variants"])
    assert main(command) == 0
    assert "how sure: 8 draws in" in capsys.readouterr().out


def test_one_variant_alone_has_no_order_to_decide(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the others cannot run."""
    main(["compare", "peer_copies", "--machine", "a100-node4,gh200", "--draws", "8", "--jobs", "1"])
    said = capsys.readouterr().out
    assert "how sure: 8 draws" in said and "not run: machine=gh200" in said and "what to measure next" not in said


def test_python_asks_as_the_command_does() -> None:
    found = offloadrt.compare(f"{UNSURE}:twins", machine=["h100", "t4"], draws=8, jobs=1)
    assert found.order is not None and found.order.draws == 8
    assert all(result.interval is not None and result.interval.draws == 8 for result in found.results)


@pytest.mark.parametrize("ask", [offloadrt.execute, offloadrt.sweep, offloadrt.compare, explain, report])
def test_python_has_the_options_of_the_commands(ask: Callable[..., object]) -> None:
    assert {"draws", "budget_s"} <= inspect.signature(ask).parameters.keys()


def test_one_run_has_an_interval_where_it_is_asked_for() -> None:
    result = offloadrt.execute(f"{UNSURE}:twins", threads=1, draws=8)
    assert result.interval is not None and result.interval.draws == 8
    assert offloadrt.execute(f"{UNSURE}:twins", threads=1).interval is None
    with pytest.raises(UserError, match="draws -1: it can be 0 to 1,000,000"):
        offloadrt.execute(f"{UNSURE}:twins", draws=-1)


@pytest.mark.parametrize("name", ["per_thread", "where", "labels"])
def test_a_figure_that_there_is_not_is_refused_before_any_run(name: str) -> None:
    with pytest.raises(UserError, match=f"--measure {name}: no number of that name"):
        compare(TWINS, {"label": ("0", "1")}, Executor(), measures=[name])


def test_the_source_of_a_scenario_tells_what_it_returns_where_it_can() -> None:
    assert TWINS.returned_names() == ["label"] and find_scenario(f"{UNSURE}:work").returned_names() == []
    assert find_scenario("stream").returned_names() is None, "what another function returns is known after a run only"


def test_draws_end_when_every_order_has_held_in_enough() -> None:
    assert order({"later_s": ("0.0", "1.0")}, draws=None).draws == 16
    assert order({"label": ("0", "1")}, draws=None).draws == 16


def test_what_has_lost_against_all_others_is_drawn_no_more() -> None:
    nominal = execute(find_scenario(f"{UNSURE}:work"), {}).elapsed_s
    found = order({"where": ("device", "host"), "host_s": (repr(nominal), "1.0")}, "work", draws=None)
    drawn = {(one.parameters["where"], one.parameters["host_s"]): one.elapsed.draws for one in found.ranked}
    assert found.draws == 64 and drawn["host", nominal] == drawn["device", nominal] == 64
    assert drawn["host", 1.0] == 16 and found.ranked[-1].parameters["host_s"] == 1.0
    assert found.ranked[-2].beside == 16 and found.ranked[-2].is_told_apart


def test_steps_of_a_sweep_that_draws_turn_round_are_named() -> None:
    nominal = execute(find_scenario(f"{UNSURE}:work"), {}).elapsed_s
    found = offloadrt.sweep(f"{UNSURE}:work", where=["device", "host"], host_s=1.1 * nominal, draws=8, jobs=1)
    (told,) = found.order_effects
    assert told.startswith("where=device to host: slower as it stands (0.909), faster in ") and "of 8 draws" in told
    assert all(result.draws == 8 for result in found.finished)


def test_a_cheaper_entry_that_makes_a_run_slower_is_named() -> None:
    """As list scheduling can have it: here a run of half an entry takes longer, as one that is made up."""
    (point,) = grid(TWINS, {}, RunSpec(machine="t4"))
    key = "alloc.cudaFree"
    effect = deciding.EntryEffect(key, (1.2,), (1.1,), True)
    (told,) = deciding.slower_for_less([point], deciding.Screening((1.0,), [effect], [], []))
    assert told.startswith(f"{key} at the low end of its range makes the run 20.0 % slower")
    assert not deciding.slower_for_less([point], deciding.Screening((1.3,), [effect], [], []))


def test_an_entry_that_decides_is_named_with_what_measures_it() -> None:
    spec = profiles.load("alex-a100")
    alone = {key: execute(find_scenario(f"{UNSURE}:work"), {}, range_end={key: end}).elapsed_s
             for key in ("alloc.cudaFree",) for end in ("low", "high")}  # fmt: skip
    assert alone
    nominal = execute(find_scenario(f"{UNSURE}:work"), {}).elapsed_s
    found = order({"where": ("device", "host"), "host_s": (repr(nominal),)}, "work")
    first = found.deciders[0]
    assert (
        first.entry in uncertain(spec)
        and first.turns
        and first.factor > 1.0
        and re.search(r"\d entr(y matters|ies matter)", found.screened)
    )
    measured = [decider for decider in found.deciders if decider.entry in MEASURED]
    assert all("bench/hardware/measure.py" in decider.command for decider in measured)


def test_every_entry_that_a_benchmark_measures_has_its_program() -> None:
    folder = Path(__file__).parents[2] / "bench" / "hardware"
    for entry in MEASURED:
        program = way_to_measure(entry, "h100").partition("--only ")[2].partition(";")[0]
        assert (folder / f"{program}.cu").is_file(), entry
    assert way_to_measure("nothing.of_it", "h100") == ""


# screening

TEN = [
    ("overlap", {"configuration": ("copy", "managed"), "threads": (2,), "n": (4096,)}),
    ("overlap", {"threads": (1, 4), "n": (4096,)}),
    ("overlap", {"configuration": ("managed", "managed+prefetch"), "threads": (2,), "n": (65536,)}),
    ("exahype", {"memory": ("map", "pool"), "threads": (2,), "patches": (8,)}),
    ("exahype", {"memory": ("pool", "managed"), "threads": (2,), "patches": (8,)}),
    ("exahype", {"machine": ("h100", "t4"), "threads": (2,), "patches": (8,)}),
    (f"{UNSURE}:twins", {"machine": ("h100", "mi300a"), "threads": (2,)}),
    (f"{UNSURE}:twins", {"machine": ("gh200", "alex-a100"), "threads": (4,)}),
    (f"{UNSURE}:twins", {"configuration": ("copy", "eager_maps"), "machine": ("mi300a",)}),
    (f"{UNSURE}:work", {"where": ("device", "host"), "host_s": (30e-6,)}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "axes"), TEN)
def test_the_screening_hides_no_entry_that_changes_an_order(name: str, axes: dict[str, tuple[object, ...]]) -> None:
    """With what is not drawn at its mean, each order is in every draw what it is with all entries drawn."""
    with executor("process", 2) as pool:
        points = grid(find_scenario(name), axes, RunSpec())
        nominal = sweep(points, pool, jobs=2).finished
        full = sample(points, nominal, pool, Effort(draws=15), jobs=2)
        screened = sample(points, nominal, pool, Effort(draws=16), jobs=2)
        found = screen(points, nominal, pool, jobs=2)
    assert not full.draws.idle and screened.draws.idle <= set(found.idle) and found.effects and not found.unknown
    orders = [[one < other for one, other in drawn.pairs(0, 1)] for drawn in (full, screened)]
    assert len(orders[0]) == 15 and orders[0] == orders[1][:15]
    assert len(screened.draws.idle) > 30, "what a run does not use is not drawn"


def test_entries_that_are_not_drawn_change_no_draw() -> None:
    points = grid(TWINS, {"threads": (1, 2)}, RunSpec())
    nominal = sweep(points, InProcess()).finished
    full, screened = (sample(points, nominal, InProcess(), Effort(draws=draws)) for draws in (15, 16))
    assert full.pairs(0, 1) == screened.pairs(0, 1)[:15] and len(screened.draws.idle) > 30


def test_a_set_that_changes_something_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows what a run uses, all entries are looked at together: half by half, those that change none."""
    monkeypatch.setattr(deciding, "_is_charged", lambda key, places: False)
    (point,) = grid(TWINS, {}, RunSpec(machine="t4"))
    nominal = execute(TWINS, {}, machine="t4")
    idle = deciding.idle_entries([point], [nominal], InProcess())
    every = uncertain(profiles.load("t4"))
    moved = {
        (key, end): execute(TWINS, {}, machine="t4", range_end={key: end}) for key in every for end in ("low", "high")
    }
    changed = {key for (key, _), result in moved.items() if facts(result) != facts(nominal)}
    assert idle | changed == set(every) and not idle & changed


def test_no_draws_make_no_run() -> None:
    class Never(Executor):
        pass

    (point,) = grid(TWINS, {}, RunSpec())
    assert sample([point], [execute(TWINS, {})], Never(), NO_DRAWS).rows == []
