"""What is made of logs: `stats`, and `compare` of two of them. Open `command.py` first.

``statistics.py``  sums over the events of a trace; who waited for a lock, and for how long
``compared.py``    two logs beside one another, and the first event in which they differ
"""
