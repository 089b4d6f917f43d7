"""What the tables of the documentation say is so: names that exist, and numbers that come out."""

from __future__ import annotations

import fnmatch
import inspect
import itertools
import re
import tomllib
from pathlib import Path
from typing import get_args

import pytest
from documented import DOCS, ROOT, WRITTEN

from bench.sampled_phases import PROGRAMS
from offloadrt.extensions.checking.mistakes import WasteKind
from offloadrt.extensions.exploring.faults import fault_of, plan_of
from offloadrt.extensions.exploring.schedules import SchedulePlan
from offloadrt.extensions.mpi import communicator, requests
from offloadrt.extensions.stdpar.elision import ALGORITHMS
from offloadrt.machine import available, load
from offloadrt.runtime.environment import CHOOSING, ENTRIES, OFFLOAD
from offloadrt.study import execute, find_scenario

HEAD = re.compile(r"^ *\|(.*)\|\n *\|(?: ?--- ?\|)+\n((?: *\|.*\|\n?)+)", re.M)

ELSEWHERE = {
    ("README.md", "question"): "test_documented_commands.py types its commands",
    ("README.md", "you ask"): "test_trust.py compares it with the stored reports",
    ("trust.md", "you ask"): "test_trust.py compares it with the stored reports",
    ("ARCHITECTURE.md", "what"): "test_architecture.py looks for its files, classes and entries",
    ("ARCHITECTURE.md", "behaviour"): "test_architecture.py looks for its files, classes and entries",
    ("find-mistakes.md", "model"): "tests/checking has right and wrong programs of each model",
    ("find-mistakes.md", "not found"): "tests/checking and bench/mistakes.py: no line tells of these",
    ("find-mistakes.md", "transfers and allocations"): "tests/recording/test_waste_beside_peer.py checks each program",
    ("index.md", "I want to …"): "test_documentation.py follows its links",
    ("trust.md", "paper"): "test_trust.py compares it with the stored reports",
    ("when.md", "you want"): "advice: it says nothing of this program that could be run",
    ("cluster.md", "what"): "tests/study has each: workers that die, killed schedulers, full disks, Ctrl-C",
    ("command-line.md", "variable what it says"): "test_documentation.py compares it with the runtime's variables",
    ("policies.md", "policy"): "tests/user has a policy of each kind, in a scenario and in the mark of a test",
    ("pragmas.md", "OpenMP"): "test_documentation.py looks for its directives and clauses",
    ("pragmas.md", "kernel"): "tests/openmp/test_launch_sizes.py launches each",
    ("record.md", "column"): "tests/recording has recordings with and without each",
    ("record.md", "what where it comes from"): "tests/recording records each kind of range",
    ("record.md", "what how it is played"): "tests/recording and tests/mpi play each",
    ("why.md", "the sentence names"): "tests/study/test_why.py has a program with each planted",
    ("parallel-algorithms.md", "parameter"): "tests/stdpar plays recordings with each",
}
"""Tables that are compared elsewhere, by page and the beginning of their head, with where, or why not."""


def tables(page: Path) -> dict[str, list[list[str]]]:
    """Return the rows of a page's tables, by the words of their heads."""
    text = page.read_text(encoding="utf-8")
    return {
        " ".join(re.sub(r"[|`]", " ", head).split()): [
            [cell.strip() for cell in row.strip().strip("|").split("|")] for row in rows.strip().splitlines()
        ]
        for head, rows in HEAD.findall(text)
    }


def table(page: str, head: str) -> list[list[str]]:
    """Return the rows of the table of a page whose head begins with these words, and note that it is compared."""
    (path,) = (path for path in WRITTEN if path.name == page)
    (rows,) = (rows for words, rows in tables(path).items() if words.startswith(head))
    return rows


def coded(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


COMPARED = {
    ("CONTRIBUTING.md", "group"),
    ("calibrate.md", "entry"),
    ("command-line.md", "variable what it changes"),
    ("explore.md", "--strategy"),
    ("find-mistakes.md", "waste"),
    ("faults.md", "--faults"),
    ("machine.md", "entry what it says"),
    ("machine.md", "entry example"),
    ("machine.md", "machines"),
    ("mpi.md", "what calls"),
    ("mpi.md", "what entries"),
    ("mpi.md", "program, ranks"),
    ("parallel-algorithms.md", "algorithms"),
    ("parallel-algorithms.md", "program"),
    ("parallel-algorithms.md", "miniBUDE"),
    ("record.md", "machine"),
    ("why.md", "program"),
}
"""Tables that are compared here."""


def test_every_table_is_compared_or_says_where_it_is() -> None:
    known, open_tables, met = {*ELSEWHERE, *COMPARED}, [], set()
    for page in WRITTEN:
        for head in tables(page):
            found = {key for key in known if key[0] == page.name and head.startswith(key[1])}
            met |= found
            if not found:
                open_tables.append((page.name, head))
    assert (open_tables, known - met) == ([], set())


OF_NO_BLOCK = {
    ("why.md", "80 ms"): "of the instances of QMCPack's phase, roughly",
    ("page-faults.md", "2 µs"): "the difference of two lines of the block, divided by pages",
}
"""Times in the text of a page that no block of the page prints, each with where it comes from."""
TIME = re.compile(r"(\d+(?:\.\d+)?) (ms|µs)\b")


def test_the_times_in_the_text_of_a_page_are_printed_in_its_blocks() -> None:
    """What the blocks print is compared by test_documented_commands.py."""
    unprinted = set()
    for page in WRITTEN:
        text = page.read_text(encoding="utf-8")
        fences = re.findall(r"^```.*?^```", text, re.M | re.S)
        printed = [(float(number), unit) for fence in fences for number, unit in TIME.findall(fence)]
        for fence in fences:
            text = text.replace(fence, "")
        for number, unit in TIME.findall(re.sub(r"^ *\|.*$|`[^`]*`", "", text, flags=re.M)):
            digits = len(number.replace(".", "").lstrip("0"))
            if f"{float(number):.{digits}g} {unit}" not in {f"{value:.{digits}g} {other}" for value, other in printed}:
                unprinted.add((page.name, f"{number} {unit}"))
    assert unprinted == OF_NO_BLOCK.keys()


def every_entry() -> set[str]:
    runtimes = ("llvm22", "rocm", "nvhpc")
    return {key for machine in available() for runtime in runtimes for key in load(machine, runtime=runtime).entries}


@pytest.mark.parametrize(
    ("page", "head"),
    [("machine.md", "entry what it says"), ("machine.md", "entry example"), ("mpi.md", "what entries")],
)
def test_the_entries_of_a_table_exist(page: str, head: str) -> None:
    column = 1 if page == "mpi.md" else 0
    words = ("mpich", "cray", "openmpi", "tuned", "coll_han_priority", "coll_tuned_priority")
    named = [name for row in table(page, head) for name in coded(row[column]) if name not in words]
    assert len(named) > 2 and [name for name in named if not fnmatch.filter(every_entry(), name)] == []


def test_every_machine_is_in_the_table_of_machines() -> None:
    assert {name for row in table("machine.md", "machines") for name in coded(row[0])} == set(available())


def test_the_examples_of_links_between_gpus_can_be_set() -> None:
    name = ""
    for row in table("machine.md", "entry example"):
        name = (coded(row[0]) or [name])[0]
        assert load("a100-node8", {name: coded(row[1])[0]}).text(name) == coded(row[1])[0]


def test_costs_of_the_base_stand_in_the_page_of_calibration() -> None:
    spec = load("alex-a100")
    for entry, base, *_ in table("calibrate.md", "entry"):
        (name,) = coded(entry)
        unit = base.split()[-1]
        factor = {"µs": 1e-6, "GB/s": 1e9}[unit]
        ends = [float(number) for number in re.findall(r"[\d.]+", base)]
        found = spec.entries[name]
        low, high = (found.low, found.high) if found.is_range else (found.value, found.value)
        assert [low, high][: len(ends)] == [pytest.approx(end * factor, rel=5e-3) for end in ends], name


def test_variables_that_are_not_modelled_are_not_read() -> None:
    named = [name for row in table("command-line.md", "variable what it changes") for name in coded(row[0])]
    assert len(named) > 5 and not set(named) & {*ENTRIES, *CHOOSING, OFFLOAD}


def test_the_strategies_are_those_that_there_are() -> None:
    rows = [coded(row[0])[0] for row in table("explore.md", "--strategy")]
    for written in rows:
        kind, *numbers = re.sub(r"[\[\]]", "", written).split(":")
        values = {"DEPTH": "3", "BOUND": "2", "LENGTH": "20us", "JITTER": "0.1"}
        assert SchedulePlan.parse(":".join([kind, *(values[number] for number in numbers)])).kind == kind
    with pytest.raises(Exception, match=f"there are {', '.join(re.split('[:[]', row)[0] for row in rows)}$"):
        SchedulePlan.parse("qqqqqqq")


def test_the_faults_are_those_that_there_are() -> None:
    examples = [coded(row[0])[0] for row in table("faults.md", "--faults")]
    for written in examples:
        if written.startswith("random"):
            assert plan_of(["random:1:0.5"]).at_random
        else:
            assert fault_of(written).text == written


def test_the_kinds_of_waste_are_those_that_are_reported() -> None:
    kinds = {coded(row[0])[0] for row in table("find-mistakes.md", "waste")}
    assert kinds == set(get_args(WasteKind))


def test_the_calls_of_mpi_exist() -> None:
    text = inspect.getsource(communicator) + inspect.getsource(requests)
    shown = {name for row in table("mpi.md", "what calls") for name in coded(row[1])} - {"v", "I"}
    assert len(shown) > 30 and [name for name in shown if not re.search(rf"\b{name}\b", text)] == []


def test_the_times_of_recorded_ranks_are_those_that_were_measured() -> None:
    stored = (ROOT / "bench" / "ranks.txt").read_text(encoding="utf-8")
    for program, *times, _ in table("mpi.md", "program, ranks"):
        name = re.sub(r"`", "", program).partition(",")[0].partition(" (")[0].split("/")[-1]
        part = stored[re.search(rf"^(tests/recording/programs/)?{re.escape(name)}\b.*  1  ", stored, re.M).start() :]  # type: ignore[union-attr]
        assert re.findall(r"  [124]  +([\d.]+ m?s)  ", part)[:3] == times, name


def test_the_algorithms_of_the_page_are_those_that_are_offloaded() -> None:
    *rows, host = table("parallel-algorithms.md", "algorithms")
    named = {name for row in rows for name in coded(row[1])} - {"transform_"}
    assert host[0].startswith("on the host")
    variants = {"replace_if", "replace_copy", "replace_copy_if"}
    scans = {"transform_inclusive_scan", "transform_exclusive_scan"}
    assert named | variants | scans == set(ALGORITHMS)


def test_the_ratios_of_the_vendors_are_those_of_the_report() -> None:
    lines = (ROOT / "bench" / "validation" / "stdpar.txt").read_text(encoding="utf-8").splitlines()
    left, right = (
        next(line.index(word) for line in lines if line.startswith("claim ")) for word in ("emulated", "verdict")
    )
    begin = next(number for number, line in enumerate(lines) if line.startswith("acpp.apps.two_thirds "))
    claim = itertools.takewhile(lambda line: not line.startswith("acpp."), lines[begin + 1 :])
    told = " ".join(line[left:right].strip() for line in [lines[begin], *claim])
    ratios = re.findall(r"(?:minibude|cloverleaf|tealeaf) ([\d.]+)", told)
    shown = [cell for row in table("parallel-algorithms.md", "miniBUDE") for cell in row[1:]]
    assert shown == [f"{float(ratio):.3g}" for ratio in ratios]


def test_the_groups_of_entry_points_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    shown = {name for row in table("CONTRIBUTING.md", "group") for name in coded(row[0])}
    given_by_users = {"offloadrt.machines", "offloadrt.runtimes", "offloadrt.scenarios"}
    assert shown - given_by_users == {name for name in project if name.startswith("offloadrt.")}


@pytest.mark.slow
def test_lulesh_takes_as_long_as_the_page_of_recordings_says() -> None:
    page = (DOCS / "how-to" / "record.md").read_text(encoding="utf-8")
    head = re.search(r"^\| machine (.*)\|$", page, re.M)
    assert head is not None
    columns = [*coded(head[1]), None]
    lulesh = find_scenario(str(ROOT / "bench" / "programs" / "lulesh-s30.rec"))
    for machine, *cells in table("record.md", "machine"):
        for column, cell in zip(columns, cells, strict=True):
            if cell == "–":
                continue
            given = {} if column is None else {"configuration": column}
            environment = {"OMP_TARGET_OFFLOAD": "disabled"} if column is None else {}
            made = execute(lulesh, given, machine=coded(machine)[0], environment=environment)
            assert f"{made.elapsed_s * 1e3:.3g} ms" == cell, (machine, column)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("row", table("why.md", "program"), ids=lambda row: row[0])
def test_sampled_phases_are_as_far_off_as_the_page_says(row: list[str]) -> None:
    name, whole, sampled, off, instances = row
    scenario, parameters = PROGRAMS[name]
    all_of_it, few = (execute(find_scenario(scenario), parameters, sample_phases=sample) for sample in (False, True))
    for cell, made in ((whole, all_of_it), (sampled, few)):
        decimals = len(cell.removesuffix(" ms").partition(".")[2])
        assert cell == f"{made.elapsed_s * 1e3:.{decimals}f} ms"
    apart = few.elapsed_s / all_of_it.elapsed_s - 1.0
    assert abs(apart - float(off.removesuffix(" %").replace("−", "-")) / 100.0) < 1e-4
    phase = few.phases[0]
    assert instances.startswith(f"{phase.instances - phase.skipped} of {phase.instances}")
