"""Clients of one attempt of a step: what they call comes from that attempt, on any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from greenroom.runtime._client import AsyncComponentClient, ComponentClient
from greenroom.runtime._timers import AsyncTimerScheduler, TimerScheduler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.runtime._calls import CallOrigin
    from greenroom.runtime._instance_client import Caller
    from greenroom.runtime._timer_requests import TimerCaller

_CLIENTS = (ComponentClient, AsyncComponentClient, TimerScheduler, AsyncTimerScheduler)


class RunCaller:
    """The runtime, as the clients of one attempt see it."""

    __slots__ = ("_caller", "origin")

    def __init__(self, caller: TimerCaller, origin: CallOrigin) -> None:
        self._caller = caller
        self.origin = origin

    def __getattr__(self, name: str) -> Any:
        return getattr(self._caller, name)


def clients_of_run(dependencies: Mapping[str, Any], origin: CallOrigin) -> dict[str, Any]:
    """What a constructor is given, with clients that know the attempt they are used in.

    The code of a step may start threads, or have a pool of them. Those have no context of the
    step, and yet what they call is to be carried out once.
    """
    return {
        name: type(one)(cast("Caller", RunCaller(one._caller, origin)))
        if isinstance(one, _CLIENTS)
        else one
        for name, one in dependencies.items()
    }
