"""The JACC paper: OpenACC kernels run asynchronously, specialised, and divided among several GPUs.

`programs/` has its ten applications, `claims.toml` the paper's claims, `judges.py` the checks of each claim, and
`figures.toml` what the scenarios' figures draw.
"""
