"""The placement of objects under the configuration `otm`: which arrays are explicit, implicit or pinned.

`placement.py` has the policy as pure functions, `object_table.py` the objects of a program on one device, and
`placing.py` what a construct does with them before it maps anything and after it has ended.
"""
