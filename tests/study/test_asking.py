"""What a scenario does, asked from Python: by name, file or object, with parameters and machines as keywords."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import offloadrt as rt
from offloadrt.study import RunSpec, UserError, find_scenario
from offloadrt.study.errors import ScriptFailed
from offloadrt.study.running.execution import execute as execute_run

TOYS = f"{Path(__file__).parent / 'toys.py'}:queueing"


@rt.scenario(machine="alex-a100")
async def of_a_cell(run: rt.Run, pages: int = 1) -> dict[str, float]:
    """Sleep."""
    await run.sim.sleep(pages * 1e-3)
    return {"slept_s": run.sim.now}


def local_scenario() -> rt.Scenario:
    """Make a scenario that no other process can import, as a notebook's cell does."""

    @rt.scenario(machine="alex-a100")
    async def here(run: rt.Run, steps: int = 1) -> None:
        await run.sim.sleep(steps * 1e-3)

    return here


def test_a_scenario_is_named_or_given_and_its_parameters_are_keywords() -> None:
    by_name = rt.execute(TOYS, threads=4, hold_s=0.25)
    assert by_name == rt.execute(find_scenario(TOYS), {"threads": 4, "hold_s": 0.25})
    assert by_name.elapsed_s == pytest.approx(1.0)


def test_keywords_that_are_options_of_a_run_decide_it_as_a_spec_does() -> None:
    scenario = find_scenario("overlap")
    asked = rt.execute(scenario, machine="h100", seed=3, hash=True, overrides={"mem.bw": "1700 GB/s"})
    spec = RunSpec(machine="h100", seed=3, hash=True, overrides={"mem.bw": "1700 GB/s"})
    assert asked == execute_run(scenario, spec=spec)


@pytest.mark.parametrize("values", [[1, 2, 4], (1, 2, 4), np.array([1, 2, 4]), {1: 0, 2: 0, 4: 0}.keys()])
def test_several_values_of_a_keyword_are_an_axis(values: object) -> None:
    outcome = rt.sweep(TOYS, threads=values, policy="fair", jobs=1)
    assert [result.elapsed_s for result in outcome.finished] == pytest.approx([0.5, 1.0, 2.0])
    assert outcome.to_polars()["threads"].to_list() == [1, 2, 4]


def test_a_sweep_with_a_folder_runs_only_what_is_missing(tmp_path: Path) -> None:
    rt.sweep(TOYS, threads=[1, 2], policy="fair", jobs=1, out=tmp_path)
    again = rt.sweep(TOYS, threads=[1, 2, 4], policy="fair", jobs=1, out=tmp_path)
    assert (again.kept, again.done) == (2, 3)


def test_machines_are_compared_as_parameters_are() -> None:
    compared = rt.compare("overlap", machine=["h100", "alex-a100"], draws=0, jobs=1)
    assert [result.machine for result in compared.results] == ["h100", "alex-a100"]


def test_a_scenario_that_stands_in_no_file_is_swept_compared_and_explained_in_this_process() -> None:
    here = local_scenario()
    assert [result.elapsed_s for result in rt.sweep(here, steps=[1, 3], jobs=4).finished] == pytest.approx([1e-3, 3e-3])
    assert len(rt.compare(here, steps=[1, 3]).results) == 2
    assert rt.explain(of_a_cell, pages=2, budget_s=0.0).elapsed_s == pytest.approx(2e-3)


def test_a_scenario_of_a_cell_that_is_written_anew_is_run_anew(tmp_path: Path) -> None:
    def cell(milliseconds: int) -> rt.Scenario:
        source = (
            "import offloadrt as rt\n@rt.scenario(machine='alex-a100')\nasync def again(run: rt.Run, steps: int = 1):\n"
            f"    await run.sim.sleep(steps * {milliseconds}e-3)\n"
        )
        namespace: dict[str, rt.Scenario] = {}
        name = f"<cell {milliseconds}>"
        import linecache

        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), namespace)  # as IPython runs a cell
        return namespace["again"]

    first = rt.sweep(cell(1), steps=[1, 2], out=tmp_path)
    second = rt.sweep(cell(5), steps=[1, 2], out=tmp_path)
    assert [result.elapsed_s for result in first.finished] == pytest.approx([1e-3, 2e-3])
    assert [result.elapsed_s for result in second.finished] == pytest.approx([5e-3, 10e-3])


def test_a_report_is_shown_in_a_frame_of_its_own_and_saved(tmp_path: Path) -> None:
    report = rt.report("overlap", jobs=1, budget_s=0.0)
    assert report._repr_html_().startswith("<iframe")
    assert report.save(tmp_path / "overlap.html").read_text(encoding="utf-8") == report.html
    with pytest.raises(UserError, match=r"ends with \.html"):
        report.save(tmp_path / "overlap.png")


def test_figures_are_matplotlibs_own() -> None:
    outcome = rt.sweep(TOYS, threads=[1, 2, 4], policy=["fair", "rude"], jobs=1)
    (area,) = outcome.figure(y="elapsed_s").axes
    assert len(area.get_lines()) >= 2
    (time,) = rt.execute("overlap").figure().axes
    assert time.get_xlabel() == "share of the host threads' time (%)"


def test_a_comparison_is_a_figure_and_a_frame_as_its_table_is() -> None:
    compared = rt.compare(TOYS, threads=[1, 2, 4], jobs=1)
    (area,) = compared.figure().axes
    (line,) = area.get_lines()[:1]
    ratios = [row["elapsed_s_ratio"] for row in compared.rows()]
    assert ratios[0] == 1.0 and list(line.get_ydata()) == pytest.approx(ratios[1:])
    assert compared.to_polars().to_dicts() == compared.rows()
    assert list(compared.to_pandas()["elapsed_s"]) == [result.elapsed_s for result in compared.results]
    assert list(compared.rows()[0]) == ["threads", "elapsed_s", "elapsed_s_ratio", "elapsed_s_cov"]


def test_a_result_is_drawn_over_time_as_its_own_run() -> None:
    result = rt.execute("overlap", {"threads": 2}, n=4096, overrides={"alloc.cudaFree": "500us"})
    (area,) = result.timeline().axes
    assert area.get_xlim()[1] == pytest.approx(result.elapsed_s * 1e3)
    (part,) = result.timeline(window_s=(0.0, 1e-4), tracks=["host thread *"]).axes
    assert [label.get_text() for label in part.get_yticklabels()] == ["host thread 0", "host thread 1"]
    again = type(result)(**{name: getattr(result, name) for name in result.__slots__ if name[0] != "_"})
    with pytest.raises(UserError, match=r"write `offloadrt\.timeline"):
        again.timeline()


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: rt.execute(TOYS, thread=4), "parameter thread: is neither .* did you mean threads"),
        (lambda: rt.execute(TOYS, machines="h100"), "parameter machines: .*did you mean machine"),
        (lambda: rt.execute(42), "42 is no scenario"),  # type: ignore[arg-type]
        (lambda: rt.execute("overlapp"), "no scenario is called overlapp"),
        (lambda: rt.sweep(TOYS, threads=[]), "parameter threads: .*no value"),
        (lambda: rt.compare(TOYS, threads=[1, 2], policy="fair", baseline={"threads": 5}), "threads"),
        (lambda: rt.report("overlap", window_s=(2.0, 1.0)), "window_s"),
        (lambda: rt.report(TOYS, threads=[1, 2, 3, 4, 5]), "a report shows at most"),
    ],
)
def test_a_question_that_cannot_be_answered_says_what_is_wrong_with_it(ask: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        ask()  # type: ignore[operator]


ASKING = """
import offloadrt as rt

@rt.scenario(machine="alex-a100")
async def sleeper(run: rt.Run, ms: int = 1) -> None:
    await run.sim.sleep(ms * 1e-3)

compared = rt.compare(sleeper, ms=[1, 2], jobs=2, draws=0)
print([result.elapsed_s for result in compared.results], len(rt.compare("overlap", threads=[1, 2], draws=0).results))
"""


def test_a_script_may_ask_without_a_guard(tmp_path: Path) -> None:
    """Runs are made in its own process then: another one would ask again where it imports the script."""
    script = tmp_path / "asking.py"
    script.write_text(ASKING)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert (done.stdout, done.returncode) == ("[0.001, 0.002] 2\n", 0), done.stderr
    with pytest.raises(ScriptFailed, match='put what asks below `if __name__ == "__main__":`'):
        find_scenario(str(script))
    guarded = ASKING.replace("compared =", 'if __name__ == "__main__":\n    compared =').replace(
        "\nprint", "\n    print"
    )
    script.with_name("guarded.py").write_text(guarded)
    assert find_scenario(str(script.with_name("guarded.py"))).name == "sleeper"
