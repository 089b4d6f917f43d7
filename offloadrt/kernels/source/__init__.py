"""Reading a kernel: its function's source, the subset of Python that it may use, and the refusals.

``function_source.py``  `Source`: a function's syntax tree with its file, its lines and the names that it can see.
``subset.py``           What a loop nest may hold; everything else is refused with file and line. Open it first.
``short_loops.py``      Products of ranges become loops, loops over written numbers become statements.
``loop_ir.py``          The statements of a nest as typed nodes, read once; all passes go by them.
``reductions.py``       Which scalars the distributed loop reduces.
``other_loops.py``      Loops that need declared costs.
``element_types.py``    Which elements arrays may have.
"""
