"""The OTM paper: a compiler and a runtime that decide for each object between explicit copies and managed memory.

`rodinia.py` has its applications, `unified_memory.py` a synthetic program. `claims.toml` has the paper's claims,
`judges.py` the checks of each, `figures.toml` what the scenarios' figures draw.
"""
