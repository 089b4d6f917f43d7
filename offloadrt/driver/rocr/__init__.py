"""ROCr, the driver library of an APU's device.

Open ``rocr.py`` first: ``Rocr`` lists all calls.  Their groups are ``signal_calls.py``, ``queue_calls.py``,
``dma_calls.py`` and ``pool_calls.py``.  The calls run in the host thread that makes them.  One actor belongs to the
library, the thread for asynchronous handlers (``async_handler.py``): it receives ``RunHandler`` when a signal is set,
and runs one handler after the other, as ROCr's does.
"""
