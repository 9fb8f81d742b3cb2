"""From a bearer token to a principal, one row per way to be wrong."""

import asyncio
import re
from datetime import timedelta
from typing import Any

import jwt as pyjwt
import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from greenroom.components import Issuer, Jwt, Principal
from greenroom.edge import RefusedError
from greenroom.edge._jwt import TokenVerifier
from greenroom.testkit import ManualClock
from tests.support.tokens import AUDIENCE, TokenIssuer, TokenKey

CLOCK = ManualClock()
ADA_ISSUER = TokenIssuer(clock=CLOCK)
RSA_ISSUER = TokenIssuer(clock=CLOCK, kind="RSA")
NOW = CLOCK.now_ms() // 1000


def a_verifier(
    issuer: TokenIssuer = ADA_ISSUER, clock: ManualClock = CLOCK, **asked: Any
) -> TokenVerifier:
    declared = Jwt([Issuer(issuer.url, keys=[issuer.key.jwk])], [AUDIENCE], **asked)
    return TokenVerifier(declared, declared.audiences, clock=clock)


async def refused(verifier: TokenVerifier, token: str) -> Any:
    with pytest.raises(RefusedError) as caught:
        await verifier.verify(token)
    return caught.value.refusal


@pytest.mark.parametrize("kind", ["EC", "RSA", "OKP"])
async def test_a_good_token_names_its_principal(kind: str) -> None:
    issuer = TokenIssuer(clock=CLOCK, kind=kind)

    principal = await a_verifier(issuer).verify(issuer.token(scope="read write", scp=["admin"]))

    assert principal.subject == "ada"
    assert principal.service is None
    assert principal.scopes == {"read", "write", "admin"}
    assert principal.claims is not None
    assert principal.claims.issuer == issuer.url
    assert principal.claims.audiences == (AUDIENCE,)


CHANGES: list[tuple[dict[str, Any], str]] = [
    ({"iss": "https://evil.example"}, "issuer"),
    ({"iss": None}, "issuer"),
    ({"iss": ["https://login.example"]}, "issuer"),
    ({"iss": "https://login.example/"}, "issuer"),
    ({"aud": "https://other.example/mcp"}, "somebody else"),
    ({"aud": None}, "somebody else"),
    ({"aud": [AUDIENCE + "/"]}, "somebody else"),
    ({"exp": None}, "never expires"),
    ({"exp": NOW - 30}, "expired"),
    ({"exp": True}, "not a time"),
    ({"exp": float("inf")}, "not a time"),
    ({"exp": 10**30}, "out of range"),
    ({"nbf": NOW + 31}, "not valid yet"),
    ({"iat": NOW + 31}, "not valid yet"),
    ({"sub": None}, "names nobody"),
    ({"sub": ""}, "names nobody"),
    ({"sub": "x" * 256}, "names nobody"),
    ({"sub": "a\nb"}, "names nobody"),
    ({"sub": 17}, "names nobody"),
    ({"sub": "service:billing"}, "names nobody"),
]


def _signed(**changes: Any) -> str:
    # PyJWT itself refuses to write some of these; the key does not mind.
    import json

    claims = ADA_ISSUER.claims(**changes)
    payload = json.dumps(claims).encode()
    header = {"kid": "k-1", "alg": "ES256"}
    return pyjwt.api_jws.PyJWS().encode(payload, ADA_ISSUER.key.private, "ES256", header)


@pytest.mark.parametrize(("changes", "said"), CHANGES)
async def test_a_token_that_says_something_wrong_is_not_believed(
    changes: dict[str, Any], said: str
) -> None:
    refusal = await refused(a_verifier(), _signed(**changes))

    assert (refusal.status, refusal.code) == (401, "invalid-token")
    assert said in refusal.text
    assert refusal.challenge["error"] == "invalid_token"


@pytest.mark.parametrize("changes", [{"exp": NOW - 29}, {"nbf": NOW + 30}, {"iat": NOW + 30}])
async def test_clocks_may_be_a_little_apart(changes: dict[str, Any]) -> None:
    assert (await a_verifier().verify(_signed(**changes))).subject == "ada"


def _with_header(**header: Any) -> str:
    return ADA_ISSUER.key.sign(ADA_ISSUER.claims(), **header)


def _public_key_as_secret() -> str:
    """The oldest trick: the RSA key, which everybody has, as the secret of an HMAC."""
    from base64 import urlsafe_b64encode as encode
    from hashlib import sha256
    from hmac import new

    pem = RSA_ISSUER.key.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    head, body, _ = RSA_ISSUER.token().split(".")
    head = encode(b'{"alg":"HS256","typ":"JWT","kid":"k-1"}').decode().rstrip("=")
    signature = encode(new(pem, f"{head}.{body}".encode(), sha256).digest()).decode().rstrip("=")
    return f"{head}.{body}.{signature}"


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        "...",
        "é.é.é",
        "bnVsbA.bnVsbA.bnVsbA",
        "WzFd.WzFd.WzFd",
        ADA_ISSUER.token()[:-10],
        ADA_ISSUER.token() + ".x",
        ADA_ISSUER.token().rpartition(".")[0] + ".",
        "x" * 20_000,
        pyjwt.encode(ADA_ISSUER.claims(), None, "none"),
        TokenKey("k-1").sign(ADA_ISSUER.claims()),
        TokenKey("k-1", "RSA").sign(ADA_ISSUER.claims()),
        _with_header(kid="unknown"),
        _with_header(crit=["exp"]),
        _with_header(jwk=TokenKey("k-1").jwk, kid="other"),
    ],
)
async def test_what_nobody_trusted_has_signed_is_not_believed(token: str) -> None:
    assert (await refused(a_verifier(), token)).status == 401


async def test_a_public_key_is_no_secret() -> None:
    assert (await a_verifier(RSA_ISSUER).verify(RSA_ISSUER.token())).subject == "ada"
    assert (await refused(a_verifier(RSA_ISSUER), _public_key_as_secret())).status == 401


async def test_a_token_without_a_key_id_may_be_of_any_key() -> None:
    assert (await a_verifier().verify(_with_header(kid=None))).subject == "ada"


async def test_json_that_never_ends_is_refused() -> None:
    from base64 import urlsafe_b64encode

    deep = urlsafe_b64encode(b"[" * 5_000).decode().rstrip("=")

    assert (await refused(a_verifier(), f"{deep}.{deep}.x")).status == 401


async def test_a_token_that_was_good_is_not_good_for_ever() -> None:
    """It is remembered, but its end is looked at each time."""
    clock = ManualClock()
    issuer = TokenIssuer(clock=clock)
    verifier = a_verifier(issuer, clock)
    token = issuer.token()
    first = await verifier.verify(token)
    assert await verifier.verify(token) is first
    clock.advance(timedelta(seconds=329))
    assert await verifier.verify(token) is first
    clock.advance(timedelta(seconds=1))

    assert "expired" in (await refused(verifier, token)).text


async def test_a_key_that_is_withdrawn_takes_its_tokens_with_it() -> None:
    clock = ManualClock()
    issuer = TokenIssuer(clock=clock)
    served = [issuer.key.jwk]

    async def fetch(_url: str) -> Any:
        return {"keys": list(served)}

    declared = Jwt([Issuer(issuer.url, jwks="https://login.example/keys")], [AUDIENCE])
    verifier = TokenVerifier(declared, [AUDIENCE], clock=clock, fetch=fetch)
    token = issuer.token(exp=NOW + 100_000)
    assert (await verifier.verify(token)).subject == "ada"

    served[:] = [TokenKey("k-2").jwk]
    clock.advance(timedelta(hours=1))

    assert (await refused(verifier, token)).code == "invalid-token"


async def test_without_keys_nothing_is_believed_and_nothing_is_blamed_on_the_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fetch(_url: str) -> Any:
        raise OSError("10.0.0.7 refused")

    declared = Jwt(["https://login.example"], [AUDIENCE])
    verifier = TokenVerifier(declared, [AUDIENCE], clock=CLOCK, fetch=fetch)

    refusal = await refused(verifier, ADA_ISSUER.token())

    assert (refusal.status, refusal.code) == (503, "keys-unavailable")
    assert dict(refusal.headers) == {b"retry-after": b"10"}
    assert "10.0.0.7" not in refusal.text
    assert "10.0.0.7" in caplog.text


CLAIMS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"tenant": "acme"}, {"tenant": "acme"}, True),
    ({"tenant": "acme"}, {"tenant": "other"}, False),
    ({"tenant": "acme"}, {}, False),
    ({"roles": "admin"}, {"roles": ["user", "admin"]}, True),
    ({"roles": ["user", "admin"]}, {"roles": ["admin", "user", "x"]}, True),
    ({"roles": ["user", "admin"]}, {"roles": ["admin"]}, False),
    ({"level": "3"}, {"level": 3}, True),
    ({"verified": "true"}, {"verified": True}, True),
    ({"mail": re.compile(r".+@acme\.example")}, {"mail": "ada@acme.example"}, True),
    ({"mail": re.compile(r".+@acme\.example")}, {"mail": "ada@acme.example.evil"}, False),
    ({"mail": re.compile(r"a.*")}, {"mail": ["b", "ab"]}, True),
    ({"tenant": "acme"}, {"tenant": {"name": "acme"}}, False),
    ({"tenant": "${TEST_TENANT}"}, {"tenant": "acme"}, True),
]


@pytest.mark.parametrize(("asked", "said", "passes"), CLAIMS)
async def test_claims_may_be_asked_for(
    asked: dict[str, Any], said: dict[str, Any], passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several values must all be there; a pattern must match one as a whole."""
    monkeypatch.setenv("TEST_TENANT", "acme")
    verifier = a_verifier(claims=asked)

    if passes:
        assert (await verifier.verify(ADA_ISSUER.token(**said))).subject == "ada"
    else:
        refusal = await refused(verifier, ADA_ISSUER.token(**said))
        assert (refusal.status, refusal.code) == (403, "claims-missing")


async def test_a_claim_may_have_to_be_there_whatever_it_says() -> None:
    verifier = a_verifier(required=["tenant"])

    assert (await verifier.verify(ADA_ISSUER.token(tenant=0))).subject == "ada"
    assert (await refused(verifier, ADA_ISSUER.token())).status == 403


async def test_the_principal_may_be_named_otherwise() -> None:
    by_claim = a_verifier(subject="email")
    assert (
        await by_claim.verify(ADA_ISSUER.token(email="ada@a.example"))
    ).subject == "ada@a.example"
    assert (await refused(by_claim, ADA_ISSUER.token())).status == 401

    by_function = a_verifier(subject=lambda claims: f"{claims.issuer}#{claims.subject}")
    assert await _subject(by_function) == "https://login.example#ada"


async def test_a_naming_that_fails_names_nobody(caplog: pytest.LogCaptureFixture) -> None:
    verifier = a_verifier(subject=lambda claims: claims["missing"])

    assert (await refused(verifier, ADA_ISSUER.token())).code == "invalid-token"
    assert "Jwt(subject=...) failed" in caplog.text


async def test_issuers_do_not_sign_for_each_other() -> None:
    other = TokenIssuer("https://other.example", clock=CLOCK)
    declared = Jwt(
        [Issuer(one.url, keys=[one.key.jwk]) for one in (ADA_ISSUER, other)],
        [AUDIENCE],
        subject="email",
    )
    verifier = TokenVerifier(declared, [AUDIENCE], clock=CLOCK)
    assert (await verifier.verify(other.token(email="e"))).subject == "e"

    forged = other.token(iss=ADA_ISSUER.url, email="e")

    assert (await refused(verifier, forged)).status == 401


GOOD = ADA_ISSUER.token()


@given(
    st.text(max_size=200)
    | st.builds(".".join, st.lists(st.text("abcAB19_-=", max_size=30)))
    | st.builds(
        lambda at, by: GOOD[:at] + by + GOOD[at + 1 :],
        st.integers(0, len(GOOD) - 1),
        st.text(max_size=2),
    )
)
def test_whatever_comes_as_a_token_is_refused_and_breaks_nothing(token: str) -> None:
    """Nothing but the token that was signed gets in, and nothing else than a refusal comes out."""
    verifier = a_verifier()
    try:
        principal = asyncio.run(verifier.verify(token))
    except RefusedError as error:
        assert error.refusal.status == 401
    else:
        # The last character of a signature has bits that mean nothing.
        assert token[:-1] == GOOD[:-1]
        assert principal.subject == "ada"


async def _subject(verifier: TokenVerifier) -> str | None:
    principal: Principal = await verifier.verify(ADA_ISSUER.token())
    return principal.subject
