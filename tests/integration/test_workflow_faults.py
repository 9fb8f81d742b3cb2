"""Workflows when what they store does not go in, and when they change their process."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from greenroom.errors import (
    CommitUnknownError,
    GreenroomError,
    PersistenceError,
    StoreFullError,
    StoreUnavailableError,
)
from greenroom.ids import EntityRef
from greenroom.persistence import Chain, CommandWrite, Encoded, NewRecord, RecordKind
from greenroom.runtime import Retries, Runtime
from greenroom.settings import Settings
from tests.support.components import Counter
from tests.support.eventually import eventually
from tests.support.interfering import interfering_with
from tests.support.workflows import Journeys, Script, new_script


@pytest.fixture
def script() -> Script:
    return new_script()


@contextmanager
def running(url: str) -> Iterator[Runtime]:
    settings = Settings(database_url=url, sweep_every=timedelta(seconds=0.1))
    runtime = Runtime([Counter, Journeys], settings=settings)
    runtime.start()
    try:
        yield runtime
    finally:
        runtime.stop()


@pytest.fixture
def runtime(sqlite_url: str, script: Script) -> Iterator[Runtime]:
    with running(sqlite_url) as started:
        yield started


def status(runtime: Runtime, name: str) -> str:
    try:
        return runtime.client.for_workflow(Journeys, name).status().status
    except GreenroomError as error:
        # It was about to be computed from what has not gone in.
        return str(error)


def total(runtime: Runtime, name: str) -> int:
    return runtime.client.for_event_sourced_entity(Counter, name).ask(Counter.total)


@pytest.mark.parametrize("which", range(6))
@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError("gone"),
        StoreFullError("full"),
        CommitUnknownError("who knows"),
        RuntimeError("a bug below"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_workflow_gets_over_any_write_that_fails(
    runtime: Runtime, which: int, error: PersistenceError
) -> None:
    """Five writes: the start, two calls to a counter, and the ends of two steps."""

    def fail() -> None:
        raise error

    with interfering_with(runtime) as journal:
        journal.before += [lambda: None] * which + [fail]
        journey = runtime.client.for_workflow(Journeys, "j").with_options(
            idempotency_key="k", retries=Retries(5)
        )
        try:
            journey.ask(Journeys.start, "rome")
        except GreenroomError:
            assert which == 0
            journey.ask(Journeys.start, "rome")

        assert eventually(lambda: status(runtime, "j") == "ended")
    assert total(runtime, "rome") == 2


@pytest.mark.parametrize("which", range(2, 5))
def test_a_workflow_that_somebody_else_wrote_to_reads_itself_again(
    runtime: Runtime, script: Script, which: int
) -> None:
    """Its step runs again on what is stored now."""
    store = runtime._store.journal
    ref = EntityRef("journeys", "j")
    state = Encoded("journey", 1, b'{"places":["elsewhere"]}')

    def foreign() -> None:
        stored = store.load(ref, latest_only=True)
        record = NewRecord(RecordKind.TRANSITION, state, stored.records[-1].metadata)
        write = CommandWrite([record], step=stored.head.step)
        [outcome] = store.commit([Chain(ref, "workflow", stored.head, [write])])
        assert outcome.error is None

    with interfering_with(runtime) as journal:
        journal.before += [lambda: None] * which + [foreign]
        runtime.client.for_workflow(Journeys, "j").ask(Journeys.start, "rome")

        assert eventually(lambda: status(runtime, "j") == "ended")
    look = runtime.client.for_workflow(Journeys, "j").ask(Journeys.look)
    assert "elsewhere" in look.places or which == 4
    assert total(runtime, "rome") == 2


def test_a_store_that_takes_nothing_is_not_asked_in_a_circle(
    runtime: Runtime, script: Script
) -> None:
    def fail() -> None:
        raise StoreFullError("full")

    with interfering_with(runtime) as journal:
        with script.held("first called") as reached:
            runtime.client.for_workflow(Journeys, "j").ask(Journeys.start, "rome")
            assert reached.wait(10)
            journal.before += [fail] * 3
        assert eventually(lambda: not journal.before, seconds=20)
        assert eventually(lambda: status(runtime, "j") == "ended", seconds=20)
    assert script.trace.count("first") <= 6
    assert total(runtime, "rome") == 2


def test_a_state_that_can_t_be_read_is_told_and_stops_no_other(
    runtime: Runtime, script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    ref = EntityRef("journeys", "broken")
    record = NewRecord(RecordKind.TRANSITION, Encoded("journey", 1, b'{"places":7}'), b"{}")
    chain = Chain(
        ref,
        "workflow",
        runtime._store.journal.load(ref).head,
        [CommandWrite([record], step="first")],
    )
    runtime._store.journal.commit([chain])

    runtime.client.for_workflow(Journeys, "j").ask(Journeys.start, "rome")

    assert eventually(lambda: status(runtime, "j") == "ended")
    assert eventually(lambda: "journeys/broken can't be recovered" in caplog.text)
    with pytest.raises(PersistenceError, match="record 1 can't be read"):
        runtime.client.for_workflow(Journeys, "broken").status()


@pytest.mark.postgresql
@pytest.mark.timeout(120)
def test_workflows_go_on_in_another_process(postgres_url: str, script: Script) -> None:
    """Their steps were under way when their slices moved."""
    names = [f"j{number}" for number in range(20)]
    with running(postgres_url) as second:
        with running(postgres_url) as first:
            assert eventually(lambda: first.health()["slices"] == 32, seconds=20)
            with script.held("first called"):
                for name in names:
                    first.client.for_workflow(Journeys, name).ask(Journeys.start, name)
                assert eventually(lambda: script.trace.count("first") >= len(names), seconds=20)
                first._engine.stopping = True
                first._directory.abandon(lambda _: True)
        assert eventually(lambda: second.health()["slices"] == 64, seconds=20)

        assert eventually(lambda: all(status(second, one) == "ended" for one in names), seconds=30)
        assert [total(second, one) for one in names] == [2] * len(names)


@pytest.mark.postgresql
@pytest.mark.timeout(120)
def test_both_processes_steer_every_workflow(postgres_url: str, script: Script) -> None:
    """Whoever is asked, the owner suspends, resumes and tells."""
    with running(postgres_url) as first, running(postgres_url) as second:
        assert eventually(lambda: first.health()["slices"] == 32, seconds=20)
        both: Any = (first, second)
        for number in range(10):
            name = f"j{number}"
            here, there = (both[number % 2].client, both[1 - number % 2].client)
            here.for_workflow(Journeys, name).ask(Journeys.pause, "for the boss")
            there.for_workflow(Journeys, name).suspend("closed")
            told = here.for_workflow(Journeys, name).status()
            assert (told.suspended, told.reason) == (True, "closed")
            there.for_workflow(Journeys, name).resume()
            here.for_workflow(Journeys, name).ask(Journeys.start, name)
            assert eventually(lambda name=name: status(second, name) == "ended")  # type: ignore[misc]
            assert total(first, name) == 2
