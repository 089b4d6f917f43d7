"""Part of ``offloadrt.machine``: queues."""
