"""What the programming models share: the host side of an offloading program, before any clause is read.

====================  ===============================================================================================
``program.py``        `OffloadProgram`: devices, teams of host threads, arrays, globals, the end; open it first
``options.py``        `ProgramOptions`: what every program is told before its machine is built
``host_thread.py``    `ProgramThread`: a thread's arrays, its computing, its barrier
``directive.py``      one directive or routine from its begin to its end
``region.py``         a region that a program enters and leaves
``section.py``        array sections, and the map item of one
``launch.py``         the launch configuration of a kernel
``process.py``        `Process`: several processes that run one program; ``communicator.py`` has their messages
``host_places.py``    where arrays lie; ``barrier.py``, ``device_globals.py`` as their names say
====================  ===============================================================================================

The models build on it and know nothing of each other.
"""
