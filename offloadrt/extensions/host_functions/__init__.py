"""Reading a host function from its source: the paths through it, and what its names stand for.

``host_walk.py``  `HostWalk`, the only code that follows Python's statements and expressions; open it first. A pass
                  subclasses it, and says what a call or an access is to it.
``flow.py``       what the walk builds: nodes, branches, loops, inlined calls; what names stand for where paths meet;
                  which side of a branch control takes, how often a loop goes round and control comes to each node
"""
