"""Who may call, by the host they call and the page they come from."""

import pytest

from greenroom.edge import HostCheck

LOCAL = ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8000", "LOCALHOST:1", "127.0.0.1:80", "[::1]", "[::1]:8000"]
)
def test_an_allowed_host_is_answered_on_any_port(host: str) -> None:
    assert HostCheck(LOCAL).refusal(host.encode(), None) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "localhost:x", "", "[::2]:80", "127.0.0.1.nip.io"],
)
def test_another_host_is_refused_with_the_remedy(host: str) -> None:
    refusal = HostCheck(LOCAL).refusal(host.encode(), None)

    assert refusal is not None
    assert refusal.status == 421
    assert host in refusal.text
    assert "GREENROOM_ALLOWED_HOSTS" in refusal.text


def test_a_missing_host_is_refused() -> None:
    assert HostCheck(LOCAL).refusal(None, None) is not None


@pytest.mark.parametrize("name", [b"host", b"origin"])
@pytest.mark.parametrize(
    "values", [(b"localhost", b"evil.example"), (b"evil.example", b"localhost")]
)
def test_a_header_that_comes_twice_is_refused(name: bytes, values: tuple[bytes, bytes]) -> None:
    refusal = HostCheck(LOCAL, ["*"]).refusal_of([(name, one) for one in values])

    assert refusal is not None
    assert refusal.status == 400


def test_a_host_with_a_port_allows_that_port_only() -> None:
    check = HostCheck(["shop.example:8443"])

    assert check.refusal(b"shop.example:8443", None) is None
    assert check.refusal(b"shop.example:80", None) is not None


def test_a_star_is_any_host_but_not_any_page() -> None:
    check = HostCheck(["*"])

    assert check.refusal(b"anything.example", None) is None
    assert check.refusal(b"anything.example", b"http://anything.example") is not None


@pytest.mark.parametrize("origin", ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:1"])
def test_pages_of_allowed_hosts_may_call(origin: str) -> None:
    assert HostCheck(LOCAL).refusal(b"localhost", origin.encode()) is None


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "", "file://", "chrome-extension://localhost"]
)
def test_other_pages_may_not(origin: str) -> None:
    refusal = HostCheck(LOCAL).refusal(b"localhost", origin.encode())

    assert refusal is not None
    assert refusal.status == 403


def test_origins_may_be_allowed_one_by_one_or_all() -> None:
    named = HostCheck(LOCAL, ["https://App.example/"])

    assert named.refusal(b"localhost", b"https://app.example") is None
    assert named.refusal(b"localhost", b"http://app.example") is not None
    assert HostCheck(LOCAL, ["*"]).refusal(b"localhost", b"null") is None


def test_many_different_headers_are_not_remembered_for_ever() -> None:
    check = HostCheck(["*"])
    for number in range(1000):
        assert check.refusal(b"host-%d" % number, None) is None

    assert len(check._good) <= 256
