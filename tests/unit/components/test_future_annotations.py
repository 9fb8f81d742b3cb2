"""With annotations as text, in a module and in a function."""

from __future__ import annotations

from pydantic import BaseModel

from greenroom import Effect, EventSourcedEntity, ReadOnlyEffect, component, type_name
from greenroom.components import define


def test_names_that_are_local_to_a_function_are_found() -> None:
    @type_name("future-event")
    class Happened(BaseModel):
        text: str

    @component("future")
    class Future(EventSourcedEntity["int", "Happened"]):
        """Written with annotations as text."""

        class Answer(BaseModel):
            number: int

        def say(self, happened: Happened) -> Effect[Happened]: ...

        def answer(self) -> ReadOnlyEffect[Answer]: ...

        def itself(self) -> ReadOnlyEffect[list[Later]]: ...

        def apply_event(self, event: Happened) -> int: ...

    found = define(Future)
    assert found.handlers["say"].reply_type is Happened
    assert found.handlers["answer"].reply_type is Future.Answer
    assert found.event_types == (Happened,)
    assert found.handlers["itself"].reply_type == list[Later]


class Later(BaseModel):
    text: str
