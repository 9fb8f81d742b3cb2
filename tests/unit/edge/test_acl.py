"""Access control lists: deny by default, the internet, named services."""

import pytest

from greenroom.components import ANONYMOUS, Acl, Principal
from greenroom.edge._acl import AclCheck

ADA = Principal("ada")
BILLING = Principal("service:billing", "billing")
SHIPPING = Principal("service:shipping", "shipping")
SELF = Principal("service:shop", "shop")
ROWS = [
    (Acl(), set()),
    (Acl.deny_all(), set()),
    (Acl.allow_internet(), {ANONYMOUS, ADA}),
    (Acl.allow_all(), {ANONYMOUS, ADA, BILLING, SHIPPING}),
    (Acl.allow_services("billing"), {BILLING}),
    (Acl.allow_services("*"), {BILLING, SHIPPING}),
    (Acl.allow_services("b*g", "nobody"), {BILLING}),
    (Acl.allow_services("billin"), set()),
    (Acl.allow_services("b.lling"), set()),
    (Acl(allow=[Acl.ALL], deny=[Acl.INTERNET]), {BILLING, SHIPPING}),
    (Acl(allow=[Acl.ALL], deny=[Acl.service("ship*")]), {ANONYMOUS, ADA, BILLING}),
    (Acl(deny=[Acl.service("billing")]), set()),
    (Acl(allow=[Acl.ALL], deny=[Acl.ALL]), set()),
]


@pytest.mark.parametrize(("acl", "let_in"), ROWS)
def test_who_is_let_in(acl: Acl, let_in: set[Principal]) -> None:
    check = AclCheck(acl, own_name="shop")

    asked = [ANONYMOUS, ADA, BILLING, SHIPPING]
    assert [one for one in asked if check.allows(one)] == [one for one in asked if one in let_in]


@pytest.mark.parametrize(("acl", "_let_in"), ROWS)
def test_a_service_may_call_itself(acl: Acl, _let_in: object) -> None:
    assert AclCheck(acl, own_name="shop").allows(SELF)


def test_a_token_that_names_somebody_like_a_service_is_none() -> None:
    """What counts is what the caller proved as a service, never the text of a subject."""
    check = AclCheck(Acl.allow_services("*"), own_name="shop")

    assert not check.allows(Principal("service:billing"))
    assert not check.allows(Principal("shop"))
