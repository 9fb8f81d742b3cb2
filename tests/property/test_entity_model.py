"""An entity in a real runtime against a plain Python model, however it is interrupted."""

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from greenroom.errors import (
    CommandError,
    EntityDeletedError,
    EntityUnavailableError,
    GreenroomError,
    HandlerError,
    IdempotencyKeyReusedError,
)
from greenroom.runtime import Retries, Runtime
from greenroom.settings import Settings
from tests.support.components import Counter, Increased
from tests.support.eventually import eventually

NAMES = st.sampled_from(["a", "b"])
AMOUNTS = st.integers(1, 5)
KEYS = st.sampled_from(["k-1", "k-2", "k-3"])


class EntityMachine(RuleBasedStateMachine):
    """Sends commands, repeats keys, crashes handlers, passivates, restarts."""

    @initialize(snapshot_every=st.sampled_from([1, 3, 100]), live=st.sampled_from([1, 100]))
    def start(self, snapshot_every: int, live: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.settings = Settings(
            database_url=f"sqlite:///{Path(self.folder.name) / 'greenroom.db'}",
            snapshot_every=snapshot_every,
            max_live_instances=live,
        )
        self.totals = {"a": 0, "b": 0}
        self.keys: dict[tuple[str, str], tuple[int, int]] = {}
        self.deleted: set[str] = set()
        self.runtime = Runtime([Counter], settings=self.settings)
        self.runtime.start()

    def teardown(self) -> None:
        if hasattr(self, "runtime"):
            self.runtime.stop()
            self.folder.cleanup()

    def counter(self, name: str):
        counter = self.runtime.client.for_event_sourced_entity(Counter, name)
        # A handler that crashed twice in a row is left alone for a moment.
        return counter.with_options(
            retries=Retries(60, first=timedelta(milliseconds=20), limit=timedelta(milliseconds=200))
        )

    @rule(name=NAMES, by=AMOUNTS)
    def increase(self, name: str, by: int) -> None:
        if name in self.deleted:
            with pytest.raises(EntityDeletedError):
                self.counter(name).ask(Counter.increase, by)
        else:
            self.totals[name] += by
            assert self.counter(name).ask(Counter.increase, by) == self.totals[name]

    @rule(name=NAMES, by=AMOUNTS, key=KEYS)
    def increase_with_a_key(self, name: str, by: int, key: str) -> None:
        keyed = self.counter(name).with_options(idempotency_key=key)
        used = self.keys.get((name, key))
        if used is not None and used[0] == by:
            assert keyed.ask(Counter.increase, by) == used[1]
        elif used is not None:
            with pytest.raises(IdempotencyKeyReusedError):
                keyed.ask(Counter.increase, by)
        elif name in self.deleted:
            with pytest.raises(EntityDeletedError):
                keyed.ask(Counter.increase, by)
        else:
            self.totals[name] += by
            assert keyed.ask(Counter.increase, by) == self.totals[name]
            self.keys[name, key] = (by, self.totals[name])

    @rule(name=NAMES)
    def decline(self, name: str) -> None:
        with pytest.raises(CommandError):
            self.counter(name).ask(Counter.decline)

    @rule(name=NAMES, by=AMOUNTS)
    def break_after_the_events(self, name: str, by: int) -> None:
        expected = EntityDeletedError if name in self.deleted else HandlerError
        with pytest.raises(expected):
            self.counter(name).ask(Counter.increase_and_break, by)

    @rule(name=NAMES)
    def crash(self, name: str) -> None:
        with pytest.raises(HandlerError):
            self.counter(name).ask(Counter.crash)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.deleted:
            return
        assert self.counter(name).ask(Counter.delete) == "deleted"
        self.deleted.add(name)

    @rule(name=NAMES)
    def read(self, name: str) -> None:
        def answers() -> bool:
            try:
                assert self.counter(name).ask(Counter.total) == self.totals[name]
            except EntityUnavailableError:
                return False
            return True

        assert eventually(answers)
        assert self.counter(name).ask(Counter.whether_deleted) == (name in self.deleted)

    @rule(name=NAMES)
    def look_back(self, name: str) -> None:
        """What is stored, folded again, is what the live instance knows."""
        events = self.runtime.client.events(Counter, name)
        folded = sum(one.value.by for one in events if isinstance(one.value, Increased))
        assert folded == self.totals[name]
        assert self.runtime.client.state_at(Counter, name).total == self.totals[name]

    @rule()
    def restart(self) -> None:
        self.runtime.stop()
        self.runtime = Runtime([Counter], settings=self.settings)
        self.runtime.start()


def check(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        EntityMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(120)
def test_an_entity_does_what_its_model_does() -> None:
    check(8, 15)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_entity_does_what_its_model_does_at_length() -> None:
    check(40, 30)


STEP = st.one_of(
    st.tuples(st.just("increase"), AMOUNTS),
    st.tuples(st.just("increase_twice"), AMOUNTS),
    st.tuples(st.just("increase_and_decline"), AMOUNTS),
    st.tuples(st.just("note"), st.sampled_from(["x", "é", ""])),
    st.tuples(st.just("nothing"), st.none()),
    st.tuples(st.just("keyed"), AMOUNTS),
    st.tuples(st.just("passivate"), st.none()),
    st.tuples(st.just("delete"), st.none()),
)


def told(runtime: Runtime, steps: list[tuple[str, Any]]) -> list[object]:
    """What a counter answered to each step, and how it stands at the end."""
    counter = runtime.client.for_event_sourced_entity(Counter, "a")
    answers: list[object] = []
    for name, argument in steps:
        if name == "passivate":
            runtime._directory.passivate_where(lambda _ref: True)
            continue
        keyed = counter.with_options(idempotency_key=f"k-{argument}")
        target: Any = keyed if name == "keyed" else counter
        handler: Any = getattr(Counter, "increase" if name == "keyed" else name)
        try:
            answers.append(target.ask(handler, *([] if argument is None else [argument])))
        except GreenroomError as error:
            answers.append(type(error))
    live = counter.ask(Counter.get)
    assert runtime.client.state_at(Counter, "a") == live
    versions = [one.sequence_number for one in runtime.client.events(Counter, "a")]
    assert versions == list(range(1, len(versions) + 1))
    return [*answers, live, len(versions)]


@given(steps=st.lists(STEP, max_size=20))
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_how_often_snapshots_are_taken_changes_nothing(steps: list[tuple[str, Any]]) -> None:
    """After every event, now and then, or never: the same answers, state and version."""
    outcomes = []
    for snapshot_every in (1, 3, 100):
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:///{Path(folder) / 'greenroom.db'}"
            runtime = Runtime(
                [Counter], settings=Settings(database_url=url, snapshot_every=snapshot_every)
            )
            runtime.start()
            try:
                outcomes.append(told(runtime, steps))
            finally:
                runtime.stop()
    assert outcomes[0] == outcomes[1] == outcomes[2]
