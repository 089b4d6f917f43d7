"""The exit codes of all commands; 0 is success."""

NEGATIVE = 1
"""The answer is no: a check found differences, or a claim does not hold."""
WRONG_USE = 2
"""What was asked for cannot be done; the message says why."""
PROGRAM_FAILED = 3
"""The user's script or program failed."""
INTERRUPTED = 130
"""Ctrl-C; what is said then tells what was kept."""
