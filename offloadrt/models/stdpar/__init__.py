"""C++ standard parallelism as a program writes it: parallel algorithms, which an implementation may offload."""
