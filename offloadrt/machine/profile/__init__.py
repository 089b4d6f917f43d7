"""Machine profiles: what a machine is and what each operation on it costs, read from TOML files.

Open ``machine_spec.py`` first: ``load`` reads a file and its bases and makes a ``MachineSpec``, which the rest of the
package asks for values.  ``entry.py`` has the rules for one entry (value or range, unit, source, override),
``units.py`` has the units.  The profiles themselves are in ``machine/profiles/``.  There are no actors here.
"""
