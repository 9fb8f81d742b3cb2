"""A call that is made later: by a timer, or as a child of a workflow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeferredCall:
    """A call to a component, checked and ready to be made. Made by `deferred` of a client.

    Example:
        >>> call = client.for_workflow(Transfer, "t-1").deferred(Transfer.start, 5)  # doctest: +SKIP
        >>> timers.start_single_timer("retry-t-1", timedelta(hours=1), call)         # doctest: +SKIP
    """

    component: str
    instance: str
    """Empty for a component that has no instances."""
    handler: str
    arguments: str
    """JSON."""

    def __str__(self) -> str:
        where = f"{self.component}/{self.instance}" if self.instance else self.component
        return f"{where}.{self.handler}"
