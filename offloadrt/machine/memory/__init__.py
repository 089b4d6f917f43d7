"""Address spaces: device memory with its allocator and its bytes, and page tables.  Plain data, without actors or time.

Open ``device_memory.py`` first.  ``address_map.py`` has values by the address where they begin, ``page_table.py`` says
which pages of host memory a processor can translate.  What allocations and faults cost is decided by the driver, which
changes these structures under its locks.
"""
