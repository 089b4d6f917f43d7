"""Part of ``offloadrt.driver``: kfd."""
