"""Whether a stored report is still about the present emulator: a digest of what its verdicts rest on.

It covers the numbers and choices of the machine's profile, what decides each claim, the code of the judges and probes,
and what the paper's sensitivity runs give: they are short, and an entry or a mechanism that matters changes them.
Sources, quotations, comments, docstrings and the wording of reasons are left out, so that no text makes a report stale.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

from offloadrt.machine import MachineSpec
from offloadrt.study.reporting.results import Result
from offloadrt.study.running import profiles
from offloadrt.study.spec import RunSpec
from offloadrt.study.validation.claims import Claim
from offloadrt.study.validation.judging import Answers
from offloadrt.study.validation.paper import Paper, may_matter, sensitivity_points

_DECIDING = (
    "id", "role", "kind", "judged_as", "value", "lo", "hi", "at_least", "at_most", "more_than", "less_than", "given",
)  # fmt: skip
"""Fields of a claim that decide its verdict, or where it is counted."""


def digest_of(paper: Paper, options: RunSpec, answers: Answers) -> str:
    """Make the paper's sensitivity runs, and return a digest of them, of the machines and of the claims."""
    runtime, machine = options.runtime, options.machine or paper.machine
    facts = [
        [_of_machine(profiles.load(name, runtime=runtime), paper.uses) for name in paper.other_machines],
        _of_machine(profiles.load(machine, options.overrides, runtime=runtime), paper.uses),
        [_of_claim(claim) for claim in paper.bench.claims.values()],
        [_of_code(file.read_text(encoding="utf-8")) for file in _judging(paper)],
        [_of_run(result) for result in answers(sensitivity_points(paper.sensitivity, paper.grid("ends", options)))],
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _of_machine(spec: MachineSpec, uses: Collection[str]) -> Any:
    entries = {key: entry for key, entry in spec.entries.items() if may_matter(key, uses) and not entry.reference}
    return [
        spec.name,
        spec.runtime,
        {key: [entry.value, entry.low, entry.high, entry.choices] for key, entry in entries.items()},
    ]


def _of_claim(claim: Claim) -> Any:
    return {name: getattr(claim, name) for name in _DECIDING}


def _judging(paper: Paper) -> list[Path]:
    """List the files of the judges, with those that lie beside them: probes, and where the judges look.

    Of what several papers share, in this package, it is the file of the judge, and what all judges judge by.
    """
    functions = (judge.function for judge in paper.bench.judges.values())
    of_judges = {Path(inspect.getfile(one.func if isinstance(one, partial) else one)) for one in functions}
    here = Path(__file__).parent
    shared = {file for file in of_judges if file.parent == here} | {here / "measured.py", here / "judging.py"}
    return sorted(shared | {beside for file in of_judges - shared for beside in file.parent.glob("*.py")})


def _of_code(source: str) -> str:
    return ast.unparse(_WithoutWords().visit(ast.parse(source)))


_TAKES_WORDS = ("Reading", "Judgement", "unless", "append", "join")
"""Functions whose arguments are sentences."""


class _WithoutWords(ast.NodeTransformer):
    """Leaves out sentences: texts with a blank, but for those that choose something.

    Such are keys, what is matched or compared, and arguments of functions that take no sentence. Of a text with values
    in it the values stay.
    """

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.Constant("") if isinstance(node.value, str) and " " in node.value else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        values = [value.value for value in node.values if isinstance(value, ast.FormattedValue)]
        return ast.Tuple([self.visit(value) for value in values])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.value = self.visit(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            if name not in _TAKES_WORDS:
                node.func = self.visit(node.func)
                node.args = [one if isinstance(one, ast.Constant) else self.visit(one) for one in node.args]
                node.keywords = [self.visit(one) for one in node.keywords]
                return node
        self.generic_visit(node)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        return node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.pattern:
        return node


def _of_run(result: Result) -> Any:
    calls = {name: call.count for name, call in result.calls.items()}
    return [result.elapsed_s, result.events, calls, result.inputs]
