"""MPI among the processes of a program, as ``from offloadrt.extensions import mpi`` gives it to a script.

``await run.mpiexec(main)`` runs ``await main(process)`` in each process; ``process.world`` is its MPI_COMM_WORLD.

=========================================  ===========================================================================
``Comm``                                   a communicator as one rank has it, with the calls of mpi4py: ``Send``,
                                           ``Recv``, ``Isend``, ``Irecv``, ``Send_init``, ``Sendrecv``, ``Probe``,
                                           ``Barrier``, ``Bcast``, ``Allreduce``, …, ``Split``, ``Dup``
``Request``, ``PersistentRequest``         ``Wait``, ``Test``, ``Waitall``, ``Waitany``, ``Waitsome``, ``Start``
``Status``                                 what came with a receive
``Buffer``, ``buffer_of``                  memory of the host or of a device, real or a phantom, in one piece or many
``device_buffer``                          memory behind a device pointer
``SUM``, ``MAX``, … (`Op`)                 operations of reductions
``ANY_SOURCE``, ``ANY_TAG``, ``IN_PLACE``, ``PROC_NULL``, ``UNDEFINED``
``MpiError``, ``MessageTruncated``         a call that MPI refuses; a receive whose message is longer than its buffer
=========================================  ===========================================================================

`communicator.py` has the calls, `requests.py` requests and progress, `matching.py` which receive gets which message,
`transport.py` how a message travels, `network.py` the cards and links that carry it, `collectives.py` the algorithms
and `choices.py` which one a library takes, `costs.py` the entries of the profile.
"""

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
