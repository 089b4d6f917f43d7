"""Commands on the output of other commands: on logs (`stats`, `compare` of two logs) and JSON (`schema`).

``reading.py``     reads a log event by event
``statistics.py``  sums over the events of a trace; who waited for a lock, and for how long
``compared.py``    two logs beside one another, and the first event in which they differ
"""
