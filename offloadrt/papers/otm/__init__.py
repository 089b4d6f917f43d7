"""The OTM paper: a compiler and a runtime that decide for each object between explicit copies and managed memory.

`rodinia/` are its applications, `unified_memory.py` a synthetic program, `claims.toml` what it reports, `judges` how
each report is checked, `figures.toml` what its scenarios draw.
"""
