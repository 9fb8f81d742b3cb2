"""What is wrong with security is told at start, all at once, with a remedy."""

import re
from datetime import timedelta
from typing import Any

import pytest

from greenroom.components import Acl, Issuer, Jwt, RateLimit, Security, define, define_endpoint
from greenroom.components import mcp_endpoint as endpoint
from greenroom.edge import endpoint_problems, security_problems, settings_problems
from greenroom.settings import Settings
from tests.support.components import Counter
from tests.support.tokens import TokenIssuer, TokenKey

KNOWN = {Counter: define(Counter)}
ISSUER = TokenIssuer()
GOOD_JWT = Jwt([Issuer(ISSUER.url, keys=[ISSUER.key.jwk])], ["aud"])
SECRET = "s" * 32


def told(security: Security, **settings: Any) -> str:
    return "\n".join(security_problems("Door", security, Settings(**settings)))


def test_what_is_right_is_not_complained_of() -> None:
    assert told(Security(Acl.allow_internet(), GOOD_JWT, RateLimit(1), lambda _: True)) == ""
    assert told(Security(Acl.allow_services("a*")), service_secret=SECRET) == ""
    own = Jwt(["https://login.example"], claims={"a": "b", "c": re.compile("d"), "e": ["f"]})
    assert told(Security(jwt=own), public_url="https://shop.example") == ""
    assert told(Security(jwt=Jwt(["http://127.0.0.1:8/x"], ["aud"]))) == ""


WRONG: list[tuple[Security, str]] = [
    (Security(acl=Acl.allow_services("billing")), "acl= lets services in, but none can prove"),
    (Security(acl=Acl(allow=[Acl.service("a b")])), "no service can have the name 'a b'"),
    (Security(acl=Acl(allow=["internet"])), "'internet' matches nobody; use Acl.INTERNET"),  # type: ignore[list-item]
    (Security(acl=Acl(deny_code=200)), "deny_code 200 is no HTTP status of an error"),
    (Security(acl="internet"), "must be an Acl"),  # type: ignore[arg-type]
    (Security(jwt="https://x"), "must be a Jwt"),  # type: ignore[arg-type]
    (Security(jwt=Jwt([], ["aud"])), "needs issuers=[...]"),
    (Security(jwt=Jwt("https://x", ["aud"])), "needs issuers=[...]"),
    (Security(jwt=Jwt([5], ["aud"])), "5 is no Issuer"),  # type: ignore[list-item]
    (Security(jwt=Jwt(["https://x"])), "needs audiences=[...], or GREENROOM_PUBLIC_URL"),
    (Security(jwt=Jwt(["https://x"], "aud")), "audiences must be a list, as ['aud']"),
    (Security(jwt=Jwt(["http://x"], ["aud"])), "keys from 'http://x' can't be believed"),
    (Security(jwt=Jwt(["${NOT_SET_A}"], ["aud"])), "variable NOT_SET_A is not set"),
    (Security(jwt=Jwt(["https://x"], ["${NOT_SET_B}"])), "variable NOT_SET_B is not set"),
    (
        Security(jwt=Jwt(["https://x"], ["aud"], claims={"a": "${NOT_SET_C}"})),
        "claims['a'] '${NOT_SET_C}': the environment variable NOT_SET_C is not set",
    ),
    (Security(jwt=Jwt(["https://x"], ["aud"], claims={"a": []})), "claims['a'] asks for nothing"),
    (Security(jwt=Jwt(["https://x"], ["aud"], claims={"a": 5})), "must be a text, several"),  # type: ignore[dict-item]
    (Security(jwt=Jwt(["https://x"], ["aud"], required="a")), "required must be a list, as ['a']"),
    (Security(jwt=Jwt(["https://x"], ["aud"], scopes={"a b"})), "'a b' can't be a scope"),
    (Security(jwt=Jwt(["https://x"], ["aud"], scopes="read")), "scopes must be a set, as {'read'}"),  # type: ignore[arg-type]
    (
        Security(jwt=Jwt(["https://x"], ["a"], leeway=timedelta(seconds=-1))),
        "leeway must be 0 s at least",
    ),
    (Security(jwt=Jwt(["https://x"], ["a"], leeway=30)), "leeway must be a timedelta, as"),  # type: ignore[arg-type]
    (Security(jwt=Jwt(["https://x"], ["a"], claims=["b"])), "claims must be a mapping, as"),  # type: ignore[arg-type]
    (Security(jwt=Jwt(["https://x"], ["a"], subject=5)), "subject must name a claim"),  # type: ignore[arg-type]
    (Security(jwt=Jwt(["https://x"], [5])), "audiences 5 is no text"),  # type: ignore[list-item]
    (Security(acl=Acl(allow=Acl.INTERNET)), "allow and deny must be lists"),  # type: ignore[arg-type]
    (Security(rate_limit=RateLimit(1, per=60)), "per= must be a timedelta, as"),  # type: ignore[arg-type]
    (Security(rate_limit=RateLimit(1.5)), "calls and burst must be whole numbers"),  # type: ignore[arg-type]
    (Security(jwt=Jwt(["https://x", "https://x"], ["aud"])), "'https://x' is named twice"),
    (Security(jwt=Jwt(["https://x", "https://y"], ["aud"])), "has several issuers"),
    (
        Security(jwt=Jwt([Issuer("https://x", algorithms=["HS256"])], ["aud"])),
        "HS256 is not taken; only RS256",
    ),
    (
        Security(jwt=Jwt([Issuer("https://x", keys=["rubbish"])], ["aud"])),
        "key 1 can't be read",
    ),
    (
        Security(jwt=Jwt([Issuer("https://x", keys=[{"kty": "oct", "k": "aa"}])], ["aud"])),
        "key 1 is not a public key",
    ),
    (
        Security(
            jwt=Jwt([Issuer("https://x", keys=[{**TokenKey("k", "RSA").jwk, "d": "aa"}])], ["aud"])
        ),
        "key 1 can't be read: ValueError: it is a private key",
    ),
    (
        Security(jwt=Jwt([Issuer("https://x", jwks="https://x/k", keys=[{}])], ["aud"])),
        "has both keys= and jwks=",
    ),
    (
        Security(jwt=Jwt([Issuer("https://x", refresh_every=timedelta(0))], ["aud"])),
        "refresh_every must be a minute at least",
    ),
    (Security(rate_limit=RateLimit(0)), "must allow one call at least"),
    (Security(rate_limit=RateLimit(1, per=timedelta(0))), "per= must be a millisecond at least"),
    (Security(rate_limit=RateLimit(1, burst=0)), "burst= must be one call at least"),
    (Security(rate_limit=5), "must be a RateLimit"),  # type: ignore[arg-type]
    (Security(authorize=lambda: True), "must be a function of one argument"),  # type: ignore[arg-type,misc]
    (Security(authorize=True), "must be a function of a ToolRequest"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("security", "said"), WRONG, ids=[said for _, said in WRONG])
def test_what_is_wrong_is_told(security: Security, said: str) -> None:
    assert said in told(security)
    assert told(security).startswith("Door: ")


def test_packages_that_are_not_installed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from greenroom.edge import _checks

    monkeypatch.setattr(_checks, "find_spec", lambda _name: None)

    assert 'pip install "greenroom[jwt]"' in told(Security(jwt=Jwt(["https://x"], ["aud"])))
    [problem] = settings_problems(Settings(service_secret=SECRET))  # type: ignore[arg-type]
    assert 'pip install "greenroom[jwt]"' in problem


def test_settings_are_checked_too() -> None:
    assert list(settings_problems(Settings())) == []
    problems = list(
        settings_problems(Settings(service_secret="short", public_url="shop.example"))  # type: ignore[arg-type]
    )
    assert "GREENROOM_SERVICE_SECRET must have at least 32 bytes" in problems[0]
    assert "GREENROOM_PUBLIC_URL must be like https://shop.example.com" in problems[1]


def test_an_endpoint_and_its_tools_are_checked_together() -> None:
    @endpoint(
        server_name="shop",
        tools=[
            Counter.tools(only={"get"}, scopes={"read"}, acl=Acl(deny_code=1)),
            Counter.tools(only={"increase"}, authorize=lambda: True),  # type: ignore[arg-type,misc]
        ],
        rate_limit=RateLimit(0),
    )
    class ShopMcp: ...

    problems = list(endpoint_problems(define_endpoint(ShopMcp, KNOWN), Settings(require_acl=True)))

    text = "\n".join(problems)
    assert len(problems) == 5
    for part in (
        "ShopMcp: has no acl=, and GREENROOM_REQUIRE_ACL asks for one",
        "ShopMcp: rate_limit= must allow one call at least",
        "ShopMcp: counter_get: acl= deny_code 1 is no HTTP status",
        "ShopMcp: counter_get: scopes= ask for tokens, but its endpoint takes none",
        "ShopMcp: counter_increase: authorize= must be a function of one argument",
    ):
        assert part.replace("ShopMcp", ShopMcp.__qualname__) in text


def test_an_endpoint_that_asks_nothing_has_no_problems_and_no_security() -> None:
    @endpoint(server_name="shop", tools=[Counter])
    class ShopMcp: ...

    definition = define_endpoint(ShopMcp, KNOWN)

    assert definition.security is None
    assert list(endpoint_problems(definition, Settings())) == []
