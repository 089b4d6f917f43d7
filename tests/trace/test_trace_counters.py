"""Calls against NumPy; host time."""

import numpy as np
import pytest

from offloadrt.trace import HOST_TIME, Calls, HostTime


def test_calls_agree_with_numpy() -> None:
    rng = np.random.default_rng(3)
    durations = {
        "cuMemAlloc": rng.lognormal(-10, 2, 1000),
        "cuMemFree": rng.exponential(1e-5, 77),
        "cuInit": np.ones(1),
    }
    calls = Calls()
    for api, seconds in durations.items():
        for duration in seconds:
            calls.add(api, float(duration))
    table = calls.table()
    everything = np.concatenate(list(durations.values())).sum()
    for api, seconds in durations.items():
        row = table[api]
        assert row.count == calls.count(api) == len(seconds)
        assert (row.min_s, row.max_s) == (seconds.min(), seconds.max())
        assert row.total_s == pytest.approx(seconds.sum(), rel=1e-12)
        assert row.mean_s == pytest.approx(seconds.mean(), rel=1e-12)
        assert row.percent == pytest.approx(100 * seconds.sum() / everything, rel=1e-12)
    totals = [row.total_s for row in table.values()]
    assert totals == sorted(totals, reverse=True)
    assert Calls().table() == {} and Calls().count("cuMemAlloc") == 0


def test_host_time_adds_up_to_the_lives_of_the_threads() -> None:
    time = HostTime()
    time.add("table lock", 3.0)
    time.add("driver", 1.0)
    time.add_wait(10.0, 20.0, [("copies", 5.0, 11.0), ("kernels", 12.0, 15.0), ("copies", 18.0, 30.0)])
    time.lived(10.0)
    time.lived(10.0)
    assert time.seconds["copies"] == 3.0 and time.seconds["kernels"] == 3.0 and time.seconds["device"] == 4.0
    assert list(time.seconds) == list(HOST_TIME)
    assert time.lived_s == 20.0 and sum(time.seconds.values()) == 14.0  # nobody claims the rest


def test_host_time_knows_its_categories() -> None:
    assert set(HostTime().seconds.values()) == {0.0}
    with pytest.raises(ValueError, match="no category 'drivers' of host time; there are compute, compile, runtime"):
        HostTime().add("drivers", 1.0)
