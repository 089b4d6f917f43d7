"""The JACC paper: OpenACC kernels run asynchronously, specialised, and divided among several GPUs.

`programs/` are its ten applications, `claims.toml` what it reports, `judges` how each report is checked,
`figures.toml` what its scenarios draw.
"""
