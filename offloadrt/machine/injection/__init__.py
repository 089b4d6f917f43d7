"""Faults that are injected into a run on purpose: failing calls, lost doorbells, stuck engines, devices that disappear.

===============  =================================================================================================
``fault.py``     `InjectedFault`: one fault as a user writes it, and which event it strikes
``plan.py``      `FaultPlan`: all faults of a run; a pure policy that says whether an event is struck
``injector.py``  `Injector`: counts the events of a run, asks the plan, and remembers what it has done
===============  =================================================================================================

A fault strikes where the real thing would happen: the driver libraries ask at each call (``driver/calls.py``), queues
at each doorbell, copy engines and DMA rings at each transfer, the compute units at the end of each kernel, whoever
reports page faults at each interrupt, and the handlers of page faults at each fault.  Each has an ``injector`` that is
None in a run without faults.
"""
