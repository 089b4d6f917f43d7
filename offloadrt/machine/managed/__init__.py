"""Part of ``offloadrt.machine``: managed."""
