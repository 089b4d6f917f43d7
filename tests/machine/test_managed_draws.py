"""Pages are drawn as numpy's generator draws them, and the bit generator is left as numpy leaves it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from offloadrt.machine.managed.pages import draw


@given(
    seed=st.integers(0, 1000),
    calls=st.lists(
        st.tuples(
            st.integers(0, 1 << 40), st.one_of(st.integers(1, 5), st.integers(1, (1 << 32) - 1)), st.integers(0, 12)
        )
    ),
)
def test_draws_are_those_of_the_generator(seed: int, calls: list[tuple[int, int, int]]) -> None:
    ours, numpys = np.random.default_rng(seed), np.random.default_rng(seed)
    for low, width, draws in calls:
        assert draw(low, low + width, draws, ours) == numpys.integers(low, low + width, draws).tolist()
    assert ours.bit_generator.state == numpys.bit_generator.state


def test_two_generators_do_not_share_their_bits() -> None:
    one, other = np.random.default_rng(1), np.random.default_rng(2)
    drawn = [draw(0, 1000, 3, rng) for rng in (one, other, one, other)]
    assert drawn[0] + drawn[2] == np.random.default_rng(1).integers(0, 1000, 6).tolist()
    assert drawn[1] + drawn[3] == np.random.default_rng(2).integers(0, 1000, 6).tolist()
