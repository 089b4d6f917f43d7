"""Following a loop nest: its loads and stores with their indices, its operations, loops and branches.

``walk.py``          The walk from statement to statement. Open it first; `access.py` says what it meets.
``evaluation.py``    What an expression is where the walk stands (`values.py`), and what it loads and computes.
``number_kinds.py``  Whole, floating-point, complex or truth value: bounds and indices must be whole.
``frequency.py``     The loops and branches around a block, and how often a compiler thinks that it runs.
``conditions.py``    Comparisons that are ranges of an index, which a launch counts exactly.
``traffic.py``       Which accesses move the same elements.
"""
