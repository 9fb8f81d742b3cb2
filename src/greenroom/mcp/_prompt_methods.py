"""`prompts/*` and `completion/complete`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from greenroom.mcp._content import content_block
from greenroom.mcp._mcp_request import McpRequest
from greenroom.mcp._results import dump

if TYPE_CHECKING:
    from greenroom.components import McpContext, PromptDefinition
    from greenroom.mcp._answering import Answering
    from greenroom.mcp._offers import Completions, Prompts

MAX_COMPLETIONS: Final = 100
"""The protocol's limit."""


class PromptMethods:
    """Gives out the prompts of an endpoint, and completes their arguments and those of templates."""

    def __init__(self, prompts: Prompts, completions: Completions, answering: Answering) -> None:
        self._prompts = prompts
        self._completions = completions
        self._answering = answering

    async def list(self, request: McpRequest) -> bytes:
        """One page of the prompts."""
        return self._answering.listed(request, self._prompts.listing)

    async def get(self, request: McpRequest) -> bytes:
        """The messages of a prompt."""
        prompt, values = self._prompts.find(request.params)
        return await self._answering.asking(request, partial(self._prompt, request, prompt, values))

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

        shown = await self._answering.run(request, prompt.method, values, context, show)
        members = b'"messages":' + shown
        if prompt.description:
            members += b',"description":' + dump(prompt.description)
        return self._answering.writer(request).result(members)

    async def complete(self, request: McpRequest) -> bytes:
        """Values for an argument that somebody is typing."""
        completion, typed, others = self._completions.find(request.params)
        found: list[str] = []
        if completion is not None and completion.method is None:
            found = [one for one in completion.choices if one.lower().startswith(typed.lower())]
        elif completion is not None and completion.method is not None:
            values = (typed, others) if completion.takes_others else (typed,)
            context = self._answering.context(request, {})
            texts = completion.method.handler.reply_adapter.validate_python
            found = list(
                await self._answering.run(request, completion.method, values, context, texts)
            )
        shown = {"values": found[:MAX_COMPLETIONS], "total": len(found)}
        shown["hasMore"] = len(found) > MAX_COMPLETIONS
        return self._answering.writer(request).result(b'"completion":' + dump(shown))
