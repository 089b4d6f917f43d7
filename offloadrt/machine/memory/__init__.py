"""Part of ``offloadrt.machine``: memory."""
