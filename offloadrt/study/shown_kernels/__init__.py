"""`offloadrt kernels`: what the compilers know of the kernels and the objects of a program. Open `command.py` first."""
