"""The paper on C++ standard parallelism in AdaptiveCpp.

`programs` plays its applications as they were recorded (`recorded/`), `claims.toml` is what it reports, `judges` how
each report is checked, `figures.toml` what its scenarios draw.
"""
