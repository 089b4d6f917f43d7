"""The host: its cores, its memory, and algorithms that run on its worker threads.

None of it is an actor.  Host threads are actors of the layers above; they take a core (``cores.py``), copy within the
memory (``host_memory.py``) or execute an algorithm (``host_workers.py``), and wait for one another where these are
busy.  ``host_contents.py`` says which array lies at which address, for devices that follow pointers.  Open ``cores.py``
first.
"""
