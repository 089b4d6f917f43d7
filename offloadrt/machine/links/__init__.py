"""What moves bytes: copy engines, DMA rings, and the links between devices.

=====================  =======================================  ==================================================
actor                  receives                                 waits for
=====================  =======================================  ==================================================
``CopyEngines``        ``CopyPacket``, from hardware queues     its share of the link's bandwidth
``DmaRing`` (APU)      ``DmaPacket``, from host threads         a packet's dependency; its share of the memory
``PeerRelay``          ``PeerPacket``, from hardware queues     the copy engines that transfer each piece of the copy
``RemotePort``         ``RemoteAccess``, from compute units     its share of the link's bandwidth
=====================  =======================================  ==================================================

Each is an actor because transfers queue for it. ``machine/share.py`` makes transfers that share a link take longer. A
``Link`` is one direction of a link with several users, ``PcieTree`` holds the links above the devices, and ``Peers``
chooses the way of a copy between two devices. Open ``engines.py`` first.
"""
