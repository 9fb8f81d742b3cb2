"""`greenroom call`: a command to a running service, over its MCP endpoint.

The command goes through the same door as everybody's, so it can do what the service exposes as
tools and nothing else; there is no second, unguarded way in.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from greenroom.cli._failure import CommandFailed
from greenroom.cli._http import local_url, post, with_path
from greenroom.cli._load import parse_ref
from greenroom.mcp import HANDLER_KEY, ID_PARAMETER_KEY, IDEMPOTENCY_KEY, request_of
from greenroom.settings import load_settings

_SCALARS_IN_TEXT: Final = {"integer", "number", "boolean", "object", "array", "null"}


def add_call(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "call",
        help="call a tool of a running service",
        description="Calls a command of an instance through the service's MCP endpoint.",
    )
    parser.add_argument("instance", metavar="COMPONENT/INSTANCE")
    parser.add_argument("handler", metavar="HANDLER", help="the command, or the tool's name")
    parser.add_argument(
        "arguments", metavar="NAME=VALUE", nargs="*", help="text, or JSON where no text is expected"
    )
    parser.add_argument(
        "--url",
        help="the service, or its MCP endpoint (default: http://GREENROOM_HOST:GREENROOM_PORT/mcp)",
    )
    parser.add_argument("--idempotency-key", help="the same key again does nothing again")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help="a bearer token, where the endpoint asks for one (or the variable GREENROOM_TOKEN)",
    )
    parser.add_argument("--timeout", type=float, default=30.0, help="seconds to wait (default: 30)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Find the tool, call it, print what it answered."""
    ref = parse_ref(chosen.instance)
    url = local_url(load_settings()) if chosen.url is None else chosen.url
    server = _Server(url, chosen.timeout, _token(chosen.token_file))
    tool = _find(server, ref.component, chosen.handler)
    schema = tool["inputSchema"].get("properties", {})
    arguments = dict(_parse(one, schema) for one in chosen.arguments)
    arguments[tool["_meta"][ID_PARAMETER_KEY]] = ref.instance
    params: dict[str, Any] = {"name": tool["name"], "arguments": arguments}
    if chosen.idempotency_key is not None:
        params["_meta"] = {IDEMPOTENCY_KEY: chosen.idempotency_key}
    result = server.ask("tools/call", params)
    text = "\n".join(part.get("text", "") for part in result["content"])
    if result.get("isError"):
        print(text, file=sys.stderr)
        return 1
    structured = result.get("structuredContent")
    print(text if structured is None else json.dumps(structured, indent=2, ensure_ascii=False))
    return 0


def _find(server: _Server, component: str, handler: str) -> dict[str, Any]:
    tools = list(server.tools())
    own = [tool for tool in tools if _handler_of(tool).startswith(f"{component}.")]
    for tool in own:
        if handler in (tool["name"], _handler_of(tool).partition(".")[2]):
            if ID_PARAMETER_KEY not in tool["_meta"]:
                raise CommandFailed(
                    f"The service decides by itself which instance {tool['name']} is for, so it "
                    "can't be called for one from here."
                )
            return tool
    if not own:
        components = sorted({_handler_of(tool).partition(".")[0] for tool in tools} - {""})
        raise CommandFailed(
            f"The service exposes no tool of a component {component!r}; it exposes: "
            f"{', '.join(components) or 'none'}."
        )
    known = ", ".join(sorted(_handler_of(tool).partition(".")[2] for tool in own))
    raise CommandFailed(f"{component!r} has no tool {handler!r}; it has: {known}.")


def _handler_of(tool: dict[str, Any]) -> str:
    return str(tool.get("_meta", {}).get(HANDLER_KEY, ""))


def _parse(text: str, schema: dict[str, Any]) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise CommandFailed(f"{text!r} is not an argument: write NAME=VALUE.", usage=True)
    kinds = schema.get(name, {}).get("type", "string")
    if _SCALARS_IN_TEXT.isdisjoint([kinds] if isinstance(kinds, str) else kinds):
        return name, value
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        # The service says better than this command what is wrong with the value.
        return name, value


def _token(file: Path | None) -> str | None:
    """Not an argument of its own: whoever lists the processes of the machine would read it."""
    if file is None:
        return os.environ.get("GREENROOM_TOKEN")
    try:
        return file.read_text().strip()
    except (OSError, ValueError) as error:
        raise CommandFailed(f"The token in {file} can't be read: {error}.", usage=True) from None


class _Server:
    """A running service's MCP endpoint."""

    def __init__(self, url: str, timeout: float, token: str | None) -> None:
        self._url = with_path(url, "/mcp")
        self._timeout = timeout
        self._token = token

    def tools(self) -> Iterator[dict[str, Any]]:
        """Every tool, page after page."""
        cursor: dict[str, Any] = {}
        while True:
            page = self.ask("tools/list", cursor)
            yield from page["tools"]
            if "nextCursor" not in page:
                return
            cursor = {"cursor": page["nextCursor"]}

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of one request."""
        headers, body = request_of(method, params, client="greenroom call")
        answer = self._post(body, headers)
        if "error" in answer:
            raise CommandFailed(f"The service refused: {answer['error']['message']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _post(self, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        if self._token is not None:
            headers = {**headers, "Authorization": f"Bearer {self._token}"}
        late = "Look at the state, or call again with the same --idempotency-key."
        status, text = post(self._url, body, headers, timeout=self._timeout, late=late)
        if status >= HTTPStatus.BAD_REQUEST and not text.startswith(b"{"):
            raise CommandFailed(
                f"There is no MCP endpoint at {self._url} (HTTP {status}). Give its URL with --url."
            )
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise CommandFailed(
                f"The service refused (HTTP {status}): {_said(text)} Give a token that it "
                "takes with --token-file, or in GREENROOM_TOKEN."
            )
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not answer.keys() & {"result", "error"}:
            raise CommandFailed(f"What answers at {self._url} is not an MCP endpoint.")
        return answer


def _said(text: bytes) -> str:
    """What an answer says of its error."""
    answer = json.loads(text)
    error = answer.get("error")
    found = error.get("message") if isinstance(error, dict) else answer.get("detail")
    return str(found or "no reason given.")
