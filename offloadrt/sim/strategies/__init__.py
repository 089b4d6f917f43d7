"""Strategies: which of several actors that could run goes on first, and who is held back. A file each.

======================  =============================================================================================
``strategy.py``         the protocol `Strategy`, and what a strategy may have besides ``choose``; open it first
``fifo.py``             `Fifo`: the order of scheduling
``random_order.py``     `Random`: each is equally likely
``pct.py``              `Pct`: random priorities with few change points, with a guarantee
``delay.py``            `Delay`: a few random delays
``schedule.py``         `Schedule`: choices and holds that were written down
``dfs.py``              `Dfs`: every schedule that has at most so many departures from the order of scheduling
``recorded.py``         `Recorded`: writes down what another strategy does
======================  =============================================================================================
"""

from offloadrt.sim.strategies.delay import Delay
from offloadrt.sim.strategies.dfs import Dfs
from offloadrt.sim.strategies.fifo import Fifo
from offloadrt.sim.strategies.pct import Pct
from offloadrt.sim.strategies.random_order import Random
from offloadrt.sim.strategies.recorded import Recorded
from offloadrt.sim.strategies.schedule import Choice, Hold, Schedule
from offloadrt.sim.strategies.strategy import Strategy

__all__ = ["Choice", "Delay", "Dfs", "Fifo", "Hold", "Pct", "Random", "Recorded", "Schedule", "Strategy"]
