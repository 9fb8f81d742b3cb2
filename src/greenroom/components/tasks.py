"""Tools of workflows as tasks: what a client is given to come back to while the work goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from greenroom.components.input_requests import AskForm
from greenroom.components.step import check_duration


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """How a command that starts a workflow is offered as a task.

    Args:
        result: The name of the read-only handler whose reply is the task's result, when the
            workflow has ended. It takes no parameters. What it declines, with
            `effects.error(...)`, is the result of a tool that failed.
        questions: The name of the read-only handler that answers with what is asked of the
            person at the client while the workflow is paused: `dict[str, TaskQuestion]`. A key
            is never used for two questions.
        answer: The name of the command that takes an answer: the key, and what was filled in,
            None where the person declined.
        required: Whether clients that know no tasks are refused. By default they get the reply
            of the command.
        poll_interval: How long a client should wait before it asks again.

    Example:
        >>> TaskSettings(result="receipt").poll_interval
        datetime.timedelta(seconds=1)
    """

    result: str
    questions: str | None = None
    answer: str | None = None
    required: bool = False
    poll_interval: timedelta = timedelta(seconds=1)

    def __post_init__(self) -> None:
        check_duration("poll_interval", self.poll_interval)
        if (self.questions is None) != (self.answer is None):
            message = "questions= and answer= belong together; give both or neither"
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class TaskQuestion:
    """What a paused workflow asks the person at the client; made by `TaskQuestion.of`."""

    message: str
    fields: dict[str, Any]
    """The JSON Schema of the form."""

    @classmethod
    def of(cls, message: str, form: type[BaseModel]) -> TaskQuestion:
        """A question with a form.

        Args:
            message: What it is for.
            form: The fields: a model with text, numbers, booleans and enumerations.

        Example:
            >>> class Consent(BaseModel):
            ...     approve: bool
            >>> TaskQuestion.of("May it be paid?", Consent).fields["required"]
            ['approve']
        """
        asked = AskForm(message, form).as_request()
        return cls(message, asked["params"]["requestedSchema"])

    def as_request(self) -> dict[str, Any]:
        """The question as the protocol writes it."""
        params = {"mode": "form", "message": self.message, "requestedSchema": self.fields}
        return {"method": "elicitation/create", "params": params}
