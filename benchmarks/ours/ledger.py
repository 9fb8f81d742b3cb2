"""The entity that is measured: events of about 200 bytes, and a state that stays small."""

from __future__ import annotations

from pydantic import BaseModel

from greenroom import (
    Effect,
    EventSourcedEntity,
    ReadOnlyEffect,
    component,
    function_tool,
    type_name,
)


@type_name("ledger")
class Ledger(BaseModel, frozen=True):
    """How much was recorded."""

    entries: int = 0


@type_name("entry-recorded")
class EntryRecorded(BaseModel, frozen=True):
    """Something was recorded."""

    text: str


@component("ledger")
class LedgerEntity(EventSourcedEntity[Ledger, EntryRecorded]):
    """A ledger, to which lines are added."""

    def empty_state(self) -> Ledger:
        return Ledger()

    @function_tool(description="Adds a line.")
    def record(self, text: str) -> Effect[int]:
        return self.effects.persist(EntryRecorded(text=text)).then_reply(lambda now: now.entries)

    def record_often(self, text: str, times: int) -> Effect[int]:
        events = [EntryRecorded(text=text)] * times
        return self.effects.persist_all(events).then_reply(lambda now: now.entries)

    @function_tool(description="Adds two numbers.")
    def add(self, a: int, b: int) -> ReadOnlyEffect[int]:
        return self.effects.reply(a + b)

    def entries(self) -> ReadOnlyEffect[int]:
        return self.effects.reply(self.state.entries)

    def apply_event(self, event: EntryRecorded) -> Ledger:  # noqa: ARG002 - counting is enough
        return Ledger(entries=self.state.entries + 1)
