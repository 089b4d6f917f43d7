from offloadrt.extensions.mpi.buffers import (
    ANY_SOURCE,
    ANY_TAG,
    IN_PLACE,
    PROC_NULL,
    UNDEFINED,
    MpiError,
    buffer_of,
    device_buffer,
)
from offloadrt.extensions.mpi.buffers import (
    MpiBuffer as Buffer,
)
from offloadrt.extensions.mpi.collectives import BAND, BOR, BXOR, LAND, LOR, MAX, MIN, PROD, SUM, Op
from offloadrt.extensions.mpi.communicator import Comm, worlds
from offloadrt.extensions.mpi.requests import MessageTruncated, PersistentRequest, Status
from offloadrt.extensions.mpi.requests import MpiRequest as Request

__all__ = [
    "ANY_SOURCE",
    "ANY_TAG",
    "BAND",
    "BOR",
    "BXOR",
    "IN_PLACE",
    "LAND",
    "LOR",
    "MAX",
    "MIN",
    "PROC_NULL",
    "PROD",
    "SUM",
    "UNDEFINED",
    "Buffer",
    "Comm",
    "MessageTruncated",
    "MpiError",
    "Op",
    "PersistentRequest",
    "Request",
    "Status",
    "buffer_of",
    "device_buffer",
    "worlds",
]
