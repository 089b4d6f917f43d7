"""Part of ``offloadrt.machine``: profile."""
