"""Part of ``offloadrt.machine``: compute."""
