"""The plugins: how the runtime uses a driver library. `plugin.py` is their interface.

`cuda.py` is for CUDA's library. `amdgpu.py` is for ROCr, with the streams and signals that it keeps for further use
(`amdgpu_resources.py`, `amdgpu_stream.py`). Only plugins and allocators talk to a driver. `grid.py` has the rule by
which a loop gets teams and threads that the program leaves open.
"""
