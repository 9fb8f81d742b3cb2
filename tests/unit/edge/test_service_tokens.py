"""Services prove their names with short-lived tokens."""

from datetime import timedelta

import jwt
import pytest

from greenroom.edge._service_tokens import ServiceTokens
from greenroom.testkit import ManualClock

SECRET = "s" * 48
CLOCK = ManualClock()
SHOP = ServiceTokens(SECRET, own_name="shop", clock=CLOCK)
BILLING = ServiceTokens(SECRET, own_name="billing", clock=CLOCK)


def test_the_other_side_learns_the_name() -> None:
    assert SHOP.caller(BILLING.issue("shop")) == "billing"


def test_a_token_is_for_one_service() -> None:
    assert SHOP.caller(BILLING.issue("shipping")) is None


def test_a_token_ends_by_the_clock_of_the_runtime() -> None:
    clock = ManualClock()
    shop = ServiceTokens(SECRET, own_name="shop", clock=clock)
    token = ServiceTokens(SECRET, own_name="billing", clock=clock).issue("shop")
    clock.advance(timedelta(seconds=60))
    assert shop.caller(token) == "billing"
    clock.advance(timedelta(seconds=31))
    assert shop.caller(token) is None
    clock.advance(timedelta(seconds=-200))
    assert shop.caller(token) is None, "it is not made yet"


def _claims(**changes: object) -> dict[str, object]:
    now = CLOCK.now_ms() // 1000
    good = {"iss": "greenroom", "sub": "billing", "aud": "shop", "iat": now, "exp": now + 60}
    return {name: value for name, value in {**good, **changes}.items() if value is not None}


@pytest.mark.parametrize(
    "claims",
    [
        _claims(iss="somebody"),
        _claims(sub=None),
        _claims(exp=None),
        _claims(iat=None),
        _claims(exp=CLOCK.now_ms() // 1000 + 3600),
        _claims(exp="tomorrow"),
    ],
)
def test_a_token_must_be_as_it_is_made_here(claims: dict[str, object]) -> None:
    assert SHOP.caller(jwt.encode(_claims(), SECRET, "HS256")) == "billing"
    assert SHOP.caller(jwt.encode(claims, SECRET, "HS256")) is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a.b.c",
        jwt.encode(_claims(), "x" * 48, "HS256"),
        jwt.encode(_claims(), SECRET, "HS384"),
        jwt.encode(_claims(), None, "none"),
    ],
)
def test_another_signature_is_none(token: str) -> None:
    assert SHOP.caller(token) is None
