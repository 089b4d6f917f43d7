"""Where the accesses of a launch lie in their arrays: boxes, ranges, and how many elements are touched."""
