"""What all answers have in common: how they are written, run, and asked for in rounds."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final, TypeVar

from greenroom.components import InputNeededError, McpContext, MissingCapabilityError
from greenroom.edge import asking, report
from greenroom.errors import CommandError, ResourceNotFoundError
from greenroom.mcp._changes import Changes
from greenroom.mcp._exchange import Exchange
from greenroom.mcp._mcp_request import no_resource, tool_context
from greenroom.mcp._results import ResultWriter, dump
from greenroom.mcp._state import StateSeal, fingerprint
from greenroom.mcp._wire import (
    ASKABLE,
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    DECLINED,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    WireError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from greenroom.components import EndpointMethod
    from greenroom.edge import MethodRunner
    from greenroom.mcp._listing import Listing
    from greenroom.mcp._mcp_request import McpRequest

T = TypeVar("T")

_TTL_MS: Final = 300_000
"""How long clients may keep lists. Tools change with a deployment only; five minutes after one,
every client has seen it."""

_PUBLIC: Final = b',"ttlMs":%d,"cacheScope":"public"' % _TTL_MS
_PRIVATE: Final = b',"ttlMs":%d,"cacheScope":"private"' % _TTL_MS
"""What depends on who asks must not be kept for others."""
NO_CACHING: Final = b',"ttlMs":0,"cacheScope":"private"'
"""For what may be different in a moment, or for somebody else."""


class Answering:
    """Runs methods, lets them ask the client, and writes what comes of it.

    Args:
        path: Of the endpoint.
        info: How the server names itself.
        runner: Runs the endpoint's own methods; may be left out where it has none.
        seal: Keeps what clients carry between two rounds of one call.
        private: Whether what is listed depends on who asks.
    """

    def __init__(
        self,
        path: str,
        info: dict[str, Any],
        runner: MethodRunner | None,
        seal: StateSeal | None,
        *,
        private: bool,
    ) -> None:
        self._path = path
        self.changes = Changes()
        self.modern = ResultWriter(info)
        self.caching = _PRIVATE if private else _PUBLIC
        self._legacy = ResultWriter(None)
        self._runner = runner
        self.seal = seal or _only_here()

    def writer(self, request: McpRequest) -> ResultWriter:
        """What writes results in the era of the request."""
        return self.modern if request.revision.modern else self._legacy

    def listed(self, request: McpRequest, listing: Listing, caching: bytes | None = None) -> bytes:
        """One page of a list."""
        page = listing.page(request.params.get("cursor"))
        if request.revision.modern:
            page += caching or self.caching
        return self.writer(request).result(page)

    async def run(
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
                raise no_resource(request, request.params["uri"], view.text) from error
            code = DECLINED if isinstance(error, CommandError) else INTERNAL_ERROR
            data = {"code": view.code, "correlationId": view.correlation_id}
            raise WireError(code, view.text, data) from error

    async def asking(
        self, request: McpRequest, work: Callable[[McpContext], Awaitable[bytes]]
    ) -> bytes:
        """The result of a method that may end with questions to the client."""
        bound = fingerprint(self._path, request.method, request.params, asking().subject)
        answers = self._answers(request, bound) if request.revision.modern else {}
        try:
            return await work(self.context(request, answers))
        except InputNeededError as needed:
            asked = {key: one.as_request() for key, one in needed.requests.items()}
            state = self.seal.seal({"asked": list(asked), "answers": answers}, bound)
            return self.modern.special(
                "input_required",
                b'"inputRequests":%b,"requestState":%b' % (dump(asked), dump(state)),
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
        sealed = self.seal.open(state, bound)
        # Answers to questions that were never asked count for nothing: approval is one.
        news = {key: given[key] for key in sealed["asked"] if type(given.get(key)) is dict}
        answers: dict[str, Any] = sealed["answers"]
        return answers | news

    def context(self, request: McpRequest, answers: Mapping[str, Any]) -> McpContext:
        """What an endpoint's method is told of the request."""
        meta = request.meta
        plain = tool_context(request)
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


def _only_here() -> StateSeal:
    secret = secrets.token_hex(32)
    return StateSeal(lambda: secret)
