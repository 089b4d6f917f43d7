"""Part of ``offloadrt.driver``: uvm."""
