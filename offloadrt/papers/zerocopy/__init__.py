"""The zero-copy paper: what a map may mean on an APU, whose host and device share one memory.

`qmcpack/` and `specaccel.py` are its applications, `first_touch.py` is a synthetic program. `memory_time.py` computes
the paper's two overheads. `claims.toml` has the paper's claims, `judges/` check each of them, and `figures.toml` says
what the scenarios' figures draw.
"""
