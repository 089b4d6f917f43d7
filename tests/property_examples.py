"""How many examples property tests try, in one place: Hypothesis's profiles `quick`, which every run has, and
`thorough`, which CI's slow step asks for (`--hypothesis-profile=thorough`). It tries five times as many.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

QUICK, USUAL, THOROUGH = 30, 50, 150

settings.register_profile("quick", deadline=None, max_examples=QUICK)
settings.register_profile("thorough", deadline=None, max_examples=THOROUGH)


def examples(usual: int, *unchecked: HealthCheck, base: settings | None = None) -> settings:
    """Settings of a test that costs more or less than most: `usual` examples where most have `USUAL`.

    Each profile tries more or fewer of them in proportion, but at least one. `unchecked` are health checks that it
    cannot pass; everything else is as in `base`.
    """
    more = {"suppress_health_check": unchecked} if unchecked else {}
    return settings(base, max_examples=max(1, usual * settings.default.max_examples // USUAL), deadline=None, **more)
