"""A connection that breaks during a commit: what became of it is found out, never guessed."""

from collections.abc import Iterator

import pytest

from greenroom.errors import CommitUnknownError, StoreUnavailableError
from greenroom.persistence import Store
from tests.support.journals import (
    CART,
    a_write,
    an_event,
    commit_ok,
    commit_one,
    fresh,
    open_journal,
    payloads,
)
from tests.support.proxy import Network, network_to

COMMIT = b"\x0bCOMMIT\x00"
"""As it goes over the wire."""
pytestmark = pytest.mark.postgresql


@pytest.fixture
def opened(postgres_url: str) -> Iterator[tuple[Store, Network]]:
    """A store whose database is at the other end of a network."""
    with network_to(postgres_url) as (url, network), open_journal(url) as (store, _):
        yield store, network


def numbers(store: Store) -> list[int]:
    slice_ = store.journal.records(CART)[0].slice
    return [one.slice_seq for one in store.journal.feed(slice_)]


def test_a_commit_that_was_carried_out_counts(opened: tuple[Store, Network]) -> None:
    """Though nobody heard of it."""
    store, network = opened
    head = commit_ok(store, CART, fresh(), a_write(an_event("before")))
    network.cut_at(COMMIT, delivered=True)

    head = commit_ok(store, CART, head, a_write(an_event("during")))

    assert network.was_cut.is_set()
    commit_ok(store, CART, head, a_write(an_event("after")))
    assert payloads(store, CART) == ["before", "during", "after"]
    assert numbers(store) == [1, 2, 3]
    store.ownership.beat()


@pytest.mark.timeout(30)
def test_a_commit_that_never_arrived_wrote_nothing(opened: tuple[Store, Network]) -> None:
    """The server still waits for it, with its locks, and nobody waits for the server."""
    store, network = opened
    head = commit_ok(store, CART, fresh(), a_write(an_event("before")))
    network.cut_at(COMMIT, delivered=False)

    with pytest.raises(StoreUnavailableError):
        commit_one(store, CART, head, a_write(an_event("lost")))

    assert network.was_cut.is_set()
    commit_ok(store, CART, head, a_write(an_event("after")))
    assert payloads(store, CART) == ["before", "after"]
    assert numbers(store) == [1, 2]
    store.ownership.beat()


@pytest.mark.parametrize("delivered", [True, False], ids=["written", "not written"])
def test_with_the_database_out_of_reach_it_is_unknown(
    postgres_url: str, *, delivered: bool
) -> None:
    """Never something that may be repeated."""
    with network_to(postgres_url) as (url, network), open_journal(url) as (store, _):
        head = commit_ok(store, CART, fresh(), a_write(an_event("before")))
        network.cut_at(COMMIT, delivered=delivered, stays_down=True)

        with pytest.raises(CommitUnknownError, match="can't be asked") as caught:
            commit_one(store, CART, head, a_write(an_event("during")))

        assert not caught.value.retryable
        network.comes_back()
