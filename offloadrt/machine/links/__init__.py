"""Part of ``offloadrt.machine``: links."""
