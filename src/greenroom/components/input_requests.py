"""What a tool may ask the client for in the middle of a call: a form, a page, a model, roots.

Nothing waits for the answer on the server. The call ends with what is needed; the client sends
it again together with the answers, and the method runs once more from its beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, TypeAdapter

from greenroom.components._tidy import tidy

A_co = TypeVar("A_co", covariant=True)
M = TypeVar("M", bound=BaseModel)


class InputRequest(Protocol[A_co]):
    """One question to the client."""

    @property
    def capability(self) -> Mapping[str, Any]:
        """What the client must have declared."""
        ...

    def as_request(self) -> dict[str, Any]:
        """The question as the protocol writes it."""
        ...

    def read(self, response: Mapping[str, Any]) -> A_co:
        """The answer; raises ValueError when it is none, and then it is asked for again."""
        ...


@dataclass(frozen=True, slots=True)
class FormAnswer(Generic[M]):
    """What a person did with a form."""

    action: Literal["accept", "decline", "cancel"]
    content: M | None
    """What was filled in, when it was accepted."""


@dataclass(frozen=True, slots=True)
class AskForm(Generic[M]):
    """Asks the person at the client to fill in a form.

    Args:
        message: What it is for.
        form: The fields: a model with text, numbers, booleans and enumerations.

    Example:
        >>> class Who(BaseModel):
        ...     name: str
        >>> AskForm("Who are you?", Who).capability
        {'elicitation': {'form': {}}}
    """

    message: str
    form: type[M]

    @property
    def capability(self) -> Mapping[str, Any]:
        """Elicitation by form."""
        return {"elicitation": {"form": {}}}

    def as_request(self) -> dict[str, Any]:
        """`elicitation/create` in form mode."""
        schema = tidy(self.form.model_json_schema(), self.form.__name__, output=False)
        asked = {
            "type": "object",
            "properties": schema.get("properties", {}),
            "required": schema.get("required", []),
        }
        params = {"mode": "form", "message": self.message, "requestedSchema": asked}
        return {"method": "elicitation/create", "params": params}

    def read(self, response: Mapping[str, Any]) -> FormAnswer[M]:
        """The form as a model."""
        action = _action_of(response)
        if action != "accept":
            return FormAnswer(action, None)
        return FormAnswer(action, self.form.model_validate(response.get("content")))


@dataclass(frozen=True, slots=True)
class AskPage:
    """Asks the person at the client to open a web page; answers with what they did about it."""

    message: str
    url: str
    elicitation_id: str

    @property
    def capability(self) -> Mapping[str, Any]:
        """Elicitation by URL."""
        return {"elicitation": {"url": {}}}

    def as_request(self) -> dict[str, Any]:
        """`elicitation/create` in URL mode."""
        params = {
            "mode": "url",
            "message": self.message,
            "url": self.url,
            "elicitationId": self.elicitation_id,
        }
        return {"method": "elicitation/create", "params": params}

    def read(self, response: Mapping[str, Any]) -> Literal["accept", "decline", "cancel"]:
        """What was done."""
        return _action_of(response)


@dataclass(frozen=True, slots=True)
class AskModel:
    """Asks the client's model; answers with its text."""

    prompt: str
    max_tokens: int = 1000
    system_prompt: str | None = None

    @property
    def capability(self) -> Mapping[str, Any]:
        """Sampling."""
        return {"sampling": {}}

    def as_request(self) -> dict[str, Any]:
        """`sampling/createMessage`."""
        content = {"type": "text", "text": self.prompt}
        params: dict[str, Any] = {
            "messages": [{"role": "user", "content": content}],
            "maxTokens": self.max_tokens,
        }
        if self.system_prompt is not None:
            params["systemPrompt"] = self.system_prompt
        return {"method": "sampling/createMessage", "params": params}

    def read(self, response: Mapping[str, Any]) -> str:
        """The text of the model's message."""
        content = response.get("content")
        blocks = content if isinstance(content, list) else [content]
        texts = [one["text"] for one in blocks if isinstance(one, dict) and "text" in one]
        if not texts:
            message = "the model's answer has no text"
            raise ValueError(message)
        return "".join(map(str, texts))


@dataclass(frozen=True, slots=True)
class AskRoots:
    """Asks which folders the client works in; answers with their URIs."""

    @property
    def capability(self) -> Mapping[str, Any]:
        """Roots."""
        return {"roots": {}}

    def as_request(self) -> dict[str, Any]:
        """`roots/list`."""
        return {"method": "roots/list", "params": {}}

    def read(self, response: Mapping[str, Any]) -> list[str]:
        """The URIs."""
        return [one["uri"] for one in _ROOTS.validate_python(response.get("roots"))]


def has_capability(declared: Mapping[str, Any], name: str, parts: Mapping[str, Any]) -> bool:
    """Whether a client has declared a capability with the parts that are needed."""
    found = declared.get(name)
    if not isinstance(found, Mapping):
        return False
    # Clients that declare elicitation and say no more can do forms.
    return all(part in found or (part == "form" and not found) for part in parts)


_ROOTS: TypeAdapter[list[dict[str, Any]]] = TypeAdapter(list[dict[str, Any]])


def _action_of(response: Mapping[str, Any]) -> Literal["accept", "decline", "cancel"]:
    action = response.get("action")
    if action not in ("accept", "decline", "cancel"):
        message = f"the action {action!r} is none of accept, decline and cancel"
        raise ValueError(message)
    return action  # type: ignore[no-any-return]


class InputNeededError(Exception):
    """Ends a call that can't go on without answers; let it pass.

    It is not a failure, and no `GreenroomError`: the client sends the call again with answers.
    """

    def __init__(self, requests: Mapping[str, InputRequest[Any]]) -> None:
        self.requests = dict(requests)
        super().__init__(f"The client must answer first: {', '.join(requests)}")


class MissingCapabilityError(Exception):
    """Ends a call of a client that has not declared what the call needs; let it pass."""

    def __init__(self, required: Mapping[str, Any]) -> None:
        self.required = dict(required)
        super().__init__(f"The client must be able to do: {', '.join(required)}")
