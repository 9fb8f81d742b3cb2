"""An issuer's keys: fetched once, again when they may have changed, never too old."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import pytest

from greenroom.edge._keys import (
    ALGORITHMS,
    FetchedKeys,
    KeysUnavailableError,
    fetch_json,
    is_safe_address,
    key_of,
)
from greenroom.testkit import ManualClock
from tests.support.tokens import TokenKey, key_server

ISSUER = "https://login.example"
KEYS = "https://login.example/keys"
OLD, NEW = TokenKey("old"), TokenKey("new")


class ScriptedFetch:
    """Answers addresses from a table; an answer that is an error is raised."""

    def __init__(self, **documents: Any) -> None:
        self.documents: dict[str, Any] = {KEYS: {"keys": [OLD.jwk]}}
        self.asked: list[str] = []
        self.gate: asyncio.Event | None = None

    async def __call__(self, url: str) -> Any:
        self.asked.append(url)
        if self.gate is not None:
            await self.gate.wait()
        found = self.documents[url]
        if isinstance(found, Exception):
            raise found
        return found


def some_keys(fetch: ScriptedFetch, clock: ManualClock, jwks: str | None = KEYS) -> FetchedKeys:
    return FetchedKeys(ISSUER, jwks, (), timedelta(hours=1), clock=clock, fetch=fetch)


async def _ids(keys: FetchedKeys, key_id: str | None = None) -> list[str | None]:
    return [key.id for key in await keys.find(key_id, "ES256")]


async def test_keys_are_fetched_once_for_many() -> None:
    """Who comes while they are being fetched waits for the same answer."""
    fetch = ScriptedFetch()
    fetch.gate = asyncio.Event()
    keys = some_keys(fetch, ManualClock())
    waiting = [asyncio.create_task(_ids(keys)) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    fetch.gate.set()

    assert await asyncio.gather(*waiting[1:]) == [["old"]] * 19
    assert await _ids(keys) == ["old"]
    assert fetch.asked == [KEYS]


async def test_an_unknown_key_id_fetches_again_but_not_for_every_made_up_one() -> None:
    fetch, clock = ScriptedFetch(), ManualClock()
    keys = some_keys(fetch, clock)
    assert await _ids(keys, "old") == ["old"]
    fetch.documents[KEYS] = {"keys": [OLD.jwk, NEW.jwk]}

    assert await _ids(keys, "new") == [], "within the pause"
    clock.advance(timedelta(seconds=10))
    assert await _ids(keys, "new") == ["new"]
    for number in range(50):
        assert await _ids(keys, f"made-up-{number}") == []
    assert len(fetch.asked) == 2


async def test_who_comes_with_a_new_key_while_it_is_being_fetched_waits_for_it() -> None:
    """Or all but one of those who are first after a rotation would be told to sign in again."""
    fetch, clock = ScriptedFetch(), ManualClock()
    keys = some_keys(fetch, clock)
    await _ids(keys)
    fetch.documents[KEYS] = {"keys": [OLD.jwk, NEW.jwk]}
    fetch.gate = asyncio.Event()
    clock.advance(timedelta(seconds=10))
    waiting = [asyncio.create_task(_ids(keys, "new")) for _ in range(5)]
    await asyncio.sleep(0)
    fetch.gate.set()

    assert await asyncio.gather(*waiting) == [["new"]] * 5
    assert len(fetch.asked) == 2


async def test_keys_that_are_half_as_old_as_they_may_be_are_renewed_beside() -> None:
    fetch, clock = ScriptedFetch(), ManualClock()
    keys = some_keys(fetch, clock)
    await _ids(keys)
    fetch.documents[KEYS] = {"keys": [NEW.jwk]}
    clock.advance(timedelta(minutes=31))

    assert await _ids(keys) == ["old"], "nobody waits for it"
    await asyncio.sleep(0)
    assert await _ids(keys) == ["new"]
    assert keys.generation == 2


async def test_keys_that_can_not_be_renewed_serve_until_they_are_too_old(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fetch, clock = ScriptedFetch(), ManualClock()
    keys = some_keys(fetch, clock)
    await _ids(keys)
    fetch.documents[KEYS] = OSError("no route")

    clock.advance(timedelta(minutes=59))
    assert await _ids(keys) == ["old"]
    clock.advance(timedelta(minutes=1))
    with pytest.raises(KeysUnavailableError):
        await _ids(keys)
    assert "no route" in caplog.text
    fetch.documents[KEYS] = {"keys": [NEW.jwk]}
    clock.advance(timedelta(seconds=10))
    assert await _ids(keys) == ["new"]


async def test_the_address_may_come_from_the_discovery_document() -> None:
    fetch = ScriptedFetch()
    about = f"{ISSUER}/.well-known/openid-configuration"
    fetch.documents[about] = {"issuer": ISSUER, "jwks_uri": KEYS}

    assert await _ids(some_keys(fetch, ManualClock(), None)) == ["old"]
    assert fetch.asked == [about, KEYS]


async def test_an_authorization_server_without_openid_is_found_too() -> None:
    fetch = ScriptedFetch()
    issuer = "https://login.example/tenant"
    about = "https://login.example/.well-known/oauth-authorization-server/tenant"
    fetch.documents[f"{issuer}/.well-known/openid-configuration"] = OSError("404")
    fetch.documents[about] = {"issuer": issuer, "jwks_uri": KEYS}
    keys = FetchedKeys(issuer, None, (), timedelta(hours=1), clock=ManualClock(), fetch=fetch)

    assert await _ids(keys) == ["old"]


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://other.example", "jwks_uri": KEYS},
        {"issuer": ISSUER, "jwks_uri": "http://login.example/keys"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER},
        [],
    ],
)
async def test_a_discovery_document_that_is_not_the_issuers_is_not_followed(document: Any) -> None:
    fetch = ScriptedFetch()
    fetch.documents[f"{ISSUER}/.well-known/openid-configuration"] = document

    with pytest.raises(KeysUnavailableError):
        await _ids(some_keys(fetch, ManualClock(), None))
    assert KEYS not in fetch.asked


async def test_one_broken_key_does_not_spoil_the_set(caplog: pytest.LogCaptureFixture) -> None:
    fetch = ScriptedFetch()
    broken = {"kty": "EC", "crv": "P-256", "x": "!", "y": "!"}
    strange = [{"kty": "oct", "k": "c2VjcmV0"}, {"kty": "EC", "crv": "P-999"}, 5, "text"]
    encrypting = {**NEW.jwk, "use": "enc"}
    fetch.documents[KEYS] = {"keys": [broken, *strange, encrypting, OLD.jwk]}

    with caplog.at_level(logging.WARNING):
        assert await _ids(some_keys(fetch, ManualClock())) == ["old"]
    assert "can't be read" in caplog.text


@pytest.mark.parametrize("kind", ["EC", "RSA", "OKP"])
def test_a_key_has_the_signatures_of_its_kind(kind: str) -> None:
    """So no token can have a public key taken for a shared secret."""
    token_key = TokenKey("k", kind)
    found = key_of(token_key.jwk)
    assert found is not None
    assert token_key.algorithm in found.algorithms
    assert found.algorithms <= set(ALGORITHMS)
    assert not any(name.startswith("HS") or name == "none" for name in found.algorithms)

    only = key_of({**token_key.jwk, "alg": token_key.algorithm})
    assert only is not None
    assert only.algorithms == {token_key.algorithm}
    assert key_of(token_key.jwk, ["ES512"]) is None


def test_which_addresses_are_believed() -> None:
    for good in (
        "https://a.example/k",
        "http://localhost/k",
        "http://127.0.0.1:8/k",
        "http://[::1]/",
    ):
        assert is_safe_address(good)
    for bad in ("http://a.example/k", "file:///k", "ftp://localhost/k", "https:///k", "k", ""):
        assert not is_safe_address(bad)


async def test_what_is_fetched_is_bounded_and_never_redirected() -> None:
    with key_server() as server:
        server.documents["/keys"] = {"keys": []}
        server.documents["/large"] = b"[" + b"1," * 600_000 + b"1]"

        assert await fetch_json(f"{server.url}/keys") == {"keys": []}
        with pytest.raises(ValueError, match="is over 1,048,576 bytes"):
            await fetch_json(f"{server.url}/large")
        with pytest.raises(OSError, match="302"):
            await fetch_json(f"{server.url}/elsewhere")
        with pytest.raises(OSError, match="404"):
            await fetch_json(f"{server.url}/nothing")
    assert server.asked == ["/keys", "/large", "/nothing"]
