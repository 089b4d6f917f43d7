"""Counting iterations: how often the blocks of a loop nest run once the arguments of a launch are known."""
