"""Answers as bytes. A reply's JSON is put into place as it is, not decoded and encoded again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from greenroom.mcp._content import content_block
from greenroom.mcp._wire import SERVER_INFO_KEY, WireError

if TYPE_CHECKING:
    from greenroom.edge import ToolOutcome


def dump(value: Any) -> bytes:
    """A value as JSON."""
    return orjson.dumps(value)


def response(id_: bytes, result: bytes) -> bytes:
    """A JSON-RPC response with a result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (id_, result)


def notification(method: str, params: dict[str, Any]) -> bytes:
    """A JSON-RPC notification."""
    return dump({"jsonrpc": "2.0", "method": method, "params": params})


def failure(id_: bytes, error: WireError) -> bytes:
    """A JSON-RPC response with an error; the id is `null` where it could not be read."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (id_, dump(body))


class ResultWriter:
    """Writes the results of one era: what comes before and after the content is fixed."""

    def __init__(self, server_info: dict[str, Any] | None) -> None:
        # The legacy era has no result types, and says who the server is in `initialize` only.
        self._head = b"{" if server_info is None else b'{"resultType":"complete",'
        self._meta = {} if server_info is None else {SERVER_INFO_KEY: server_info}
        tail = b"" if server_info is None else b',"_meta":' + dump(self._meta)
        self._tail = tail + b"}"
        self._done = b',"isError":false' + self._tail

    def result(self, members: bytes, meta: dict[str, Any] | None = None) -> bytes:
        """A result of already encoded members, `"a":1,"b":2`."""
        if meta is None:
            return self._head + members + self._tail
        comma = b"," if members else b""
        return self._head + members + comma + b'"_meta":' + dump({**self._meta, **meta}) + b"}"

    def tool_result(self, outcome: ToolOutcome) -> bytes:
        """The result of `tools/call`: text, and beside it structured content if there is some."""
        if outcome.contents:
            blocks = dump([content_block(one) for one in outcome.contents])
            return b'%b"content":%b%b' % (self._head, blocks, self._done)
        text = orjson.dumps(outcome.text)
        if not outcome.is_error and outcome.meta is None:
            if outcome.structured is None:
                return b'%b"content":[{"type":"text","text":%b}]%b' % (self._head, text, self._done)
            return b'%b"content":[{"type":"text","text":%b}],"structuredContent":%b%b' % (
                self._head,
                text,
                outcome.structured,
                self._done,
            )
        return self._uncommon(outcome, text)

    def special(self, result_type: str, members: bytes) -> bytes:
        """A result of another type than what was asked for: questions to the client, a task."""
        return b'{"resultType":"%b",%b%b' % (result_type.encode(), members, self._tail)

    def _uncommon(self, outcome: ToolOutcome, text: bytes) -> bytes:
        members = b'"content":[{"type":"text","text":%b}]' % text
        if outcome.structured is not None:
            members += b',"structuredContent":' + outcome.structured
        members += b',"isError":true' if outcome.is_error else b',"isError":false'
        meta = {**self._meta, **(outcome.meta or {})}
        return self._head + members + b',"_meta":' + dump(meta) + b"}"
