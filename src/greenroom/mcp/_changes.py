"""Tells clients that listen what has changed (`subscriptions/listen`)."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from greenroom.mcp._results import notification
from greenroom.mcp._wire import INVALID_PARAMS, SUBSCRIPTION_KEY, WireError

if TYPE_CHECKING:
    import asyncio

    from greenroom.mcp._outlet import Outlet

UPDATED: Final = "notifications/resources/updated"
LIST_CHANGED: Final = "notifications/resources/list_changed"
MAX_URIS: Final = 1000
"""Resources that one subscription may name."""


@dataclass(eq=False, slots=True)
class Subscription:
    """One client that listens, and for what."""

    id: str | int
    outlet: Outlet
    ended: asyncio.Future[None]
    """Done when the server ends it."""
    list_changes: bool = False
    uris: frozenset[str] = field(default_factory=frozenset)

    def wants(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether it asked for this."""
        if method == UPDATED:
            return params.get("uri") in self.uris
        return method == LIST_CHANGED and self.list_changes

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification with the subscription's id."""
        self.outlet.put(notification(method, {**params, "_meta": {SUBSCRIPTION_KEY: self.id}}))


class Changes:
    """The clients that listen to one endpoint, in this process."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        # Methods on threads announce, the event loop subscribes.
        self._lock = threading.Lock()

    def add(self, subscription: Subscription) -> None:
        """From now on it is told."""
        with self._lock:
            self._subscriptions.add(subscription)

    def remove(self, subscription: Subscription) -> None:
        """It is told no more."""
        with self._lock:
            self._subscriptions.discard(subscription)

    def announce(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell all that asked for it; may be called from any thread."""
        with self._lock:
            interested = [one for one in self._subscriptions if one.wants(method, params)]
        for one in interested:
            one.tell(method, params)

    def end(self) -> None:
        """End every subscription, so that a server can stop; called on the event loop."""
        with self._lock:
            ending = list(self._subscriptions)
        for one in ending:
            if not one.ended.done():
                one.ended.set_result(None)


def read_filter(params: Mapping[str, Any], *, lists: bool) -> tuple[bool, frozenset[str]]:
    """What of a client's wish can be kept: changes of the list of resources, and of which.

    Args:
        params: Of the request.
        lists: Whether the list of resources ever changes.

    Raises:
        WireError: The filter is not of its form.
    """
    wanted = params.get("notifications")
    if type(wanted) is not dict:
        raise WireError(INVALID_PARAMS, "notifications must be an object")
    uris = wanted.get("resourceSubscriptions") or []
    if type(uris) is not list or not all(type(one) is str for one in uris):
        raise WireError(INVALID_PARAMS, "resourceSubscriptions must be a list of URIs")
    if len(uris) > MAX_URIS:
        raise WireError(INVALID_PARAMS, f"A subscription names at most {MAX_URIS:,} resources")
    return lists and wanted.get("resourcesListChanged") is True, frozenset(uris)
