"""Who makes a call, and what was asked."""

from datetime import UTC, datetime

import pytest

from greenroom.components import ANONYMOUS, Claims, Principal, RequestContext
from greenroom.errors import AccessDeniedError

CLAIMS = Claims(
    {"iss": "i", "sub": "ada", "aud": ["a", "b"], "exp": 1893456000, "iat": 0, "jti": "t", "x": 1}
)


def test_claims_are_a_mapping_with_names_for_the_usual_ones() -> None:
    assert (CLAIMS.issuer, CLAIMS.subject, CLAIMS.audiences, CLAIMS.id) == (
        "i",
        "ada",
        ("a", "b"),
        "t",
    )
    assert CLAIMS.expires_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert CLAIMS.issued_at == datetime(1970, 1, 1, tzinfo=UTC)
    assert CLAIMS["x"] == 1
    assert dict(CLAIMS).keys() == {"iss", "sub", "aud", "exp", "iat", "jti", "x"}
    assert len(CLAIMS) == 7


def test_claims_that_were_not_made_are_none() -> None:
    none = Claims({"aud": "a"})

    assert none.audiences == ("a",)
    assert (none.issuer, none.subject, none.expires_at, none.issued_at, none.id) == (None,) * 5
    assert Claims({}).audiences == ()


def test_what_a_token_says_is_not_shown_by_accident() -> None:
    assert "ada" not in repr(CLAIMS)
    assert repr(Claims({"sub": "ada", "email": "a@b.c"})) == "<Claims sub, email>"


def test_claims_can_not_be_changed_through_what_they_were_made_of() -> None:
    given = {"sub": "ada"}
    claims = Claims(given)
    given["sub"] = "eve"

    assert claims.subject == "ada"


def test_a_principal_says_who_it_is() -> None:
    assert [str(one) for one in (ANONYMOUS, Principal("ada"))] == ["anonymous", "ada"]
    assert ANONYMOUS.is_anonymous
    assert ANONYMOUS.is_internet
    billing = Principal("service:billing", "billing")
    assert not billing.is_anonymous
    assert not billing.is_internet


def test_a_request_knows_its_headers_key_and_claims() -> None:
    headers = {"x-tenant": "acme", "idempotency-key": "k-1"}
    request = RequestContext(Principal("ada", claims=CLAIMS), headers)

    assert request.header("X-Tenant") == "acme"
    assert request.header("X-Missing") is None
    assert request.idempotency_key == "k-1"
    assert request.claims is CLAIMS
    assert RequestContext().idempotency_key is None
    with pytest.raises(AccessDeniedError, match="a caller with a token"):
        _ = RequestContext().claims
