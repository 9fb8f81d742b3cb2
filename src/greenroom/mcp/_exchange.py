"""One request as the method that works for it sees it: progress, log lines, questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from greenroom.mcp._results import notification
from greenroom.mcp._wire import LOG_LEVEL_KEY, LOG_LEVELS

if TYPE_CHECKING:
    from greenroom.mcp._changes import Changes
    from greenroom.mcp._outlet import Outlet


class Exchange:
    """Implements what `McpContext` offers."""

    __slots__ = (
        "_changes",
        "_done",
        "_log_level",
        "_outlet",
        "_token",
        "answers",
        "can_ask",
        "task",
    )

    def __init__(
        self,
        *,
        meta: Mapping[str, Any],
        modern: bool,
        outlet: Outlet | None,
        changes: Changes,
        answers: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._token = meta.get("progressToken")
        # Nothing is kept between requests, so in the legacy era nobody knows the level that was
        # set; what is meant for people goes out.
        level = meta.get(LOG_LEVEL_KEY) if modern else "info"
        self._log_level = LOG_LEVELS.index(level) if level in LOG_LEVELS else None
        self._outlet = outlet
        self._changes = changes
        self._done = -1.0
        self.answers = answers
        self.can_ask = modern
        self.task: tuple[Callable[..., Any], str] | None = None

    @property
    def cancelled(self) -> bool:
        """The client has stopped waiting."""
        return self._outlet is not None and self._outlet.gone

    def report_progress(self, done: float, total: float | None, message: str | None) -> None:
        """Tell the client how far the call is, when it has asked and when it is further."""
        if self._outlet is None or type(self._token) not in (str, int) or done <= self._done:
            return
        self._done = done
        params: dict[str, Any] = {"progressToken": self._token, "progress": done}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        self._outlet.put(notification("notifications/progress", params))

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Send the client a line for its log."""
        if self._outlet is None or self._log_level is None or level not in LOG_LEVELS:
            return
        if LOG_LEVELS.index(level) < self._log_level:
            return
        params: dict[str, Any] = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        self._outlet.put(notification("notifications/message", params))

    def go_on_as(self, handler: Callable[..., Any], instance: str) -> None:
        """Let the client come back for what a workflow does."""
        self.task = handler, instance

    def announce(self, method: str, params: Mapping[str, Any]) -> None:
        """Tell every client that listens about a change."""
        self._changes.announce(method, params)
