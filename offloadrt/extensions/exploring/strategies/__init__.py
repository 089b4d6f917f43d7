"""The strategies that explore schedules, beside those of `offloadrt.sim.strategies`; each has a file of its own.

======================  =============================================================================================
``pct.py``              `Pct`: random priorities with few change points, with a guarantee
``delay.py``            `Delay`: a few random delays
``schedule.py``         `Schedule`: repeats recorded choices and holds
``dfs.py``              `Dfs`: every schedule that has at most so many departures from the order of scheduling
``recorded.py``         `Recorded`: records the choices and holds of another strategy
======================  =============================================================================================
"""

from offloadrt.extensions.exploring.strategies.delay import Delay
from offloadrt.extensions.exploring.strategies.dfs import Dfs
from offloadrt.extensions.exploring.strategies.pct import Pct
from offloadrt.extensions.exploring.strategies.recorded import Recorded
from offloadrt.extensions.exploring.strategies.schedule import Choice, Hold, Schedule

__all__ = ["Choice", "Delay", "Dfs", "Hold", "Pct", "Recorded", "Schedule"]
