"""Scenario scripts: what the decorator makes of a function, where scripts are found, and how their errors are shown.

==================  =================================================================================================
``definition.py``   `scenario`, `Scenario`, `Figure`: what a script writes; open it first
``parameters.py``   the parameters of a scenario, read from its signature
``registry.py``     finds scenarios by name or path, and imports their files
``tracebacks.py``   the script's own traceback, without the emulator's frames
==================  =================================================================================================
"""
