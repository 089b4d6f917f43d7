"""Machine profiles: what a machine is and what each operation on it costs, read from TOML files.

Open ``files.py`` first: ``load`` reads a file and its bases and makes a ``MachineSpec`` (``machine_spec.py``), which
the rest of the package asks for values, and which checks as one the entries that say how devices hang together.
``entry.py`` has the rules for one entry (value or range, unit, source, override), ``units.py`` the units.  The profiles
themselves are in ``machine/profiles/``.  There are no actors here.
"""
