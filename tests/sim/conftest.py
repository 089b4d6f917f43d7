import pytest

from offloadrt.sim import Simulation


@pytest.fixture(params=["native", "turbo"])
def gear(request):
    return request.param


@pytest.fixture
def sim(gear):
    return Simulation(gear=gear, livelock_limit=20_000)


def leaves(error):
    """The errors inside nested ExceptionGroups."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in leaves(part)]
    return [error]
