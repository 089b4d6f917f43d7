"""The zero-copy paper: what a map may mean on an APU, whose host and device share one memory.

`qmcpack/` and `specaccel.py` are its applications, `first_touch.py` a synthetic program, `memory_time.py` its two
overheads, `claims.toml` what it reports, `judges/` how each report is checked, `figures.toml` what its
scenarios draw.
"""
