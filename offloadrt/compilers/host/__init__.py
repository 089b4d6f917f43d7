"""Reading a host function: what its names stand for, and the flow of control through it."""
