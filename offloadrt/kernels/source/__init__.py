"""Reading a kernel: its function's source, the subset of Python that it may use, and the refusals."""
