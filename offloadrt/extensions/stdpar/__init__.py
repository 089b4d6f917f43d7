"""C++ standard parallelism as a program writes it: algorithms with execution policies, offloaded by an implementation.

======================================  ==============================================================================
``StdPar``                              a program on a machine: its implementation, its heap, its device
``StdParOptions``                       its implementation, its memory pool, its offload heuristic
``HostThread`` (``t``)                  what a thread does: ``t.new_array``, ``t.delete``, ``t.read``, ``t.write``,
                                        ``t.for_each``, ``t.transform``, ``t.transform_reduce``, ``t.fill``, …
``seq``, ``par``, ``par_unseq``         execution policies
``IMPLEMENTATIONS``                     `acpp`, `nvcpp`, `rocstdpar`, `icpx`, `sycl`, `native`, `host`
``indirect``                            an array that a kernel finds behind a pointer in memory
``section``                             a part of an array, for ``t.read`` and ``t.write``
``SyclQueue`` (``t.queue()``)           a queue that the program makes itself, with USM of all kinds
``Window``, ``windows``, ``Elided``,    decide which barriers stay, for a running thread or a recorded list of
``Kept``                                operations
``ElisionPass``                         decides the same from a host function's source, and lists what a run would miss
``HeuristicRules``, ``Sampling``        settings of the offload heuristic; ``HeuristicDatabase`` has known runtimes
======================================  ==============================================================================

`execution.py` runs one call of an algorithm, from validating its pointers to the barrier behind it; open it first.
`stdpar_runtime.py` is the library that the program is linked with, `heap.py` its memory allocator.

The only actors are host threads. They run the code of the implementation and of the driver library themselves, as real
threads do. They wait for the memory pool's mutex, for their queues, and inside the driver. Policies that take no time
are in `heuristic.py` and `implementations.py`. What compilers decide about barriers and captures is in `elision.py`.
"""

from offloadrt.lazy import lazy

__all__, __dir__, __getattr__ = lazy(__name__)
