"""CUDA and HIP programs: host threads that call the driver library themselves, without an offloading runtime between.

    run.options = cuda.CUDAOptions()
    await run.parallel(main)

A thread's calls have the names of the CUDA runtime API without the prefix ``cuda``. ``host_thread.py`` has all of them;
``calling_thread.py`` has a thread's current device, its streams and the program's allocations; ``program.py`` has what
the threads of a program share. On a machine with AMD's GPUs, reports show HIP's names of the calls. Kernels are made
with `offloadrt.kernels`.
"""

from offloadrt.lazy import lazy

__all__, __dir__, __getattr__ = lazy(__name__)
