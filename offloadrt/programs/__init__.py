"""Application skeletons: programs as their authors describe them, written against `offloadrt.models`.

A program states its sizes, its kernels' work and its sequence of directives; it states no time of the device. What its
authors leave open is an `InputRange` with a source, and results report where in it a run was.

`exahype`, `qmcpack`, `rodinia`, `specaccel`, `stdpar`
                                    applications
`first_touch`                       a synthetic program: when does it pay to fill a page table ahead of time
`input_range`, `memory_time`        ranges of inputs; the zero-copy paper's two overheads
"""
