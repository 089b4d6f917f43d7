"""What happened in a run: typed events, and the recorder, logs and statistics made of them.

Open `events.py` first, then `recorder.py`.

    events      every class of event, with its fields (`EVENTS`: by name), and what an event is
    recorder    `Trace`: records in memory, hashes, hands on to sinks; the simulation's observer
    statistics  `Calls` (API calls by name) and `HostTime` (where the time of the host threads went), always on
    logs        `JsonLines`: one JSON object per event, by structlog

`logs` is imported only where a log is written, so that structlog is not loaded here. Files for other tools, such
as Perfetto's, are entry points of the group `offloadrt.trace_files`.
"""

from offloadrt.trace import events
from offloadrt.trace.events import EVENTS, Event, Row
from offloadrt.trace.recorder import CausalObserver, FaultPhase, Sink, Trace, doing, fault_phases
from offloadrt.trace.statistics import HOST_TIME, Calls, CallStatistics, HostTime

__all__ = [
    "EVENTS",
    "HOST_TIME",
    "CallStatistics",
    "Calls",
    "CausalObserver",
    "Event",
    "FaultPhase",
    "HostTime",
    "Row",
    "Sink",
    "Trace",
    "doing",
    "events",
    "fault_phases",
]
