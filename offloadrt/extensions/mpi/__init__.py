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

from offloadrt.lazy import lazy

__all__, __dir__, __getattr__ = lazy(__name__)
