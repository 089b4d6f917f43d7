"""The paper on C++ standard parallelism in AdaptiveCpp.

`programs/` are its applications, `claims.toml` what it reports, `judges` how each report is checked,
`figures.toml` what its scenarios draw.
"""
