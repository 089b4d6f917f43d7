"""The recording of a program: its calls of the offloading runtime in order, and the costs of its kernels.

Open `recording.py` first: it has the tables. `convert` makes a recording of the recorder's raw files (`slots.py`),
`RecordingFile` opens one. `README.md` describes the format.
"""

from offloadrt.lazy import lazy

__all__, __dir__, __getattr__ = lazy(__name__)
