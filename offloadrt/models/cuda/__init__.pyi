from offloadrt.driver import BuiltGraph, CapturedGraph, GraphExec, MemPool, TimedEvent
from offloadrt.machine import DeviceArray
from offloadrt.models.cuda.calling_thread import STREAM_LEGACY, STREAM_PER_THREAD
from offloadrt.models.cuda.host_thread import HostThread
from offloadrt.models.cuda.program import CUDA, CUDAOptions

__all__ = [
    "CUDA",
    "STREAM_LEGACY",
    "STREAM_PER_THREAD",
    "BuiltGraph",
    "CUDAOptions",
    "CapturedGraph",
    "DeviceArray",
    "GraphExec",
    "HostThread",
    "MemPool",
    "TimedEvent",
]
