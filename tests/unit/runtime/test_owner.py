"""Who owns what: beats go on during a handover, and nothing is answered without a lease."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from greenroom.components import define_all
from greenroom.errors import NotOwnerError, RuntimeStoppedError
from greenroom.ids import EntityRef, slice_of
from greenroom.persistence import OwnerInfo
from greenroom.persistence.sql import _postgres_ownership
from greenroom.runtime import _owner
from greenroom.runtime._calls import Answer, CallRequest
from greenroom.runtime._owner import OwnerKeeper
from greenroom.settings import Settings
from tests.support.components import Counter

SLICES = 4
DEFINITIONS = {one.id: one for one in define_all([Counter])}
REFS = {slice_of(ref, SLICES): ref for ref in (EntityRef("counter", str(n)) for n in range(40))}


class FakeOwnership:
    """Owns what a test says; its beats are counted."""

    slices = SLICES

    def __init__(self) -> None:
        self.mine: frozenset[int] = frozenset()
        self.target: frozenset[int] = frozenset(range(SLICES))
        self.surplus: frozenset[int] = frozenset()
        self.problems: list[Exception] = []
        self.starts = self.beats = 0
        self.released: list[frozenset[int]] = []
        self.owner: OwnerInfo | None = None

    def peer_secret(self) -> str:
        return "secret"

    def start(self, _address: str | None) -> None:
        self.starts += 1
        self.mine = frozenset()

    def owned(self) -> frozenset[int]:
        return self.mine

    def beat(self) -> frozenset[int]:
        self.beats += 1
        if self.problems:
            self.mine = frozenset()
            raise self.problems.pop(0)
        self.mine = self.target
        return self.surplus

    def release(self, slices: frozenset[int]) -> None:
        self.released.append(slices)
        self.target -= slices
        self.mine -= slices
        self.surplus = frozenset()

    def owner_of(self, _slice: int) -> OwnerInfo | None:
        return self.owner

    def stop(self) -> None:
        self.mine = frozenset()


class FakeDirectory:
    """Instances that are busy for as long as a test says."""

    def __init__(self) -> None:
        self.busy: list[EntityRef] = []
        self.abandoned: list[EntityRef] = []

    def passivate_where(
        self, matches: Callable[[EntityRef], bool], *, among: object = None
    ) -> list[EntityRef]:
        return [ref for ref in self.busy if matches(ref)]

    def abandon(self, matches: Callable[[EntityRef], bool]) -> None:
        self.abandoned += [ref for ref in REFS.values() if matches(ref)]


class FakeWriter:
    """Knows only that nobody commits while slices move."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def exclusive(self) -> threading.Lock:
        return self.lock


async def refusing(_request: CallRequest) -> Answer:
    raise RuntimeStoppedError("The runtime is stopping.")


class Parts:
    """A keeper and what is around it."""

    def __init__(self) -> None:
        self.ownership, self.directory = FakeOwnership(), FakeDirectory()
        self.keeper = OwnerKeeper(
            self.ownership,  # type: ignore[arg-type]
            settings=Settings(database_url="postgresql+psycopg://nobody@nowhere/nothing"),
            definitions=DEFINITIONS,
            directory=self.directory,  # type: ignore[arg-type]
            writer=FakeWriter(),  # type: ignore[arg-type]
            call_here=refusing,
            on_gained=lambda: None,
        )


@pytest.fixture
async def parts(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Parts]:
    monkeypatch.setattr(_owner, "BEAT_SECONDS", 0.01)
    made = Parts()
    await made.keeper.start()
    yield made
    await made.keeper.stop_peers()


async def until(fact: Callable[[], bool]) -> None:
    """Let the loop run until a fact comes true."""
    async with asyncio.timeout(5):
        while not fact():
            await asyncio.sleep(0.001)


def a_call(slice_: int) -> CallRequest:
    return CallRequest(REFS[slice_], DEFINITIONS["counter"].handler_named("increase"), (1,))


def test_a_beat_is_good_for_as_long_as_the_database_says() -> None:
    """Two numbers in two layers that must agree."""
    assert _owner.LEASE_SECONDS * 1000 == _postgres_ownership.LEASE_MS


async def test_beats_go_on_while_slices_are_handed_over(parts: Parts) -> None:
    """Or the lease would run out behind a command that takes long."""
    ownership, directory, keeper = parts.ownership, parts.directory, parts.keeper
    directory.busy = [REFS[0]]
    ownership.surplus = frozenset({0, 1})
    await until(lambda: not keeper.owns(REFS[0]))
    before = ownership.beats
    await until(lambda: ownership.beats > before + 5)

    assert keeper.owned() == {2, 3}
    assert not keeper.owns(REFS[1])
    assert keeper.owns(REFS[2])
    assert ownership.released == []
    directory.busy = []
    await until(lambda: ownership.released == [{0, 1}])


async def test_commands_that_take_too_long_are_dropped_for_a_handover(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_owner, "HANDOVER_SECONDS", 0.0)
    parts.directory.abandoned.clear()
    parts.directory.busy = [REFS[0]]
    parts.ownership.surplus = frozenset({0})
    await until(lambda: parts.ownership.released == [{0}])

    assert parts.directory.abandoned == [REFS[0]]


async def test_what_is_owned_again_is_recovered_again(parts: Parts) -> None:
    """An instance left behind would not know what another owner wrote."""
    parts.ownership.surplus = frozenset({0})
    await until(lambda: parts.ownership.released == [{0}])
    await until(lambda: not parts.keeper.owns(REFS[0]))
    parts.directory.abandoned.clear()
    parts.ownership.target = frozenset(range(SLICES))
    await until(lambda: parts.keeper.owns(REFS[0]))

    assert parts.directory.abandoned == [REFS[0]]


async def test_nothing_is_owned_once_the_lease_has_passed(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may have taken over; this one can't know."""
    keeper = parts.keeper
    assert keeper.owns(REFS[0])
    stuck = threading.Event()
    parts.ownership.beat = lambda: stuck.wait(5) and frozenset()  # type: ignore
    monkeypatch.setattr(_owner, "monotonic", lambda: 2.0**60)
    assert not keeper.owns(REFS[0])
    monkeypatch.undo()
    stuck.set()


async def test_a_beat_that_fails_is_tried_again(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    """Even one that fails as nothing should."""
    from greenroom.errors import StoreUnavailableError

    parts.ownership.problems += [StoreUnavailableError("gone"), ZeroDivisionError("a bug")]
    before = parts.ownership.beats
    await until(lambda: parts.ownership.beats > before + 3)
    await until(lambda: parts.keeper.owns(REFS[0]))

    assert "The lease could not be renewed: gone" in caplog.text
    assert "a bug" in caplog.text
    assert parts.ownership.starts == 1


async def test_who_was_fenced_off_forgets_everything_and_joins_again(parts: Parts) -> None:
    parts.directory.abandoned.clear()
    parts.ownership.problems.append(NotOwnerError("taken over"))
    await until(lambda: parts.ownership.starts == 2)
    await until(lambda: parts.keeper.owns(REFS[0]))

    assert set(REFS.values()) <= set(parts.directory.abandoned)


async def test_the_journal_may_tell_first(parts: Parts) -> None:
    """From the writer's thread, between two beats."""
    await asyncio.to_thread(parts.keeper.fenced_soon)
    await until(lambda: parts.ownership.starts == 2)


@pytest.mark.parametrize("owner", [None, OwnerInfo(1, None)])
async def test_a_slice_without_an_owner_is_said_to_have_none(
    parts: Parts, owner: OwnerInfo | None
) -> None:
    """Nothing was done, so the call may look again."""
    parts.ownership.target = frozenset({1})
    await until(lambda: not parts.keeper.owns(REFS[0]))
    parts.ownership.owner = owner
    with pytest.raises(NotOwnerError, match="no owner"):
        await parts.keeper.call(a_call(0), refusing)


async def test_a_peer_that_is_mistaken_is_told(parts: Parts) -> None:
    """Forwarding on would hide two that send each other a call for ever."""
    parts.ownership.target = frozenset({1})
    await until(lambda: not parts.keeper.owns(REFS[0]))
    with pytest.raises(NotOwnerError, match="not owned here"):
        await parts.keeper._answer_peer(a_call(0))
    with pytest.raises(NotOwnerError, match="stopping"):
        await parts.keeper._answer_peer(a_call(1))


async def test_a_stop_waits_for_no_handover(parts: Parts) -> None:
    """Everything is given up anyway."""
    parts.directory.busy = [REFS[0]]
    parts.ownership.surplus = frozenset({0})
    await until(lambda: not parts.keeper.owns(REFS[0]))
    await asyncio.wait_for(parts.keeper.stop_peers(), 2)

    tasks: Any = asyncio.all_tasks() - {asyncio.current_task()}
    assert not tasks
