"""What a kernel costs in flops, bytes and loads; no seconds, which are the machine's.

``analysis.py``   `KernelAnalysis`: what a compiler knows from the source alone. Open it first.
``signature.py``  `Signature`: what the nest takes, and the numbers that arguments are to its counting.
``counts.py``     `LaunchCounts`: what one launch does, its arguments known.
``streams.py``    In which orders a launch comes to an array's elements, and how many it moves in each.
``sectors.py``    How many bytes move where memory gives whole sectors.
``waits.py``      How often a thread waits for memory, and for how many loads at once.
"""
