"""A command."""

from offloadrt.cli.options import DEFAULTS, ScenarioName
from offloadrt.study import RunSpec


def copies(scenario: ScenarioName, /, *, spec: RunSpec = DEFAULTS) -> None:
    """Run a scenario and print how many bytes it copied."""
    from offloadrt.study import execute, find_scenario

    result = execute(find_scenario(scenario), spec=spec)
    print(f"{result.bytes.h2d} bytes to the device")
