"""The programs that were measured.

``managed.py`` has programs over managed memory, and times calls of the driver and a lock of the host; ``patches.py``
offloads patches.
"""
