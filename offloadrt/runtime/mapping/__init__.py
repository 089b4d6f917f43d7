"""The present table of a device, and how a construct's map items go in and out of it.

Start with `data_environment.py`: begin, end and update of a data environment, item by item. An item takes the device
table (`HostLock.enter`), is looked up (`PresentTable.lookup`), and is counted up or created (`get_target_pointer`), or
counted down and later removed (`_finish_data_end`). Entries are locked while they are copied (`lock_visited`).
"""
