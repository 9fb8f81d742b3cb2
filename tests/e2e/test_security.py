"""A real server, a real issuer of tokens, real clients: who gets in, and what gets out."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client

from greenroom import Service, Settings
from tests.support.server import ServerProcess
from tests.support.tokens import KeyServer, TokenIssuer, TokenKey, key_server

TARGET = "tests.support.secured_service:service"
SECRET = "a secret of this test, long enough"
MODES = ["legacy", "2026-07-28"]
LEAKS = re.compile(r"Traceback|\.py\b|SELECT|sqlite|/etc/|LookupError", re.IGNORECASE)


class Running:
    """A server with its issuer of tokens."""

    def __init__(self, server: ServerProcess, keys: KeyServer, issuer: TokenIssuer) -> None:
        self.server = server
        self.keys = keys
        self.issuer = issuer
        self.url = f"{server.url}/mcp"

    def token(self, *scopes: str, **claims: Any) -> str:
        """A token for this server."""
        return self.issuer.token(aud=self.url, scope=" ".join(scopes), **claims)

    def post(self, token: str | None, *, path: str = "/mcp", **changes: Any) -> httpx.Response:
        """One call of a tool, as bare HTTP."""
        params = {"name": "diary_read", "arguments": {}, **changes}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.post(self.server.url + path, json=body, headers=headers)

    @asynccontextmanager
    async def client(self, token: str, mode: Any = "auto") -> AsyncIterator[Client]:
        """The official client with a token."""
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            async with Client(streamable_http_client(self.url, http_client=http), mode=mode) as one:
                yield one


@pytest.fixture(scope="module", params=["EC", "RSA"])
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("diaries")
    with key_server() as keys:
        issuer = TokenIssuer(keys.url, kind=request.param)
        keys.documents |= {
            "/keys": issuer.key_set(),
            "/.well-known/oauth-authorization-server": {
                "issuer": keys.url,
                "jwks_uri": f"{keys.url}/keys",
                "authorization_endpoint": f"{keys.url}/authorize",
                "token_endpoint": f"{keys.url}/token",
                "response_types_supported": ["code"],
            },
        }
        server = ServerProcess(
            TARGET,
            f"sqlite:///{folder}/test.db",
            service_secret=SECRET,
            log_format="json",
            log_level="INFO",
        )
        server._environment |= {"TEST_ISSUER": keys.url, "TEST_AUDIENCE": f"{server.url}/mcp"}
        with server:
            yield Running(server, keys, issuer)


@pytest.mark.parametrize("mode", MODES)
async def test_everybody_has_a_diary_of_their_own(running: Running, mode: Any) -> None:
    """The caller can't even name another one."""
    scopes = ("diary:read", "diary:write")
    async with running.client(running.token(*scopes, sub=f"ada-{mode}"), mode) as ada:
        tools = {tool.name: tool for tool in (await ada.list_tools()).tools}
        assert tools["diary_write"].input_schema["properties"].keys() == {"text"}
        await ada.call_tool("diary_write", {"text": "Dear diary"})
        assert _text(await ada.call_tool("diary_read", {})) == f"ada-{mode}: Dear diary"
        naming = await ada.call_tool("diary_read", {"diary_id": "bob"})
        assert naming.is_error
    async with running.client(running.token(*scopes, sub=f"bob-{mode}"), mode) as bob:
        assert _text(await bob.call_tool("diary_read", {})) == ""


def test_without_a_good_token_nobody_gets_in(running: Running) -> None:
    forged = TokenKey(running.issuer.key.id, "EC").sign(
        running.issuer.claims(aud=running.url, scope="diary:read")
    )
    for token in (
        None,
        "rubbish",
        forged,
        running.token("diary:read", exp=1),
        running.issuer.token(scope="diary:read"),
    ):
        answer = running.post(token)
        assert answer.status_code == 401
        assert "resource_metadata=" in answer.headers["www-authenticate"]
        assert answer.headers["x-correlation-id"]
    assert running.post(running.token("diary:read")).status_code == 200


def test_a_scope_that_lacks_is_named(running: Running) -> None:
    assert running.post(running.token()).status_code == 403

    writing = {"name": "diary_write", "arguments": {"text": "x"}}
    refused = running.post(running.token("diary:read"), **writing)

    assert refused.status_code == 403
    challenge = refused.headers["www-authenticate"]
    assert 'error="insufficient_scope", scope="diary:read diary:write"' in challenge
    assert running.post(running.token("diary:read", "diary:write"), **writing).status_code == 200


class Tokens:
    """Where the official client keeps what it was given."""

    def __init__(self) -> None:
        self.kept: Any = None

    async def get_tokens(self) -> Any:
        return self.kept

    async def set_tokens(self, tokens: Any) -> None:
        self.kept = tokens

    async def get_client_info(self) -> None:
        """None is kept."""

    async def set_client_info(self, client_info: Any) -> None:
        """Is not asked for again."""


async def test_the_official_client_finds_its_own_way_to_a_token(running: Running) -> None:
    """From the 401 to the metadata, to the issuer, to a token for this resource."""
    asked: list[dict[str, list[str]]] = []

    def give(fields: dict[str, list[str]]) -> str:
        asked.append(fields)
        return running.issuer.token(
            aud=fields["resource"][0], scope=fields["scope"][0], sub="robot"
        )

    running.keys.give_token = give
    storage: Any = Tokens()
    provider = ClientCredentialsOAuthProvider(
        running.url, storage, "robot", "secret", issuer=running.keys.url
    )

    async with httpx2.AsyncClient(auth=provider) as http:
        async with Client(streamable_http_client(running.url, http_client=http)) as client:
            assert not (await client.call_tool("diary_read", {})).is_error

    assert [fields["resource"] for fields in asked] == [[running.url]]
    assert asked[0]["scope"] == ["diary:read"]


def test_the_resource_is_described_with_and_without_its_path(running: Running) -> None:
    for path in (
        "/.well-known/oauth-protected-resource/mcp",
        "/.well-known/oauth-protected-resource",
    ):
        document = httpx.get(running.server.url + path).json()
        assert document["resource"] == running.url
        assert document["authorization_servers"] == [running.keys.url]
        assert document["scopes_supported"] == ["diary:read", "diary:write"]
    # The endpoint that takes no tokens has none.
    missing = httpx.get(f"{running.server.url}/.well-known/oauth-protected-resource/inside")
    assert missing.status_code == 404


def test_another_service_proves_its_name_and_keeps_to_its_rate(running: Running) -> None:
    def from_service(name: str) -> list[int]:
        settings = Settings(service_secret=SECRET, database_url="sqlite:///unused.db")  # type: ignore[arg-type]
        token = Service(name, settings=settings).service_token("diaries")
        params = {"name": "diary_read", "arguments": {"diary_id": "any"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Greenroom-Service-Token": token}
        return [
            httpx.post(f"{running.server.url}/inside", json=body, headers=headers).status_code
            for _ in range(4)
        ]

    assert from_service("library") == [200, 200, 200, 429]
    assert from_service("stranger") == [403] * 4
    assert running.post(None, path="/inside").status_code == 403


def test_instances_are_authorized_one_by_one_and_approval_is_never_lifted(running: Running) -> None:
    token = running.token("diary:read", groups=["family"])

    def call(tool: str, diary: str) -> dict[str, Any]:
        answer = running.post(token, name=tool, arguments={"diary_id": diary})
        result: dict[str, Any] = answer.json()["result"]
        assert result["isError"]
        return result

    assert _said(call("diary_crash", "family")).startswith("Failed unexpectedly. Reference: ")
    assert "may not use" in _said(call("diary_crash", "work"))
    assert _said(call("diary_crash", "forbidden-1")) == "This diary is sealed."
    assert "needs the approval of a person" in _said(call("diary_burn", "family"))


@pytest.mark.parametrize(
    "answer",
    [
        lambda on: on.post(None),
        lambda on: on.post("rubbish"),
        lambda on: on.post(on.token("diary:read", groups=["crash"]), name="diary_crash", arguments={"diary_id": "crash"}),
        lambda on: on.post(on.token("diary:read"), arguments={"diary_id": {"a": 1}}),
        lambda on: on.post(on.token("diary:read"), name={"a": 1}),
        lambda on: httpx.post(on.url, content=b"\xff" * 100, headers=_bearing(on)),
        lambda on: httpx.post(on.url, content=b"[" * 100_000, headers=_bearing(on)),
        lambda on: httpx.post(on.url, content=b"x" * 5_000_000, headers=_bearing(on)),
        lambda on: httpx.post(on.url, json={}, headers={**_bearing(on), "Host": "evil.example"}),
        lambda on: httpx.get(f"{on.server.url}/nothing-here"),
        lambda on: httpx.get(f"{on.server.url}/.well-known/oauth-protected-resource/%00"),
    ],
)  # fmt: skip
def test_nothing_of_the_inside_gets_out(running: Running, answer: Any) -> None:
    got: httpx.Response = answer(running)

    assert got.status_code != 500
    assert not LEAKS.search(got.text + str(got.headers)), got.text
    assert got.headers["x-correlation-id"]


def _bearing(running: Running) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {running.token('diary:read')}",
        "Content-Type": "application/json",
    }


def _said(result: dict[str, Any]) -> str:
    text: str = result["content"][0]["text"]
    return text


def _text(result: Any) -> str:
    return str(result.content[0].text)


def test_every_call_left_a_record(tmp_path: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """One line of JSON each, with who, what and what came of it, and none of the words."""
    with key_server() as keys:
        issuer = TokenIssuer(keys.url)
        keys.documents |= {
            "/keys": issuer.key_set(),
            "/.well-known/openid-configuration": {
                "issuer": keys.url,
                "jwks_uri": f"{keys.url}/keys",
            },
        }
        server = ServerProcess(
            TARGET,
            f"sqlite:///{tmp_path}/test.db",
            service_secret=SECRET,
            log_format="json",
            log_level="INFO",
        )
        server._environment |= {"TEST_ISSUER": keys.url, "TEST_AUDIENCE": f"{server.url}/mcp"}
        with server:
            on = Running(server, keys, issuer)
            words = "the words of a diary"
            writing = {"name": "diary_write", "arguments": {"text": words}}
            both = on.token("diary:read", "diary:write")
            meta = {"_meta": {"greenroom/idempotencyKey": "k-1"}}
            assert on.post(both, **writing, **meta).status_code == 200
            assert on.post(on.token("diary:read"), **writing).status_code == 403
            assert server.terminate() == 0
    log = capfd.readouterr().err
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    records = [line for line in lines if line["logger"] == "greenroom.audit"]

    assert [(one["audit"]["outcome"], one["audit"]["code"]) for one in records] == [
        ("done", None),
        ("denied", "insufficient-scope"),
    ]
    first = records[0]
    assert first["correlation_id"]
    assert first["audit"]["principal"] == "ada"
    assert first["audit"]["instance"] == "ada"
    assert first["audit"]["tool"] == "diary_write"
    assert first["audit"]["arguments"] == {"text": f"text({len(words)})"}
    assert first["audit"]["idempotency_key"] == "k-1"
    assert words not in log
    assert both not in log
