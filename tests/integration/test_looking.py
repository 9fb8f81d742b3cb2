"""Looking at what is stored: what may be asked for, and what is told otherwise."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from greenroom import ComponentClient
from greenroom.errors import InvalidCallError, InvalidIdError
from greenroom.runtime import Retries, Runtime
from greenroom.settings import Settings
from tests.support.components import Counter


@pytest.fixture
def client(sqlite_url: str) -> Iterator[ComponentClient]:
    runtime = Runtime([Counter], settings=Settings(database_url=sqlite_url))
    runtime.start()
    yield runtime.client
    runtime.stop()


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.instances(Counter, limit=0),
        lambda client: client.instances(Counter, limit=-1),
        lambda client: client.instances(Counter, limit=2**70),
        lambda client: client.instances(Counter, limit="10"),
        lambda client: client.instances(Counter, after="\0"),
        lambda client: client.events(Counter, "a", limit=0),
        lambda client: client.events(Counter, "a", after=-1),
        lambda client: client.events(Counter, "a", after=2**70),
        lambda client: client.state_at(Counter, "a", -1),
    ],
)
def test_what_can_t_be_asked_for_is_refused_by_name(
    client: ComponentClient, ask: Callable[[Any], object]
) -> None:
    with pytest.raises((InvalidCallError, InvalidIdError)):
        ask(client)


def test_instances_come_page_by_page(client: ComponentClient) -> None:
    for name in "abc":
        client.for_event_sourced_entity(Counter, name).ask(Counter.increase)

    first = client.instances(Counter, limit=2)
    rest = client.instances(Counter, after=first[-1].ref.instance, limit=2)

    assert [one.ref.instance for one in (*first, *rest)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"times": -1},
        {"times": 1.5},
        {"times": 1, "first": timedelta(seconds=-1)},
        {"times": 1, "first": timedelta(seconds=9), "limit": timedelta(seconds=1)},
        {"times": 1, "jitter": 3.0},
    ],
)
def test_retries_that_can_t_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidCallError, match=r"retries|Retries"):
        Retries(**wrong)


def test_a_number_of_retries_is_checked_where_it_is_given(client: ComponentClient) -> None:
    with pytest.raises(InvalidCallError, match="retries must be 0 or more, not -1"):
        client.for_event_sourced_entity(Counter, "a").with_options(retries=-1)
