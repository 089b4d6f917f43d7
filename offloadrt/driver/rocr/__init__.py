"""Part of ``offloadrt.driver``: rocr."""
