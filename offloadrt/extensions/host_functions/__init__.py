"""Reading a host function from its source: the paths through it, and what its names stand for.

``host_walk.py`` `HostWalk`, the only code that follows Python's statements and expressions; open it first. A pass
subclasses it, and decides what operation a call or an access is. ``flow.py`` the graph that the walk builds: nodes,
branches, loops, inlined calls; what names stand for where paths meet; with which probability each side of a branch is
taken, how many rounds a loop has, how often each node is executed
"""
