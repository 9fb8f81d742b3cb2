"""What every workflow answers to from outside, beside its own handlers."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn

from greenroom.components._parameters import read_parameter
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.type_names import type_name

Status = Literal[
    "not-started", "running", "retrying", "paused", "ended", "failed", "terminated", "deleted"
]

SUSPEND, RESUME, TERMINATE = "$suspend", "$resume", "$terminate"
STATUS, OUTCOME = "$status", "$outcome"


@dataclass(frozen=True, slots=True)
class WorkflowStatus:
    """Where a workflow stands."""

    status: Status
    suspended: bool = False
    reason: str | None = None
    """Why it is suspended, paused or over."""
    steps: tuple[str, ...] = ()
    """What runs, or will run next."""
    attempt: int = 0
    """Of the step; 1 for the first."""
    last_error: str | None = None
    next_at: datetime | None = None
    """When it next does something by itself: a retry, a timeout."""
    deadline: datetime | None = None
    """When its time is up, if `WorkflowSettings.timeout` was given."""


@type_name("greenroom.child-outcome")
@dataclass(frozen=True, slots=True)
class ChildOutcome:
    """How a child workflow ended."""

    workflow_id: str
    status: str
    """`ended`, `failed`, `terminated` or `deleted`."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of a workflow's history."""

    sequence_number: int
    timestamp: datetime
    """When it was stored."""
    cause: str
    """`command`, `step`, `attempt`, `branch`, `pause-timeout`, `timeout`, `suspend`, `resume`,
    `terminate`, `expiry`, `children`."""
    name: str
    """Of the handler or step."""
    status: str
    """Where the workflow stood afterwards."""
    steps: tuple[str, ...] = ()
    """What was to run next."""
    attempt: int | None = None
    started_at: datetime | None = None
    duration: timedelta | None = None
    """Of the step's attempt."""
    error: str | None = None
    reason: str | None = None


def operations(component_id: str) -> dict[str, HandlerDefinition]:
    """The operations of a workflow, as handlers that go the way of every call."""

    def reason(reason: str | None = None) -> None: ...
    def nothing() -> None: ...

    made = (
        _operation(component_id, SUSPEND, reason, None, read_only=False),
        _operation(component_id, RESUME, nothing, None, read_only=False),
        _operation(component_id, TERMINATE, reason, None, read_only=False),
        _operation(component_id, STATUS, nothing, WorkflowStatus, read_only=True),
        _operation(component_id, OUTCOME, nothing, ChildOutcome, read_only=True),
    )
    return {one.name: one for one in made}


def _operation(
    component_id: str, name: str, shape: Any, reply_type: Any, *, read_only: bool
) -> HandlerDefinition:
    parameters = inspect.signature(shape, eval_str=True).parameters.values()
    return HandlerDefinition(
        component=component_id,
        name=name,
        function=_never_called,
        read_only=read_only,
        description="",
        parameters=tuple(read_parameter(one, one.annotation, {}) for one in parameters),
        reply_type=type(None) if reply_type is None else reply_type,
    )


def _never_called(*_args: object) -> NoReturn:
    """Operations are carried out by the actor itself."""
    raise NotImplementedError
