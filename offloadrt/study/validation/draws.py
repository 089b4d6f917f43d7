"""The share of the input space in which a claim holds: places drawn in all ranges at once, of machine and programs.

The draws are a scrambled Sobol sequence (`scipy.stats.qmc`): few points that fill a space of many dimensions evenly.
Each range counts on a logarithmic scale between its ends, as its mean does. Every draw judges all claims on the small
grid. The shares are of 64 draws, so that a true share of a half may come out as 0.38 to 0.62 (95 %).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from offloadrt.machine import MachineSpec
from offloadrt.study.input_range import InputRange
from offloadrt.study.points import Keys, Options, Point
from offloadrt.study.reporting.results import Result, library
from offloadrt.study.validation.judging import Answers, Judge, JudgingGrid, RunFailed, hear_all

DRAWS = 64
"""A power of two, for which the sequence is balanced."""
_SEED = 2026
_AT_ONCE = 8
"""Draws whose runs are made together; their results are then let go."""


@attrs.frozen
class DrawnShare:
    """In how many draws a claim holds, of those in which it could be judged.

    It cannot be judged at a place where a run that it needs ends with an error.
    """

    holds: int
    judged: int

    def __str__(self) -> str:
        return f"{self.holds} of {self.judged} draws"


def draws_of(
    spec: MachineSpec, inputs: Mapping[str, InputRange], options: Options, count: int = DRAWS
) -> list[Options]:
    """Draw `count` places, each of all ranges together; what the user set stays as it is.

    Raises UserError where SciPy is not installed.
    """
    keys = [key for key in spec.ranges() if key not in options.overrides]
    dimensions = len(keys) + len(inputs)
    if not dimensions or not count:
        return []
    sobol = library("scipy.stats").qmc.Sobol(dimensions, rng=_SEED)
    places = sobol.random_base2((count - 1).bit_length())[:count].tolist()
    return [
        attrs.evolve(
            options,
            range_end={**options.range_end, **dict(zip(keys, place, strict=False))},
            inputs={name: at * inputs[name].highest for name, at in zip(inputs, place[len(keys) :], strict=True)},
        )
        for place in places
    ]


def shares_of(
    judges: Sequence[Judge], grid: JudgingGrid, drawn: Sequence[Options], stage: Callable[[str], Answers]
) -> dict[str, DrawnShare]:
    """Judge the claims on `grid` at every place that was drawn."""
    if not drawn:
        return {}
    answers = stage("ranges: claims at places drawn in all of them")
    verdicts: dict[str, list[bool | None]] = {judge.claim.id: [] for judge in judges}
    for start in range(0, len(drawn), _AT_ONCE):
        grids = [attrs.evolve(grid, options=options) for options in drawn[start : start + _AT_ONCE]]
        cases = [(judge, at) for at in grids for judge in judges]
        for (judge, _), holds in zip(cases, _verdicts(cases, answers), strict=True):
            verdicts[judge.claim.id].append(holds)
    return {
        claim: DrawnShare(sum(holds is True for holds in said), sum(holds is not None for holds in said))
        for claim, said in verdicts.items()
    }


def _verdicts(cases: Sequence[tuple[Judge, JudgingGrid]], answers: Answers) -> list[bool | None]:
    """Hear judges, all at once unless a run fails: then each half for itself, down to the judge that needs the run."""
    try:
        return [judgement.holds for judgement in hear_all(cases, answers)]
    except RunFailed:
        if len(cases) == 1:
            return [None]
        half = len(cases) // 2
        return [*_verdicts(cases[:half], answers), *_verdicts(cases[half:], answers)]


def describe_draws(drawn: Sequence[Options], shares: Mapping[str, DrawnShare]) -> list[str]:
    """Say in sentences what was drawn, and in how much of the space claims hold."""
    if not drawn:
        return []
    ranges = f"{len(drawn[0].range_end)} entries of the machine and {len(drawn[0].inputs)} inputs of the programs"
    always = sum(0 < share.holds == share.judged for share in shares.values())
    never = sum(share.holds == 0 for share in shares.values())
    failed = [
        f"{claim} is judged in {share.judged} draws only: runs fail in the others"
        for claim, share in shares.items()
        if share.judged < len(drawn)
    ]
    partly = {claim: share for claim, share in shares.items() if 0 < share.holds < share.judged}
    drawn_of = f"{len(drawn)} draws (Sobol) of {ranges} together"
    return [
        f"{drawn_of}: {always} claims hold in all of them, {never} in none",
        *failed,
        *(f"{claim} holds in {share}" for claim, share in sorted(partly.items(), key=lambda item: item[1].holds)),
    ]


@attrs.define
class AnswersByTakenInputs:
    """Answers that know which inputs a run takes, and leave the others out of what it is asked for.

    Runs that take none of the inputs that were changed are then those of the machine as it stands, and made once.
    """

    answers: Answers
    _taken: dict[tuple[str, str], frozenset[str]] = attrs.field(factory=dict)
    _known: dict[str, Result] = attrs.field(factory=dict)

    def __call__(self, points: Sequence[Point]) -> list[Result]:
        """Answer the points, in order."""
        asked = [self._of_taken(point) for point in points]
        keys_of = Keys()
        keys = [keys_of.of(point) for point in asked]
        missing = {key: point for key, point in zip(keys, asked, strict=True) if key not in self._known}
        made = dict(zip(missing, self.answers(list(missing.values())), strict=True))
        for key, result in made.items():
            point = missing[key]
            if not point.options.inputs:
                self._taken[_program(point)] = frozenset(result.inputs)
                if not point.options.range_end:
                    self._known[key] = result
        return [self._known.get(key) or made[key] for key in keys]

    def _of_taken(self, point: Point) -> Point:
        taken = self._taken.get(_program(point))
        if taken is None or not point.options.inputs:
            return point
        inputs = {name: place for name, place in point.options.inputs.items() if name in taken}
        return attrs.evolve(point, options=attrs.evolve(point.options, inputs=inputs))


def _program(point: Point) -> tuple[str, str]:
    """Name what decides which inputs a run takes: its scenario and its parameters."""
    return point.scenario, repr(sorted(point.parameters.items()))
