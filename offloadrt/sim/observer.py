"""What the scheduler tells whoever watches it. Implemented by ``offloadrt.trace``; absent, it costs one test a call."""

from __future__ import annotations

from typing import Any, Protocol

from offloadrt.sim.actor import Actor


class Observer(Protocol):
    """Called at the virtual time of what happened, before anybody else runs."""

    def actor_spawned(self, actor: Actor) -> None: ...
    def actor_finished(self, actor: Actor) -> None: ...
    def lock_waited(self, lock: Any, actor: Actor) -> None: ...
    def lock_acquired(self, lock: Any, actor: Actor) -> None: ...
    def lock_released(self, lock: Any, actor: Actor) -> None: ...
