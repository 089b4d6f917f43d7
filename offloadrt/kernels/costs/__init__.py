"""What a kernel costs: flops, bytes and loads, for a compiler (`analysis.py`) and for one launch (`counts.py`)."""
