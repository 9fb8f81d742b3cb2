"""Components that several suites use: a counter with every kind of behaviour, and a profile."""

from datetime import timedelta
from typing import Annotated

from pydantic import BaseModel, Field

from greenroom import (
    CommandError,
    Effect,
    EventSourcedEntity,
    KeyValueEntity,
    Metadata,
    ReadOnlyEffect,
    WithMetadata,
    component,
    function_tool,
    type_name,
)


@type_name("counter")
class Count(BaseModel, frozen=True):
    """How far a counter has come."""

    total: int = 0
    notes: tuple[str, ...] = ()


@type_name("increased")
class Increased(BaseModel, frozen=True):
    """The counter went up."""

    by: int


@type_name("noted")
class Noted(BaseModel, frozen=True):
    """Somebody left a note."""

    text: str


CounterEvent = Increased | Noted


class TooMuchError(CommandError):
    """The counter will not go so high."""

    code = "too-much"

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"The counter ends at {limit}.")


ran_after: list[int] = []
"""Totals that `increase_and_run` saw after its events were durable."""


@component("counter")
class Counter(EventSourcedEntity[Count, CounterEvent]):
    """Counts, and fails in every way there is."""

    def empty_state(self) -> Count:
        return Count()

    @function_tool(description="Increases the counter.")
    def increase(
        self, by: Annotated[int, Field(gt=0, description="By how much")] = 1
    ) -> Effect[int]:
        if self.state.total + by > 1_000_000:
            raise TooMuchError(1_000_000)
        return self.effects.persist(Increased(by=by)).then_reply(lambda count: count.total)

    def increase_twice(self, by: int) -> Effect[int]:
        event = Increased(by=by)
        return self.effects.persist(event, event).then_reply(lambda count: count.total)

    def increase_and_run(self, by: int) -> Effect[int]:
        return (
            self.effects.persist(Increased(by=by))
            .then_run(lambda count: ran_after.append(count.total))
            .then_reply(lambda count: count.total)
        )

    def increase_and_break(self, by: int) -> Effect[int]:
        def broken(_count: Count) -> int:
            raise RuntimeError("broken on purpose")

        return self.effects.persist(Increased(by=by)).then_reply(broken)

    def increase_and_decline(self, by: int) -> Effect[int]:
        def declined(_count: Count) -> int:
            raise TooMuchError(0)

        return self.effects.persist(Increased(by=by)).then_reply(declined)

    def note(self, text: str) -> Effect[int]:
        noted = WithMetadata(Noted(text=text), Metadata((("colour", "green"),)))
        return self.effects.persist(noted).then_reply(lambda count: len(count.notes))

    def nothing(self) -> Effect[int]:
        return self.effects.persist_all([]).then_reply(lambda count: count.total)

    def keep_for(self, seconds: float) -> Effect[int]:
        return (
            self.effects.persist(Increased(by=1))
            .expire_after(timedelta(seconds=seconds))
            .then_reply(lambda count: count.total)
        )

    def delete(self) -> Effect[str]:
        return self.effects.persist_all([]).delete_entity().then_reply(lambda _count: "deleted")

    @function_tool(description="Returns the counter.")
    def get(self) -> ReadOnlyEffect[Count]:
        return self.effects.reply(self.state)

    def read_and_write(self) -> ReadOnlyEffect[int]:
        return self.effects.persist(Increased(by=1)).then_reply(  # type: ignore[return-value]
            lambda count: count.total
        )

    def total(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.state.total)

    def whether_deleted(self) -> ReadOnlyEffect[bool]:
        return self.effects.reply(self.is_deleted)

    def version(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.command_context.sequence_number)

    def colour(self) -> ReadOnlyEffect[str]:
        return self.effects.reply(self.command_context.metadata.get("colour") or "none")

    def crash(self) -> Effect[int]:
        raise RuntimeError("crashed on purpose")

    def leave(self) -> Effect[int]:
        raise SystemExit(3)

    def decline(self) -> Effect[int]:
        return self.effects.error("Declined on purpose.")

    def apply_event(self, event: CounterEvent) -> Count:
        match event:
            case Increased(by=by):
                return self.state.model_copy(update={"total": self.state.total + by})
            case Noted(text=text):
                return self.state.model_copy(update={"notes": (*self.state.notes, text)})


@type_name("profile")
class Profile(BaseModel):
    """What is known of somebody; mutable on purpose."""

    name: str = ""
    tags: list[str] = Field(default_factory=list)


@component("profile")
class ProfileEntity(KeyValueEntity[Profile]):
    """Somebody's profile."""

    def empty_state(self) -> Profile:
        return Profile()

    @function_tool(description="Sets the name.")
    def rename(self, name: str) -> Effect[Profile]:
        changed = self.state.model_copy(update={"name": name})
        return self.effects.update_state(changed).then_reply(changed)

    def replace(self, profile: Profile) -> Effect[None]:
        return self.effects.update_state(profile).then_reply(None)

    def keep_for(self, seconds: float) -> Effect[str]:
        return (
            self.effects.update_state(self.state)
            .expire_after(timedelta(seconds=seconds))
            .then_reply("kept")
        )

    def delete(self) -> Effect[str]:
        return self.effects.delete_entity().then_reply("deleted")

    def decline(self) -> Effect[str]:
        return self.effects.error("Declined on purpose.")

    @function_tool(description="Returns the profile.")
    def get(self) -> ReadOnlyEffect[Profile]:
        return self.effects.reply(self.state)

    def whether_deleted(self) -> ReadOnlyEffect[bool]:
        return self.effects.reply(self.is_deleted)
