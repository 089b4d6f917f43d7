"""Real programs: recorded on a machine without a GPU, and run again on an emulated machine with GPUs.

`format/` has the recording, from the recorder's raw files to the file that is kept. `replay/` runs it as a program of
`models/openmp`. The recorder itself is in `native/` and in the modules beside this one.
"""
