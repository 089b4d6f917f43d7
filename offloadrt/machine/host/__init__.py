"""Part of ``offloadrt.machine``: host."""
