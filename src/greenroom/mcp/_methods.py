"""What the methods of the protocol do: those about the server here, the rest in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from greenroom.mcp._answering import Answering
from greenroom.mcp._listing import describe_server
from greenroom.mcp._offers import Completions, Prompts, Resources
from greenroom.mcp._prompt_methods import PromptMethods
from greenroom.mcp._resource_methods import ResourceMethods
from greenroom.mcp._results import dump
from greenroom.mcp._tool_methods import ToolMethods
from greenroom.mcp._wire import (
    INVALID_PARAMS,
    LOG_LEVELS,
    MODERN_VERSIONS,
    NEWEST_LEGACY,
    REVISIONS,
    TASKS,
    Revision,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.components import EndpointMethods, McpEndpointDefinition
    from greenroom.edge import Guard, MethodRunner, ToolCaller
    from greenroom.mcp._mcp_request import McpRequest
    from greenroom.mcp._state import StateSeal


class Methods:
    """Answers the methods that the wire table names, with the JSON of their results.

    Args:
        endpoint: What is served.
        caller: Carries out its tools.
        runner: Runs its own methods; may be left out where it has none.
        seal: Keeps what clients carry between two rounds of one call.
        guard: Says who may use which tool; None lets everybody.
    """

    def __init__(
        self,
        endpoint: McpEndpointDefinition,
        caller: ToolCaller,
        runner: MethodRunner | None = None,
        seal: StateSeal | None = None,
        guard: Guard | None = None,
    ) -> None:
        info = describe_server(endpoint)
        own = endpoint.methods
        answering = Answering(endpoint.path, info, runner, seal, private=guard is not None)
        self.changes = answering.changes
        resources = Resources(own)
        prompts = Prompts(own)
        self.tools = ToolMethods(endpoint.tools, caller, answering, guard)
        self.tasks = self.tools.tasks
        self.resources = ResourceMethods(resources, answering)
        completions = Completions(own)
        self.prompts = PromptMethods(prompts, completions, answering)
        self._talking_tools = frozenset(one.name for one in own.tools if one.method.may_talk)
        talking = {
            "resources/list": resources.list_may_talk,
            "resources/read": resources.may_talk,
            "prompts/get": prompts.may_talk,
            "completion/complete": completions.may_talk,
            "subscriptions/listen": True,
        }
        self._talking_methods = frozenset(name for name, talks in talking.items() if talks)
        has_tasks = bool(self.tasks)
        self._offered = _offered(own, has_tasks=has_tasks)
        about: dict[str, Any] = {"instructions": endpoint.instructions}
        about = {} if not endpoint.instructions else about
        self._introduction = {
            "capabilities": _capabilities(own, modern=False),
            **about,
            "serverInfo": info,
        }
        can = _capabilities(own, modern=True)
        if has_tasks:
            can["extensions"] = {TASKS: {}}
        modern = {"capabilities": can, **about}
        self._discovery = answering.modern.result(
            dump(modern | {"supportedVersions": MODERN_VERSIONS})[1:-1] + answering.caching
        )

    def offers(self, method: str) -> bool:
        """Whether this endpoint has what the method is about."""
        return method not in _OPTIONAL or method in self._offered

    def may_talk(self, message: Mapping[str, Any]) -> bool:
        """Whether something may be said before the answer, or the client's leaving matters."""
        params = message.get("params")
        if type(params) is not dict:
            return False
        method = message.get("method")
        if method == "tools/call":
            name = params.get("name")
            return type(name) is str and name in self._talking_tools
        return type(method) is str and method in self._talking_methods

    # -- about the server ------------------------------------------------------------------

    async def initialize(self, request: McpRequest) -> bytes:
        """The legacy handshake: the version that was asked for, or the newest before 2026-07-28."""
        spoken = agreed_revision(request.params)
        return dump({"protocolVersion": spoken.version, **self._introduction})

    async def ping(self, _request: McpRequest) -> bytes:
        """Nothing, to show that somebody is there."""
        return b"{}"

    async def discover(self, _request: McpRequest) -> bytes:
        """What this server is and can do."""
        return self._discovery

    async def set_level(self, request: McpRequest) -> bytes:
        """Nothing: a level can't be kept between requests. What is sent is `info` and above."""
        if request.params.get("level") not in LOG_LEVELS:
            raise WireError(INVALID_PARAMS, f"level must be one of {', '.join(LOG_LEVELS)}")
        return b"{}"


_RESOURCE_METHODS: Final = (
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
)
_TASK_METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
_PROMPT_METHODS: Final = ("prompts/list", "prompts/get")
_OPTIONAL: Final = frozenset(
    (
        *_RESOURCE_METHODS,
        *_PROMPT_METHODS,
        *_TASK_METHODS,
        "completion/complete",
        "logging/setLevel",
    )
)


def _offered(own: EndpointMethods, *, has_tasks: bool) -> frozenset[str]:
    """The optional methods that an endpoint has something for."""
    found: list[str] = []
    if own.resources or own.templates:
        found += _RESOURCE_METHODS
    if own.prompts:
        found += _PROMPT_METHODS
    if own.completions:
        found.append("completion/complete")
    if own.may_log:
        found.append("logging/setLevel")
    if has_tasks:
        found += _TASK_METHODS
    return frozenset(found)


def _capabilities(own: EndpointMethods, *, modern: bool) -> dict[str, Any]:
    """What a server says that it can do; of each kind only where there is something."""
    made: dict[str, Any] = {"tools": {}}
    if own.resources or own.templates:
        made["resources"] = {}
        if modern:
            made["resources"]["subscribe"] = True
            if own.instances:
                made["resources"]["listChanged"] = True
    if own.prompts:
        made["prompts"] = {}
    if own.completions:
        made["completions"] = {}
    if own.may_log:
        made["logging"] = {}
    return made


def agreed_revision(params: Mapping[str, Any]) -> Revision:
    """The revision that a handshake ends with.

    Raises:
        WireError: It names no version.
    """
    requested = params.get("protocolVersion")
    if not isinstance(requested, str):
        raise WireError(INVALID_PARAMS, "protocolVersion must be a string")
    revision = REVISIONS.get(requested)
    return NEWEST_LEGACY if revision is None or revision.modern else revision
