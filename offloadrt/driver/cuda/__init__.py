"""Part of ``offloadrt.driver``: cuda."""
