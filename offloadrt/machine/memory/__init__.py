"""Address spaces: device memory with its allocator and its bytes, and page tables.  Plain data, without actors or time.

Open ``device_memory.py`` first.  It is built from ``address_map.py`` (values by the address where they begin),
``holes.py`` (free ranges) and ``backing.py`` (real bytes).  ``page_table.py`` says which pages of host memory a
processor can translate.  What allocations and faults cost is decided by the driver, which changes these structures
under its locks.
"""
