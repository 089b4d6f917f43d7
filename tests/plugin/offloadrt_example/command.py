"""A command."""

from offloadrt.cli.options import DEFAULTS, RunOptions, ScenarioName


def copies(scenario: ScenarioName, /, *, options: RunOptions = DEFAULTS) -> None:
    """Run a scenario and print how many bytes it copied."""
    from offloadrt.study import execute, find_scenario

    result = execute(find_scenario(scenario), machine=options.machine)
    print(f"{result.bytes.h2d} bytes to the device")
