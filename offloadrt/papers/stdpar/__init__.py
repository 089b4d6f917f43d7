"""The paper on C++ standard parallelism in AdaptiveCpp.

`programs.py` replays its applications from recordings (`recorded/`). `claims.toml` has the paper's claims, `judges.py`
the checks of each, `figures.toml` what the scenarios' figures draw.
"""
