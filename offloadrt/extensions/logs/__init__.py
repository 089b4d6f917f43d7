"""What others make of what is printed: logs (`stats`, `compare` of two of them) and JSON (`schema`).

``reading.py``     reads a log event by event
``statistics.py``  sums over the events of a trace; who waited for a lock, and for how long
``compared.py``    two logs beside one another, and the first event in which they differ
"""
