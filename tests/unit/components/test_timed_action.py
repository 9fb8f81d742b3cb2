"""Timed action classes: read whole, and every breach of their rules told at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from pydantic import Field

from greenroom import (
    CommandContext,
    ComponentClient,
    Effect,
    EntityContext,
    KeyValueEntity,
    Metadata,
    TimedAction,
    TimedActionEffect,
    TimerScheduler,
    component,
    function_tool,
)
from greenroom.components import (
    DUE_AT_KEY,
    TIMER_KEY,
    ActionDone,
    ActionFailed,
    define,
    define_all,
    is_async,
)
from greenroom.errors import DefinitionError, InvalidArgumentsError, UnknownHandlerError


class Base(TimedAction):
    """What several share."""

    def inherited(self) -> TimedActionEffect:
        """Comes from the base class."""
        return self.effects.done()


@component("good")
class Good(Base):
    """Does things, when it is time.

    And more.
    """

    def __init__(self, client: ComponentClient, timers: TimerScheduler) -> None:
        self.client = client

    def expire(self, order_id: str, tries: Annotated[int, Field(gt=0)] = 1) -> TimedActionEffect:
        """Expire an order."""
        return self.effects.error("no")

    async def ask(self) -> TimedActionEffect:
        return self.effects.done()

    def helper(self) -> int:
        return 1

    def _hidden(self) -> TimedActionEffect:
        return self.effects.done()


def test_its_public_methods_that_return_an_effect_are_its_actions() -> None:
    made = define(Good)

    assert (made.id, made.kind, made.description) == (
        "good",
        "timed-action",
        "Does things, when it is time.",
    )
    assert list(made.handlers) == ["ask", "expire", "inherited"]
    assert made.dependencies == {"client": ComponentClient, "timers": TimerScheduler}
    assert is_async(made.handlers["ask"].function)
    assert made.stored_types == ()


def test_arguments_are_bound_and_read_back() -> None:
    expire = define(Good).handler_for(Good.expire)

    stored = expire.encode_arguments(expire.bind(("o-1",), {"tries": 2}))
    assert expire.decode_arguments(stored) == ("o-1", 2)
    with pytest.raises(InvalidArgumentsError, match="tries"):
        expire.bind(("o-1", 0), {})
    with pytest.raises(UnknownHandlerError):
        define(Good).handler_for(Good.helper)


def test_what_an_action_answers() -> None:
    action = Base()
    assert action.effects.done() == ActionDone()
    assert action.effects.error("late") == ActionFailed("late")


@component("bad")
class Bad(Base):
    def __init__(self, who: EntityContext, untyped, timers: TimerScheduler) -> None:  # type: ignore[no-untyped-def]
        pass

    def inherited(self):  # type: ignore[no-untyped-def]
        return self.effects.done()

    def optional(self) -> TimedActionEffect | None:
        return None

    @function_tool(description="A tool.")
    def tool(self) -> TimedActionEffect:
        return self.effects.done()

    @staticmethod
    def static() -> TimedActionEffect:
        raise NotImplementedError

    def untyped(self, one, *rest: int) -> TimedActionEffect:  # type: ignore[no-untyped-def]
        return self.effects.done()

    def default(self, one: int = "x") -> TimedActionEffect:  # type: ignore[assignment]
        return self.effects.done()

    def unknown(self, one: Nowhere) -> TimedActionEffect:  # type: ignore[name-defined]  # noqa: F821
        return self.effects.done()

    def context(self) -> TimedActionEffect:  # type: ignore[override]
        return self.effects.done()


@component("empty")
class Empty(TimedAction):
    def helper(self) -> int:
        return 1


@component("greenroom-timers")
class Reserved(Base):
    pass


class Nameless(Base):
    pass


@component("both")
class Both(Base, KeyValueEntity[int]):  # type: ignore[misc]
    pass


@component("greedy")
class Greedy(KeyValueEntity[int]):
    def __init__(self, timers: TimerScheduler) -> None:
        pass

    def empty_state(self) -> int:
        return 0

    def put(self) -> Effect[None]:
        return self.effects.update_state(1).then_reply(None)


BREACHES = [
    "Bad.__init__: untyped has no type, so nobody knows what to give it",
    "Bad.__init__: who is an EntityContext, but a timed action is no instance of anything",
    "Bad.inherited overrides an action without saying what it returns; annotate it too",
    "Bad.optional must return a TimedActionEffect, not",
    "Bad.tool has @function_tool; only timers call timed actions",
    "Bad.static is a static or class method; an action takes self",
    "Bad.untyped: one has no type annotation",
    "Bad.untyped takes *rest; name every parameter instead",
    "Bad.default: one can't be 'x' by default",
    "Bad.unknown: the annotations mention 'Nowhere', which is unknown there",
    "Bad.context hides an attribute of the base class; rename the action",
    "Empty has no actions: public methods that return a TimedActionEffect",
    "Reserved: the component id 'greenroom-timers' is greenroom's own; choose another",
    'Nameless has no @component("its-id")',
    "Both is KeyValueEntity and TimedAction at once; be one of them",
    "Greedy.__init__ asks for a TimerScheduler; entities compute and call nobody",
]


def test_every_breach_of_every_class_is_told_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        define_all([Good, Bad, Empty, Reserved, Nameless, Both, Greedy])

    told = list(caught.value.problems)
    for expected in BREACHES:
        found = [one for one in told if one.startswith(expected)]
        assert found, (expected, told)
        told.remove(found[0])
    assert told == []


def a_context(metadata: Metadata) -> CommandContext:
    fields: dict[str, Any] = {"entity_id": "e", "command_name": "c", "sequence_number": 1}
    return CommandContext(
        **fields,
        is_deleted=False,
        now=datetime(2030, 1, 1, tzinfo=UTC),
        metadata=metadata,
        principal=None,
        idempotency_key=None,
        correlation_id="",
    )


def test_a_command_knows_which_timer_it_comes_from() -> None:
    due = datetime(2030, 1, 1, 12, tzinfo=UTC)
    sent = Metadata([(TIMER_KEY, "t"), (DUE_AT_KEY, due.isoformat())])

    context = a_context(sent)
    assert (context.timer, context.due_at) == ("t", due)
    nobody = a_context(Metadata.EMPTY)
    assert (nobody.timer, nobody.due_at) == (None, None)
