"""Reading a host function from its source: the paths through it, and what its names stand for.

``host_walk.py``      `HostWalk`, the only code that follows Python's statements and expressions; open it first. A pass
                      subclasses it, and says what a call or an access is to it.
``flow_graph.py``     what the walk builds: nodes, branches, loops, inlined calls
``flow_builder.py``   building it: paths, and what the names stand for where they meet
``scope.py``          what a walk knows of names; a pass has its own kind of `Scope`
``probabilities.py``  which side of a branch control takes, how often a loop goes round
``frequencies.py``    how often control comes to each node
"""
