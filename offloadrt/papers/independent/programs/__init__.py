"""The programs that were measured.

``managed.py`` has what programs over managed memory have in common: the rules of the driver that can be set, the timed
part, and the figures of its fault batches; open it first. ``sweeps.py``, ``dense.py``, ``pages.py`` and
``breadth_first.py`` are such programs. ``calls.py`` times calls of the driver, ``mutex.py`` a lock of the host.
"""
