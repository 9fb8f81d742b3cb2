"""What the methods of the protocol do."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from greenroom.components import (
    InputNeededError,
    McpContext,
    MethodTool,
    MissingCapabilityError,
    ToolContext,
    mirrored_arguments,
)
from greenroom.edge import RequestHeaders, asking, report, traceparent_of
from greenroom.errors import CommandError, InvalidArgumentsError, ResourceNotFoundError
from greenroom.logs import correlation_id, new_correlation_id
from greenroom.mcp._changes import Changes, Subscription, read_filter
from greenroom.mcp._content import content_block, resource_contents
from greenroom.mcp._envelope import check_mirrored, header
from greenroom.mcp._exchange import Exchange
from greenroom.mcp._listing import Listing, describe_server, describe_tool
from greenroom.mcp._offers import Completions, Prompts, Resources
from greenroom.mcp._results import ResultWriter, dump
from greenroom.mcp._state import StateSeal, fingerprint
from greenroom.mcp._wire import (
    ASKABLE,
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    DECLINED,
    IDEMPOTENCY_KEY,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LOG_LEVELS,
    MISSING_CAPABILITY,
    MODERN_VERSIONS,
    NEWEST_LEGACY,
    REVISIONS,
    SUBSCRIPTION_KEY,
    Revision,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from greenroom.components import (
        EndpointMethod,
        EndpointMethods,
        McpEndpointDefinition,
        PromptDefinition,
        ResourceDefinition,
        ResourceLink,
        Tool,
    )
    from greenroom.edge import Guard, MethodRunner, ToolCaller
    from greenroom.mcp._outlet import Outlet

T = TypeVar("T")

_TTL_MS: Final = 300_000
"""How long clients may keep lists. Tools change with a deployment only; five minutes after one,
every client has seen it."""

_MAX_KEY: Final = 255


@dataclass(slots=True)
class McpRequest:
    """One request that passed every check of its revision."""

    revision: Revision
    method: str
    params: Mapping[str, Any]
    headers: Mapping[bytes, bytes] | None
    """None where the transport has none."""
    id: str | int | None = None
    alone: bool = True
    """Not part of a batch; a batch can't share one `Idempotency-Key` header."""
    outlet: Outlet | None = None
    """Where something may be said before the answer; None where there is no such place."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's `_meta`."""
        found = self.params.get("_meta")
        return found if type(found) is dict else {}


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
        self._path = endpoint.path
        self._caller = caller
        self._guard = guard
        self._caching = _PUBLIC if guard is None else _PRIVATE
        self._runner = runner
        self._seal = seal or _only_here()
        self.changes = Changes()
        self._tools = {tool.name: tool for tool in endpoint.tools}
        self._header_checks = {
            tool.name: found
            for tool in endpoint.tools
            if (found := mirrored_arguments(tool.input_schema))
        }
        self._tool_list = _list_of(endpoint.tools)
        self._narrower_lists: dict[tuple[str, ...], Listing] = {}
        own = endpoint.methods
        self._resources = Resources(own)
        self._prompts = Prompts(own)
        self._completions = Completions(own)
        self._talking_tools = frozenset(one.name for one in own.tools if one.method.may_talk)
        talking = {
            "resources/list": self._resources.list_may_talk,
            "resources/read": self._resources.may_talk,
            "prompts/get": self._prompts.may_talk,
            "completion/complete": self._completions.may_talk,
            "subscriptions/listen": True,
        }
        self._talking_methods = frozenset(name for name, talks in talking.items() if talks)
        self._legacy = ResultWriter(None)
        self._modern = ResultWriter(info)
        self._offered = _offered(own)
        about: dict[str, Any] = {"instructions": endpoint.instructions}
        about = {} if not endpoint.instructions else about
        self._introduction = {
            "capabilities": _capabilities(own, modern=False),
            **about,
            "serverInfo": info,
        }
        modern = {"capabilities": _capabilities(own, modern=True), **about}
        self._discovery = self._modern.result(
            dump(modern | {"supportedVersions": MODERN_VERSIONS})[1:-1] + self._caching
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

    async def subscribe(self, request: McpRequest) -> bytes:
        """Nothing: without sessions there is nobody to tell. Clients of 2026-07-28 can listen."""
        _text_of(request, "uri")
        return b"{}"

    # -- tools -----------------------------------------------------------------------------

    async def list_tools(self, request: McpRequest) -> bytes:
        """One page of the tools."""
        return self._listed(request, self._tools_for_caller())

    def _tools_for_caller(self) -> Listing:
        """The tools that the caller is shown; few such sets exist, and each is written once."""
        if self._guard is None:
            return self._tool_list
        principal = asking()
        shown = [one for one in self._tools.values() if self._guard.offers(one, principal)]
        if len(shown) == len(self._tools):
            return self._tool_list
        names = tuple(one.name for one in shown)
        if names not in self._narrower_lists:
            self._narrower_lists[names] = _list_of(shown)
        return self._narrower_lists[names]

    async def call_tool(self, request: McpRequest) -> bytes:
        """What a tool answered; a failure is an answer too, which a model can act on."""
        params = request.params
        name = params.get("name")
        tool = self._tools.get(name) if type(name) is str else None
        if tool is None:
            raise WireError(INVALID_PARAMS, f"Unknown tool: {name}")
        arguments = params.get("arguments")
        if arguments is None:
            arguments = {}
        elif type(arguments) is not dict:
            raise WireError(INVALID_PARAMS, "arguments must be an object")
        if request.revision.modern and request.headers is not None and name in self._header_checks:
            check_mirrored(self._header_checks[name], arguments, request.headers)
        if isinstance(tool, MethodTool) or tool.requires_approval:
            return await self._asking(request, partial(self._call, request, tool, arguments))
        return await self._call(request, tool, arguments, _context(request, request.meta))

    async def _call(
        self, request: McpRequest, tool: Tool, arguments: dict[str, Any], context: ToolContext
    ) -> bytes:
        traceparent = _traceparent(request, request.meta)
        if self._guard is not None:
            self._guard.check_tool(tool, arguments, context, traceparent)
        outcome = await self._caller.call(tool, arguments, context, traceparent=traceparent)
        return self._writer(request).tool_result(outcome)

    # -- resources -------------------------------------------------------------------------

    async def list_resources(self, request: McpRequest) -> bytes:
        """One page of the resources: static ones, and instances of templates as they are now."""
        instances = self._resources.instances
        if not instances:
            return self._listed(request, self._resources.static)
        found: list[list[ResourceLink]] = []
        for method in instances:
            links = method.handler.reply_adapter.validate_python
            found.append(
                await self._run(request, method, (), self._mcp_context(request, {}), links)
            )
        return self._listed(request, self._resources.with_instances(found), _NO_CACHING)

    async def list_templates(self, request: McpRequest) -> bytes:
        """One page of the resource templates."""
        return self._listed(request, self._resources.templates)

    async def read_resource(self, request: McpRequest) -> bytes:
        """What a resource holds."""
        uri = _text_of(request, "uri")
        found = self._resources.find(uri)
        if found is None:
            raise _no_resource(request, uri, f"Resource not found: {uri}")
        return await self._asking(request, partial(self._read, request, uri, *found))

    async def _read(
        self,
        request: McpRequest,
        uri: str,
        resource: ResourceDefinition,
        variables: Mapping[str, str],
        context: McpContext,
    ) -> bytes:
        try:
            values = resource.values(variables)
        except InvalidArgumentsError as error:
            raise _no_resource(request, uri, f"Resource not found: {uri}") from error

        def show(value: Any) -> bytes:
            return dump([resource_contents(one) for one in resource.show(value, uri)])

        contents = await self._run(request, resource.method, values, context, show)
        members = b'"contents":' + contents
        if request.revision.modern:
            members += _NO_CACHING
        return self._writer(request).result(members)

    async def listen(self, request: McpRequest) -> bytes:
        """Tell the client about changes until it leaves, or the server stops."""
        lists, uris = read_filter(request.params, lists=bool(self._resources.instances))
        if request.outlet is None or request.id is None:
            raise WireError(INVALID_REQUEST, "To listen, accept text/event-stream")
        ended = asyncio.get_running_loop().create_future()
        subscription = Subscription(request.id, request.outlet, ended, lists, uris)
        kept: dict[str, Any] = {}
        if lists:
            kept["resourcesListChanged"] = True
        if uris:
            kept["resourceSubscriptions"] = sorted(uris)
        subscription.tell("notifications/subscriptions/acknowledged", {"notifications": kept})
        self.changes.add(subscription)
        try:
            await ended
        finally:
            self.changes.remove(subscription)
        return self._modern.result(b"", {SUBSCRIPTION_KEY: request.id})

    # -- prompts ---------------------------------------------------------------------------

    async def list_prompts(self, request: McpRequest) -> bytes:
        """One page of the prompts."""
        return self._listed(request, self._prompts.listing)

    async def get_prompt(self, request: McpRequest) -> bytes:
        """The messages of a prompt."""
        prompt, values = self._prompts.find(request.params)
        return await self._asking(request, partial(self._prompt, request, prompt, values))

    async def _prompt(
        self,
        request: McpRequest,
        prompt: PromptDefinition,
        values: tuple[Any, ...],
        context: McpContext,
    ) -> bytes:
        def show(value: Any) -> bytes:
            messages = prompt.show(value)
            return dump(
                [{"role": one.role, "content": content_block(one.content)} for one in messages]
            )

        members = b'"messages":' + await self._run(request, prompt.method, values, context, show)
        if prompt.description:
            members += b',"description":' + dump(prompt.description)
        return self._writer(request).result(members)

    async def complete(self, request: McpRequest) -> bytes:
        """Values for an argument that somebody is typing."""
        completion, typed, others = self._completions.find(request.params)
        found: list[str] = []
        if completion is not None and completion.method is None:
            found = [one for one in completion.choices if one.lower().startswith(typed.lower())]
        elif completion is not None and completion.method is not None:
            values = (typed, others) if completion.takes_others else (typed,)
            context = self._mcp_context(request, {})
            texts = completion.method.handler.reply_adapter.validate_python
            found = list(await self._run(request, completion.method, values, context, texts))
        shown = {"values": found[:MAX_COMPLETIONS], "total": len(found)}
        shown["hasMore"] = len(found) > MAX_COMPLETIONS
        return self._writer(request).result(b'"completion":' + dump(shown))

    # -- what several have in common -------------------------------------------------------

    def _writer(self, request: McpRequest) -> ResultWriter:
        return self._modern if request.revision.modern else self._legacy

    def _listed(self, request: McpRequest, listing: Listing, caching: bytes | None = None) -> bytes:
        page = listing.page(request.params.get("cursor"))
        if request.revision.modern:
            page += caching or self._caching
        return self._writer(request).result(page)

    async def _run(
        self,
        request: McpRequest,
        method: EndpointMethod,
        values: tuple[Any, ...],
        context: McpContext,
        show: Callable[[Any], T],
    ) -> T:
        """What a method answers, as `show` makes it; errors of both as the protocol tells them."""
        assert self._runner is not None, "an endpoint with methods needs a runner"
        try:
            return show(await self._runner.run(method, values, context))
        except Exception as error:
            asks = isinstance(error, InputNeededError | MissingCapabilityError)
            if asks and request.method in ASKABLE:
                raise
            view = report(error, target=method.target, correlation_id=context.correlation_id)
            if isinstance(error, ResourceNotFoundError) and request.method == "resources/read":
                raise _no_resource(request, request.params["uri"], view.text) from error
            code = DECLINED if isinstance(error, CommandError) else INTERNAL_ERROR
            data = {"code": view.code, "correlationId": view.correlation_id}
            raise WireError(code, view.text, data) from error

    async def _asking(
        self, request: McpRequest, work: Callable[[McpContext], Awaitable[bytes]]
    ) -> bytes:
        """The result of a method that may end with questions to the client."""
        bound = fingerprint(self._path, request.method, request.params, asking().subject)
        answers = self._answers(request, bound) if request.revision.modern else {}
        try:
            return await work(self._mcp_context(request, answers))
        except InputNeededError as needed:
            asked = {key: one.as_request() for key, one in needed.requests.items()}
            state = self._seal.seal({"asked": list(asked), "answers": answers}, bound)
            return self._modern.input_required(
                b'"inputRequests":%b,"requestState":%b' % (dump(asked), dump(state))
            )
        except MissingCapabilityError as missing:
            raise WireError(
                MISSING_CAPABILITY,
                f"The client must declare: {', '.join(missing.required)}",
                {"requiredCapabilities": missing.required},
            ) from missing

    def _answers(self, request: McpRequest, bound: str) -> dict[str, Any]:
        """What the client has answered so far, in this round and in those before."""
        state = request.params.get("requestState")
        given = request.params.get("inputResponses")
        if given is None:
            given = {}
        elif type(given) is not dict:
            raise WireError(INVALID_PARAMS, "inputResponses must be an object")
        if state is None:
            return {}
        sealed = self._seal.open(state, bound)
        # Answers to questions that were never asked count for nothing: approval is one.
        news = {key: given[key] for key in sealed["asked"] if type(given.get(key)) is dict}
        answers: dict[str, Any] = sealed["answers"]
        return answers | news

    def _mcp_context(self, request: McpRequest, answers: Mapping[str, Any]) -> McpContext:
        meta = request.meta
        plain = _context(request, meta)
        client = meta.get(CLIENT_INFO_KEY)
        capabilities = meta.get(CAPABILITIES_KEY)
        return McpContext(
            principal=plain.principal,
            idempotency_key=plain.idempotency_key,
            headers=plain.headers,
            correlation_id=plain.correlation_id,
            protocol_version=request.revision.version,
            client_info=client if type(client) is dict else {},
            capabilities=capabilities if type(capabilities) is dict else {},
            exchange=Exchange(
                meta=meta,
                modern=request.revision.modern,
                outlet=request.outlet,
                changes=self.changes,
                answers=answers,
            ),
        )


_PUBLIC: Final = b',"ttlMs":%d,"cacheScope":"public"' % _TTL_MS
_PRIVATE: Final = b',"ttlMs":%d,"cacheScope":"private"' % _TTL_MS
"""What depends on who asks must not be kept for others."""
_NO_CACHING: Final = b',"ttlMs":0,"cacheScope":"private"'
"""For what may be different in a moment, or for somebody else."""

MAX_COMPLETIONS: Final = 100
"""The protocol's limit."""

_RESOURCE_METHODS: Final = (
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
)
_PROMPT_METHODS: Final = ("prompts/list", "prompts/get")
_OPTIONAL: Final = frozenset(
    (*_RESOURCE_METHODS, *_PROMPT_METHODS, "completion/complete", "logging/setLevel")
)


def _list_of(tools: Iterable[Tool]) -> Listing:
    return Listing("tools", [(tool.name, describe_tool(tool)) for tool in tools])


def _offered(own: EndpointMethods) -> frozenset[str]:
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


def _only_here() -> StateSeal:
    secret = secrets.token_hex(32)
    return StateSeal(lambda: secret)


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


def _text_of(request: McpRequest, name: str) -> str:
    value = request.params.get(name)
    if type(value) is not str:
        raise WireError(INVALID_PARAMS, f"{name} must be a string")
    return value


def _no_resource(request: McpRequest, uri: str, text: str) -> WireError:
    return WireError(request.revision.no_resource, text, {"uri": uri})


def _context(request: McpRequest, meta: Mapping[str, Any]) -> ToolContext:
    return ToolContext(
        principal=asking(),
        session=None,
        turn=None,
        idempotency_key=_idempotency_key(request, meta),
        deadline=None,
        headers=RequestHeaders(request.headers or {}),
        correlation_id=correlation_id.get() or new_correlation_id(),
    )


def _idempotency_key(request: McpRequest, meta: Mapping[str, Any]) -> str | None:
    in_body = meta.get(IDEMPOTENCY_KEY)
    in_header = _header(request, b"idempotency-key") if request.alone else None
    if in_body is None and in_header is None:
        return None
    if in_body is not None and in_header is not None and in_body != in_header:
        raise WireError(
            INVALID_PARAMS, f"The Idempotency-Key header and _meta[{IDEMPOTENCY_KEY!r}] differ"
        )
    key = in_header if in_body is None else in_body
    if not isinstance(key, str) or not 0 < len(key) <= _MAX_KEY:
        raise WireError(
            INVALID_PARAMS, f"An idempotency key must be text of 1 to {_MAX_KEY} characters"
        )
    return key


def _traceparent(request: McpRequest, meta: Mapping[str, Any]) -> str | None:
    found = meta.get("traceparent") or _header(request, b"traceparent")
    return traceparent_of(found)


def _header(request: McpRequest, name: bytes) -> str | None:
    return None if request.headers is None else header(request.headers, name)
