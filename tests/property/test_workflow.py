"""Workflows under failures, restarts and steering: every effect once, every end a legal one."""

import tempfile
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from greenroom.runtime import Runtime
from greenroom.settings import Settings
from tests.support.components import Counter
from tests.support.eventually import eventually
from tests.support.workflows import Journeys, new_script

NAMES = ("a", "b", "c")
names = st.sampled_from(NAMES)
steps = st.sampled_from(("first", "first called", "second", "second called"))
actions = st.one_of(
    st.tuples(st.just("start"), names),
    st.tuples(st.just("suspend"), names),
    st.tuples(st.just("resume"), names),
    st.tuples(st.just("terminate"), names),
    st.tuples(st.just("restart"), st.just("")),
    st.tuples(st.just("abandon"), names),
)
failures = st.dictionaries(steps, st.integers(1, 3))


class World:
    """A runtime, and what a model knows of it: who was started, who was ended from outside."""

    def __init__(self, url: str) -> None:
        self._settings = Settings(database_url=url, sweep_every=timedelta(seconds=0.1))
        self.started: set[str] = set()
        self.terminated: set[str] = set()
        self.begin()

    def begin(self) -> None:
        self.runtime = Runtime([Counter, Journeys], settings=self._settings)
        self.runtime.start()

    def journey(self, name: str):  # type: ignore[no-untyped-def]
        return self.runtime.client.for_workflow(Journeys, name)

    def start(self, name: str) -> None:
        if name not in self.started | self.terminated:
            self.started.add(name)
            self.journey(name).ask(Journeys.start, name, adds=7)

    def suspend(self, name: str) -> None:
        self.journey(name).suspend("for a while")

    def resume(self, name: str) -> None:
        self.journey(name).resume()

    def terminate(self, name: str) -> None:
        self.journey(name).terminate("enough")
        self.terminated.add(name)

    def restart(self, _: str) -> None:
        self.runtime.stop()
        self.begin()

    def abandon(self, name: str) -> None:
        """As when a slice is lost: whatever runs is thrown away, and taken up again."""
        self.runtime._directory.abandon(lambda ref: ref.instance == name)

    def check(self) -> None:
        client = self.runtime.client
        for name in NAMES:
            self.resume(name)
            total = client.for_event_sourced_entity(Counter, name).ask(Counter.total)
            status = self.journey(name).status
            if name in self.started:
                over = ("ended", "terminated") if name in self.terminated else ("ended",)
                assert eventually(lambda over=over, status=status: status().status in over)  # type: ignore[misc]
                total = client.for_event_sourced_entity(Counter, name).ask(Counter.total)
                assert total == 14 if status().status == "ended" else total in (0, 7, 14)
            else:
                assert total == 0


@settings(max_examples=25, deadline=None)
@given(st.lists(actions, max_size=12), failures)
def test_every_effect_happens_once(script: list[tuple[str, str]], failing: dict[str, int]) -> None:
    steps_of_test = new_script()
    for name, times in failing.items():
        steps_of_test.fail(name, times)
    with tempfile.TemporaryDirectory() as folder:
        world = World(f"sqlite:///{folder}/greenroom.db")
        try:
            for action, name in script:
                getattr(world, action)(name)
            world.check()
        finally:
            world.runtime.stop()
