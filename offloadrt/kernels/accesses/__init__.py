"""Following a loop nest: its loads and stores with their indices, its operations, loops and branches."""
