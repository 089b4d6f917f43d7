"""Strategies for several devices, by name.

``single``      one device, whatever the program has
``duplicated``  every device runs everything
``adaptive``    JACC: kernels divided by predicates, each while the controller says so (`adaptive.py`)
``always``      the same, every kernel that can be divided, always
``macc``        MACC: the outermost distributed loop split, every kernel where that is proven to be right, always
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from offloadrt.compilers.multi_device import DividedKernel
from offloadrt.kernels import Kernel
from offloadrt.kernels.integers import is_integer
from offloadrt.models.openacc.jacc.devices.adaptive import AdaptiveController, Rules
from offloadrt.models.openacc.jacc.devices.policy import Fixed, Mode, PushPolicy

STRATEGIES: Final = ("single", "duplicated", "adaptive", "always", "macc")


@attrs.frozen
class DeviceStrategy:
    """A strategy for several devices.

    policy: when kernels are divided; divide: how, raising KernelError for one that cannot be. devices: how many of the
    program's are used, all for None. Raises ValueError for less than one.
    """

    policy: PushPolicy = attrs.field(factory=Fixed)
    divide: Callable[[Kernel], DividedKernel] | None = None
    devices: int | None = attrs.field(default=None)

    @devices.validator
    def _check_devices(self, attribute: attrs.Attribute[int | None], value: int | None) -> None:
        if value is not None and (not is_integer(value) or value < 1):
            raise ValueError(f"DeviceStrategy: devices is {value!r}, but must be a whole number from 1")


def strategy_named(name: str, devices: int) -> DeviceStrategy:
    """Make the strategy of that name for so many devices, with the default `Rules`.

    Raises ValueError for a name that does not exist.
    """
    from offloadrt.compilers.multi_device import predicate, split_loop

    if name == "single":
        return DeviceStrategy(devices=1)
    if name == "duplicated":
        return DeviceStrategy()
    if name == "adaptive":
        return DeviceStrategy(AdaptiveController(Rules(devices)), predicate)
    if name == "always":
        return DeviceStrategy(Fixed(Mode.DIVIDED), predicate)
    if name == "macc":
        return DeviceStrategy(Fixed(Mode.DIVIDED), split_loop)
    raise ValueError(f"no strategy {name!r}; there are: {', '.join(STRATEGIES)}")
