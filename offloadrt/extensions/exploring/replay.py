"""From a failing run to its token, and from a token to the run."""

from __future__ import annotations

from pathlib import Path

import attrs

from offloadrt.extensions.checking.checked import reports_mistakes
from offloadrt.extensions.exploring.case import ScheduleCase
from offloadrt.extensions.exploring.outcome import RunOutcome
from offloadrt.extensions.exploring.program import Checker, Ended, ScenarioProgram
from offloadrt.extensions.exploring.token import CHECKED, Token
from offloadrt.study.errors import UserError
from offloadrt.study.running import profiles
from offloadrt.study.scripts import registry
from offloadrt.study.scripts.listing import folder
from offloadrt.study.spec import RunSpec
from offloadrt.study.sweep import digest_of_file, digest_of_sources

_DIGITS = 12


def token_of(program: ScenarioProgram, case: ScheduleCase) -> Token:
    """Run a case once more, and make the token of that run."""
    ended = program.run(case, case.strategy, hash=True)
    options = program.options.changed()
    options.pop("gear", None)  # both give the same run
    if reports_mistakes in program.checkers:
        options[CHECKED] = True
    return Token(
        _shown(program),
        program.given,
        options,
        program.results,
        case,
        digests_of(program),
        ended.outcome.key,
        ended.hash,
    )


def digests_of(program: ScenarioProgram) -> dict[str, str]:
    """Return the first digits of hashes of what a run depends on."""
    scenario, options = program.scenario, program.options
    machine = profiles.load(options.machine or scenario.machine, runtime=options.runtime or scenario.runtime)
    return first_digits(digest_of_file(scenario.path) or "", machine.digest, digest_of_sources())


def first_digits(program: str, machine: str, emulator: str) -> dict[str, str]:
    """Return the first digits of three hashes, by what they are of, as a token has them."""
    every = {"the program": program, "its machine": machine, "offloadrt": emulator}
    return {name: digest[:_DIGITS] for name, digest in every.items()}


def _shown(program: ScenarioProgram) -> str:
    """Return the program's reference: by name if it comes with the package, with a path from here if it is below."""
    scenario = program.scenario
    if scenario.path is None or scenario.path.parent == folder():
        return scenario.name
    reference = registry.reference(scenario)
    path, name = registry.split(reference)
    assert path is not None
    here = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{here}:{name}" if name is not None else str(here)


@attrs.frozen
class Replayed:
    """A run again."""

    token: Token
    program: ScenarioProgram
    ended: Ended
    reference: RunOutcome
    """What comes out in the order of scheduling."""
    changed: list[str]
    """Which of the program, its machine and the emulator have changed since."""

    @property
    def is_same(self) -> bool:
        """Tell whether the run is the same, event by event."""
        return self.ended.hash == self.token.hash


def replay(text: str, *, gear: str = "turbo", checkers: tuple[Checker, ...] = ()) -> Replayed:
    """Run what a token stands for. Raises UserError for a token that cannot be read, or whose program is not there."""
    token = Token.decode(text)
    if "::" in token.program:
        file = token.program.partition("::")[0]
        raise UserError(f"replay: the token is of a test; run it with `pytest {file} --offload-replay TOKEN`")
    scenario = registry.find(token.program)
    given = {**token.options, "gear": gear}
    if given.pop(CHECKED, False) and reports_mistakes not in checkers:
        checkers = (*checkers, reports_mistakes)
    try:
        options = RunSpec(**given)
    except TypeError as error:
        raise UserError(f"replay: the token cannot be read ({error}); copy all of it") from None
    program = ScenarioProgram(
        registry.reference(scenario), scenario.bind(token.parameters), options, token.results, checkers
    )
    fifo = ScheduleCase()
    return Replayed(
        token,
        program,
        program.run(token.case, token.case.strategy, hash=True),
        program.run(fifo, fifo.strategy).outcome,
        token.changed(digests_of(program)),
    )
