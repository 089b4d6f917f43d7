"""The host: its cores, its memory, and algorithms that run on its worker threads.

None of it is an actor.  Host threads are actors of the layers above; they take a core (``cores.py``, open it first),
copy within the memory or execute an algorithm (``host_memory.py``), and wait for one another where these are busy.
"""
