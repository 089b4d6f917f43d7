import pytest

from offloadrt.sim import Simulation


@pytest.fixture(params=["native", "turbo"])
def gear(request):
    return request.param


@pytest.fixture
def sim(gear):
    return Simulation(gear=gear, livelock_limit=20_000)
