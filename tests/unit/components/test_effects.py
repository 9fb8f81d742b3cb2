"""Effects are plain data, and what can't be carried out can't be built."""

from datetime import timedelta

import pytest

from greenroom import CommandError, Metadata, WithMetadata
from greenroom.components import (
    Effect,
    EventSourcedEffects,
    Failure,
    KeyValueEffects,
    PersistEvents,
    ReadOnlyEffect,
    Reply,
    UpdateState,
    no_effect,
)

EVENTS: EventSourcedEffects[int, str] = EventSourcedEffects()
STATES: KeyValueEffects[int] = KeyValueEffects()
HOUR = timedelta(hours=1)


def double(state: int) -> int:
    return 2 * state


def test_events_are_kept_in_order_with_what_follows() -> None:
    tagged = WithMetadata("c", Metadata([("colour", "green")]))
    effect = EVENTS.persist("a", "b", tagged).expire_after(HOUR).then_run(print).then_reply(double)

    assert effect == PersistEvents(
        events=("a", "b", tagged), delete=False, expire_after=HOUR, then_run=(print,),
        then_reply=double,
    )  # fmt: skip
    assert not isinstance(effect, ReadOnlyEffect)


def test_no_events_are_legal_and_may_delete() -> None:
    effect = EVENTS.persist_all(iter(())).delete_entity().then_reply(double)

    assert isinstance(effect, PersistEvents)
    assert (effect.events, effect.delete) == ((), True)


def test_a_state_is_kept_with_what_follows() -> None:
    metadata = Metadata([("colour", "green")])
    built = STATES.update_state(3, metadata).then_run(print).then_run(repr).expire_after(HOUR)

    assert built.then_reply("stored") == UpdateState(
        state=3, metadata=metadata, delete=False, expire_after=HOUR, then_run=(print, repr),
        reply="stored",
    )  # fmt: skip


def test_a_deletion_has_no_state() -> None:
    effect = STATES.delete_entity().then_reply(None)

    assert isinstance(effect, UpdateState)
    assert (effect.state, effect.delete, effect.reply) == (None, True, None)


@pytest.mark.parametrize("duration", [timedelta(0), timedelta(seconds=-1)])
def test_nothing_expires_at_once(duration: timedelta) -> None:
    with pytest.raises(ValueError, match="above zero"):
        EVENTS.persist("a").expire_after(duration)
    with pytest.raises(ValueError, match="above zero"):
        STATES.update_state(1).expire_after(duration)


def test_an_answer_changes_nothing() -> None:
    effect = EVENTS.reply(3, Metadata([("a", "b")]))

    assert effect == Reply(3, Metadata([("a", "b")]))
    assert isinstance(effect, ReadOnlyEffect)


def test_an_error_is_a_text_or_an_error_of_ones_own() -> None:
    class OwnError(CommandError):
        code = "own"

    own = OwnError("no")
    text = EVENTS.error("Not now.")
    kept = STATES.error(own)

    assert isinstance(text, Failure)
    assert (type(text.error), str(text.error)) == (CommandError, "Not now.")
    assert isinstance(kept, Failure)
    assert kept.error is own


def test_a_reply_is_a_function_after_events_and_a_value_after_a_state() -> None:
    """Whoever mixes them up learns it where it is written, not from the encoder."""
    with pytest.raises(TypeError, match=r"function of the new state after persist.*not 'done'"):
        EVENTS.persist("a").then_reply("done")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes the reply itself after update_state"):
        STATES.update_state(1).then_reply(double)
    with pytest.raises(TypeError, match="takes the reply itself after update_state"):
        STATES.delete_entity().then_reply(lambda _state: 1)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (EVENTS.persist("a"), "self.effects.persist(...).then_reply(lambda state: ...)"),
        (EVENTS.persist_all([]).delete_entity(), "unfinished effect; end it with .then_reply(...)"),
        (STATES.update_state(1), "self.effects.update_state(...).then_reply(...)"),
        (STATES.update_state(1).then_reply(2), "an effect of another kind of entity"),
        (None, "returned None, which is no effect; return one, as self.effects.reply(...)"),
        (3, "returned 3, which is no effect"),
    ],
)
def test_what_was_returned_instead_of_an_effect_is_told_with_its_remedy(
    returned: object, said: str
) -> None:
    assert said in no_effect("cart.add", returned)


def test_what_is_not_finished_is_no_effect() -> None:
    """A forgotten `then_reply` is seen by type checkers, and by the runtime."""
    assert not isinstance(EVENTS.persist("a"), Effect)
    assert not isinstance(STATES.update_state(1), Effect)
