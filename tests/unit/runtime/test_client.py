"""What a call may be given, and how patiently it is repeated."""

import math
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from greenroom import Metadata
from greenroom.errors import InvalidCallError
from greenroom.runtime import Retries, Runtime
from greenroom.settings import Settings
from tests.support.components import Counter


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    file: Path = tmp_path_factory.mktemp("client") / "client.db"
    started = Runtime([Counter], settings=Settings(database_url=f"sqlite:///{file}"))
    started.start()
    yield started
    started.stop()


SECOND = timedelta(seconds=1)
WRONG_RETRIES: list[tuple[dict[str, Any], str]] = [
    ({"times": -1}, "times must be a whole number from 0, not -1"),
    ({"times": 1.5}, "times must be a whole number"),
    ({"times": True}, "times must be a whole number"),
    ({"times": 1, "first": -SECOND}, "first must be a timedelta from 0"),
    ({"times": 1, "limit": 5}, "limit must be a timedelta from 0, .*not 5"),
    ({"times": 1, "jitter": -0.1}, "jitter must be a number from 0 to 1"),
    ({"times": 1, "first": timedelta(hours=1)}, "first must not be above limit, as 1:00:00"),
    ({"times": 1, "jitter": 3.0}, "jitter must be a number from 0 to 1"),
    ({"times": 1, "jitter": math.nan}, "jitter must be a number from 0 to 1"),
]


@pytest.mark.parametrize(("given", "said"), WRONG_RETRIES, ids=str)
def test_retries_say_what_they_can_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidCallError, match=said):
        Retries(**given)


def test_the_pause_is_never_beyond_its_limit() -> None:
    """However often it was doubled."""
    retries = Retries(10_000, jitter=0.0)
    assert [retries.pause(attempt) for attempt in (1, 2, 3)] == [0.1, 0.2, 0.4]
    assert retries.pause(10_000) == 10.0


WRONG_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"retries": -1}, "times must be a whole number from 0, not -1"),
    ({"retries": "3"}, "times must be a whole number"),
    ({"timeout": timedelta(0)}, "timeout must be above zero"),
    ({"timeout": 5}, "timeout must be a timedelta"),
    ({"expected_version": -1}, "expected_version must be a whole number from 0"),
    ({"expected_version": "1"}, "expected_version must be a whole number from 0"),
    ({"metadata": {"a": "b"}}, "metadata must be a Metadata"),
    ({"idempotency_key": ""}, "idempotency key"),
]


@pytest.mark.parametrize(("given", "said"), WRONG_OPTIONS, ids=str)
def test_options_say_what_they_can_be(runtime: Runtime, given: dict[str, Any], said: str) -> None:
    for client in (runtime.client, runtime.async_client):
        counter = client.for_event_sourced_entity(Counter, "a")
        with pytest.raises(InvalidCallError, match=said):
            counter.with_options(**given)


def test_options_that_can_be_are_taken(runtime: Runtime) -> None:
    counter = runtime.client.for_event_sourced_entity(Counter, "options")
    careful = counter.with_options(
        timeout=5 * SECOND, expected_version=0, retries=0, metadata=Metadata.EMPTY
    )
    assert careful.ask(Counter.increase, 1) == 1


WRONG_PAGES: list[tuple[dict[str, Any], str]] = [
    ({"after": "\0"}, "after must be an instance id"),
    ({"after": "\ud800"}, "after must be an instance id"),
    ({"after": 5}, "after must be an instance id"),
    ({"after": "x" * 256}, "after must be an instance id"),
    *(
        ({"limit": wrong}, "limit must be a whole number from 1 to")
        for wrong in (0, -1, 100_001, 2**70, "1")
    ),
]


@pytest.mark.parametrize(("given", "said"), WRONG_PAGES, ids=str)
async def test_a_page_of_instances_says_what_it_can_be(
    runtime: Runtime, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidCallError, match=said):
        await runtime.async_client.instances(Counter, **given)


WRONG_EVENTS: list[tuple[dict[str, Any], str]] = [
    *(
        ({"limit": wrong}, "limit must be a whole number from 1 to")
        for wrong in (0, -1, 100_001, 2**70)
    ),
    *(({"after": wrong}, "after must be a whole number from 0 to") for wrong in (-1, 2**70, None)),
]


@pytest.mark.parametrize(("given", "said"), WRONG_EVENTS, ids=str)
def test_a_page_of_events_says_what_it_can_be(
    runtime: Runtime, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidCallError, match=said):
        runtime.client.events(Counter, "a", **given)


@pytest.mark.parametrize("wrong", [-1, 2**70, "1", True])
def test_a_version_to_look_at_says_what_it_can_be(runtime: Runtime, wrong: Any) -> None:
    with pytest.raises(InvalidCallError, match="sequence_number must be a whole number from 0 to"):
        runtime.client.state_at(Counter, "a", wrong)


def test_instances_come_page_by_page(runtime: Runtime) -> None:
    for name in ("page-a", "page-b", "page-c"):
        runtime.client.for_event_sourced_entity(Counter, name).ask(Counter.increase)

    first = runtime.client.instances(Counter, after="page", limit=2)
    rest = runtime.client.instances(Counter, after=first[-1].ref.instance, limit=2)

    assert [one.ref.instance for one in (*first, *rest)] == ["page-a", "page-b", "page-c"]


def test_pages_at_their_limits_are_read(runtime: Runtime) -> None:
    runtime.client.for_event_sourced_entity(Counter, "b").ask(Counter.increase, 1)

    assert runtime.client.instances(Counter, after="", limit=100_000)
    assert runtime.client.instances(Counter, after="x" * 255, limit=1) == []
    assert len(runtime.client.events(Counter, "b", after=0, limit=100_000)) == 1
    assert runtime.client.events(Counter, "b", after=2**63 - 1) == []
