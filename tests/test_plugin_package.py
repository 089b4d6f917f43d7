"""A package of somebody else's adds policies, machines, scenarios and strategies by entry points."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented import DOCS, blocks

from offloadrt import Run
from offloadrt import openmp as omp
from offloadrt.cli import main
from offloadrt.extensions.calibration.machines import summaries
from offloadrt.registry import forget
from offloadrt.study import execute, find_scenario
from offloadrt.study.errors import UserError
from offloadrt.study.running import profiles
from offloadrt.study.scripts.registry import reference

PACKAGE = Path(__file__).parent / "plugin"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package on the path, with the metadata that an installer writes from its pyproject.toml."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    metadata = tmp_path / f"offloadrt_example-{project['version']}.dist-info"
    metadata.mkdir()
    named = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\n" + named)
    groups = (
        "\n".join([f"[{group}]", *(f"{name} = {value}" for name, value in points.items())])
        for group, points in project["entry-points"].items()
    )
    (metadata / "entry_points.txt").write_text("\n".join(groups))
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()  # other tests of this process may have asked before
    yield
    forget()


def copied(configuration: str) -> int:
    result = execute(find_scenario("small_and_large"), machine="mi300a", configuration=configuration)
    return int(result.measured["copied_bytes"])


def test_its_configuration_decides_what_is_copied() -> None:
    small = 2 * 64 * 8
    assert copied("copy") - copied("small_on_host") == small


def test_its_scenario_is_run_and_swept_by_name(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert reference(find_scenario("small_and_large")) == "small_and_large"
    assert main(["run", "small_and_large", "--json", "--threads=3"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["parameters"]["threads"] == 3
    assert main(["sweep", "small_and_large", "threads=1,2", "--jobs", "1", "--out", str(tmp_path)]) == 0
    assert main(["list"]) == 0
    assert b"small_and_large" in capsysbinary.readouterr().out


def test_its_machine_is_known_by_name() -> None:
    slow, fast = (profiles.load(name).value("link.h2d_pinned") for name in ("t4-slow-link", "t4"))
    assert slow == 6e9 < fast
    assert "t4-slow-link" in [spec.name for spec in summaries()]


def test_its_strategy_orders_what_happens_at_one_instant() -> None:
    found = find_scenario("small_and_large")
    ordinary, reverse = (execute(found, strategy=name, hash=True) for name in ("fifo", "reverse"))
    assert reverse.options["strategy"] == "reverse" and ordinary.trace_hash != reverse.trace_hash


def test_its_allocator_and_its_lock_policy_are_used() -> None:
    run = Run(machine="t4")
    run.configure(allocator="counting", table_policy="lifo")

    async def body(t: omp.HostThread) -> None:
        await t.target_enter_data(omp.map(to=t.array("a", 64)))

    run.sim.run(run.parallel, body, 2)
    from offloadrt_example.policies import CountingAllocator

    assert CountingAllocator.requests >= 2 and run.openmp.devices[0].table_lock.policy.name == "lifo"


def test_a_name_that_is_nothing_gets_the_names_of_packages_too(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--strategy", "revers"], ["--machine", "t4-slow"], ["--configuration", "small"]):
        assert main(["run", "small_and_large", *words]) == 2
    told = capsys.readouterr().err.splitlines()
    assert ["reverse" in told[0], "t4-slow-link" in told[1], "small_on_host" in told[2]] == [True] * 3


def test_its_command_is_one_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["copies", "small_and_large"]) == 0
    assert capsys.readouterr().out == "1049600 bytes to the device\n"
    assert main(["--help"]) == 0
    assert "Run a scenario and print how many bytes it copied." in " ".join(capsys.readouterr().out.split())


def test_its_model_runs_programs() -> None:
    result = execute(find_scenario("queues"), {"threads": 3})
    assert result.calls["cuLaunchKernel"].count == 9 and result.bytes.h2d == 3 * 8 << 16


def test_its_model_is_found_by_name() -> None:
    import offloadrt

    assert offloadrt.toy.HostThread.__module__ == "offloadrt_example.toy"
    run = Run(machine="t4")
    run.options = offloadrt.toy.ToyOptions()
    assert type(run.toy).__name__ == "Toy"
    with pytest.raises(UserError, match=r"run\.openacc: the program's model is toy"):
        _ = run.openacc


@pytest.mark.parametrize("file", ["pyproject.toml", "offloadrt_example/command.py", "offloadrt_example/toy.py"])
def test_the_page_shows_it_as_it_is(file: str) -> None:
    shown = blocks(DOCS / "how-to" / "extend.md", "python", "toml")
    assert any(block in (PACKAGE / file).read_text() for block in shown)
