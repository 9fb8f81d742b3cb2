"""Runs a method of an MCP endpoint: an object for each request, a thread for each `def`."""

from __future__ import annotations

import asyncio
import inspect
from contextvars import copy_context
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from greenroom.components import McpContext, ToolContext
from greenroom.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from concurrent.futures import Executor

    from greenroom.components import EndpointMethod

CONTEXTS: tuple[type[Any], ...] = (McpContext, ToolContext)
"""What a constructor may ask for that differs from request to request."""


class MethodRunner:
    """Makes objects of one endpoint class and runs their methods.

    Args:
        constructor: What `__init__` asks for: parameter name and type.
        dependencies: What it is given, by parameter name, without the context.
        threads: Where methods that may block are run.
        timeout: How long a method may take, in seconds.
    """

    def __init__(
        self,
        constructor: Mapping[str, Any],
        dependencies: Mapping[str, Any],
        threads: Executor,
        timeout: float,
    ) -> None:
        self._contexts = tuple(name for name, kind in constructor.items() if kind in CONTEXTS)
        self._dependencies = dict(dependencies)
        self._threads = threads
        self._timeout = timeout

    async def run(
        self,
        method: EndpointMethod,
        values: tuple[Any, ...],
        context: ToolContext,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - told in other words than TimeoutError
    ) -> Any:
        """What the method answers; raises whatever it raises.

        When the caller is cancelled, a coroutine is too; a thread goes on unheard.

        Raises:
            ToolError: It took longer than it may.
            RuntimeError: It raised what would end a task, or the process.
        """
        seconds = timeout or self._timeout
        if context.deadline is None:
            context.deadline = monotonic() + seconds
        try:
            async with asyncio.timeout(context.deadline - monotonic()) as limit:
                return await self._run(method, values, context)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise contained(method.target, error) from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolError(
                f"{method.handler.name} did not answer within {seconds:g} s; what it began may "
                "still be done."
            ) from error

    async def _run(
        self, method: EndpointMethod, values: tuple[Any, ...], context: ToolContext
    ) -> Any:
        try:
            if method.is_async:
                return await self._start(method, values, context)
            loop = asyncio.get_running_loop()
            work = partial(copy_context().run, self._start_on_thread, method, values, context)
            answer = await loop.run_in_executor(self._threads, work)
            return await answer if inspect.isawaitable(answer) else answer
        except (Exception, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            raise contained(method.target, error) from error

    def _start_on_thread(
        self, method: EndpointMethod, values: tuple[Any, ...], context: ToolContext
    ) -> Any:
        try:
            return self._start(method, values, context)
        except StopIteration as error:
            raise contained(method.target, error) from error  # no future takes it
        except (Exception, asyncio.CancelledError):
            raise
        except BaseException as error:
            raise contained(method.target, error) from error

    def _start(self, method: EndpointMethod, values: tuple[Any, ...], context: ToolContext) -> Any:
        given = self._dependencies
        if self._contexts:
            given = {**given, **dict.fromkeys(self._contexts, context)}
        endpoint = method.cls(**given)
        return method.handler.function(endpoint, *method.arguments(values, context))


def contained(target: str, error: BaseException) -> RuntimeError:
    """In place of what would end the task, the event loop or the process: a failure like others."""
    return RuntimeError(f"{target} raised {type(error).__name__}")
