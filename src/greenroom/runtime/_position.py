"""Where a workflow stands: what is stored beside its state, and read back after a crash."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import TypeAdapter

from greenroom.persistence import Encoded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from greenroom.components import StepDefinition
    from greenroom.persistence import Codec, StoredRecord

StoredStatus = Literal["not-started", "running", "paused", "ended", "failed", "terminated"]
OVER: frozenset[str] = frozenset(("ended", "failed", "terminated"))
CHILDREN = "$children"
"""Stands for a step while children that are no longer waited for are told so."""


@dataclass(frozen=True, slots=True)
class StoredValue:
    """An encoded value, as JSON within JSON."""

    type: str
    version: int
    json: str

    @classmethod
    def of(cls, encoded: Encoded) -> StoredValue:
        """As it goes into the journal."""
        return cls(encoded.type_name, encoded.version, encoded.payload.decode())

    def encoded(self) -> Encoded:
        """As the codec takes it."""
        return Encoded(self.type, self.version, self.json.encode())


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A step with its input."""

    step: str
    input: dict[str, StoredValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredCommand:
    """A command to an instance: of this workflow when a pause runs out, or that starts a child."""

    component: str
    instance: str
    handler: str
    arguments: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class StoredPause:
    """What is waited for, and until when."""

    until: int | None = None
    on_timeout: StoredCommand | None = None


@dataclass(frozen=True, slots=True)
class StoredBranch:
    """One of several things that run beside each other: a step or a child workflow."""

    step: StoredCall | None = None
    child: StoredCommand | None = None


@dataclass(frozen=True, slots=True)
class StoredFanOut:
    """The branches, and the step that gets their results."""

    branches: tuple[StoredBranch, ...]
    then: str
    max_concurrency: int | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a workflow goes from here. Stored whole with every transition."""

    status: StoredStatus = "not-started"
    number: int = 0
    """Names the run of the current step, for the keys of its calls: the sequence number of the
    transition that led to it."""
    step: StoredCall | None = None
    fan_out: StoredFanOut | None = None
    pause: StoredPause | None = None
    reason: str | None = None
    """Why it is paused or over."""
    suspended: bool = False
    suspended_because: str | None = None
    deadline: int | None = None
    """When the whole workflow runs out of time."""
    timed_out: bool = False
    """The workflow ran out of time: the step that runs is the last one."""
    compensations: tuple[StoredCall, ...] = ()
    """Recorded, the latest last."""
    compensating: bool = False
    after: StoredCall | None = None
    """The step after the last compensation."""
    children: tuple[tuple[str, str], ...] = ()
    """Children that are no longer waited for, and are still to be told so."""
    delete_at: int | None = None
    correlation: str | None = None
    traceparent: str | None = None
    principal: str | None = None
    """Of the command that started it: what its steps call is called on the same behalf."""

    @property
    def over(self) -> bool:
        """Whether it goes nowhere any more."""
        return self.status in OVER

    @property
    def marker(self) -> str | None:
        """What the head of the instance says it is in the middle of."""
        steps = (*self.steps, CHILDREN) if self.children else self.steps
        return ",".join(steps) or None

    @property
    def steps(self) -> tuple[str, ...]:
        """What runs now, or will when it is resumed."""
        if self.step is not None:
            return (self.step.step,)
        if self.fan_out is None:
            return ()
        named = [one.step.step for one in self.fan_out.branches if one.step is not None]
        return tuple(dict.fromkeys((*named, self.fan_out.then)))

    def pending_children(self, progress: Progress) -> tuple[tuple[str, str], ...]:
        """Children that have not come to their end."""
        if self.fan_out is None:
            return ()
        return tuple(
            (branch.child.component, branch.child.instance)
            for number, branch in enumerate(self.fan_out.branches)
            if branch.child is not None and not progress.has_result(number)
        )

    def complete(self, progress: Progress) -> bool:
        """Whether every branch has its result."""
        fan_out = self.fan_out
        return fan_out is not None and all(map(progress.has_result, range(len(fan_out.branches))))


@dataclass(slots=True)
class Attempts:
    """How often a step has failed in a row, and when it runs again."""

    failures: int = 0
    error: str | None = None
    retry_at: int | None = None


@dataclass(slots=True)
class BranchProgress(Attempts):
    """How far a branch has come."""

    result: StoredValue | None = None


@dataclass(slots=True)
class Progress(Attempts):
    """What has happened since the last transition; stored bit by bit."""

    branches: dict[int, BranchProgress] = field(default_factory=dict)
    pause_ran_out: bool = False

    def has_result(self, branch: int) -> bool:
        """Whether a branch is done."""
        one = self.branches.get(branch)
        return one is not None and one.result is not None

    def all(self) -> list[Attempts]:
        """Of the only step, and of every branch."""
        return [self, *self.branches.values()]

    def start_over(self) -> None:
        """Count the attempts anew, and make the next ones now."""
        for one in self.all():
            one.failures, one.retry_at = 0, None

    def of(self, branch: int | None) -> Any:
        """Of the only step, or of a branch."""
        if branch is None:
            return self
        return self.branches.setdefault(branch, BranchProgress())


_position: TypeAdapter[Position] = TypeAdapter(Position)
_progress: TypeAdapter[Progress] = TypeAdapter(Progress)
_EMPTY = Position()


def encode_transition(
    origin: Mapping[str, Any], position: Position, cause: Mapping[str, Any], *, progress: Any
) -> bytes:
    """What stands beside the state of a transition.

    Args:
        origin: What is kept of the call that caused it (see `_metadata`).
        position: Where the workflow goes from here.
        cause: What led here, for the history.
        progress: What is carried over from before, when the step did not change.
    """
    document = {
        **origin,
        "position": _position.dump_python(position, mode="json", exclude_defaults=True),
        "cause": cause,
    }
    if progress is not None:
        document["progress"] = _progress.dump_python(progress, mode="json", exclude_defaults=True)
    return orjson.dumps(document)


def encode_progress(
    origin: Mapping[str, Any], change: Mapping[str, Any], cause: Mapping[str, Any]
) -> bytes:
    """What is stored on the way to the next transition."""
    return orjson.dumps({**origin, "progress": change, "cause": cause})


def read_position(records: list[StoredRecord]) -> tuple[Position, Progress]:
    """Where a workflow stands, from its latest transition and the progress after it."""
    position, progress = _EMPTY, Progress()
    for record in records:
        if record.metadata is None:
            continue
        document = orjson.loads(record.metadata)
        if "position" in document:
            position = _position.validate_python(document["position"])
            progress = _progress.validate_python(document.get("progress", {}))
        elif "progress" in document:
            position = apply_progress(position, progress, document["progress"])
    return position, progress


def apply_progress(position: Position, progress: Progress, change: Mapping[str, Any]) -> Position:
    """Take one stored bit of progress into account; the same live and after a crash."""
    if "children_told" in change:
        return replace(position, children=())
    if "pause_ran_out" in change:
        progress.pause_ran_out = True
        return position
    one = progress.of(change.get("branch"))
    if "result" in change:
        one.result = StoredValue(**change["result"])
        one.retry_at = None
    else:
        one.failures = change["failures"]
        one.error = change["error"]
        one.retry_at = change["retry_at"]
    return position


def failure(branch: int | None, failures: int, error: str, retry_at: int) -> dict[str, Any]:
    """The bit of progress that an attempt which failed leaves behind."""
    change: dict[str, Any] = {"failures": failures, "error": error, "retry_at": retry_at}
    if branch is not None:
        change["branch"] = branch
    return change


def result_of(branch: int, value: StoredValue) -> dict[str, Any]:
    """The bit of progress that a branch which is done leaves behind."""
    return {"branch": branch, "result": asdict(value)}


def encode_input(
    codec: Codec, step: StepDefinition, given: Mapping[str, Any]
) -> dict[str, StoredValue]:
    """The input of a step as it is stored.

    Raises:
        TypeError: A value is of another type than its parameter, or
        ValueError: could not be read again.
    """
    stored = {}
    for one in step.parameters:
        if one.name in given:
            encoded = codec.encode(given[one.name], name=one.stored.name)
            stored[one.name] = StoredValue.of(encoded)
    return stored


def decode_input(codec: Codec, step: StepDefinition, stored: StoredCall) -> dict[str, Any]:
    """The input of a step, upcast from older versions.

    Raises:
        UnreadableRecordError: It does not fit the code any more.
    """
    known = {one.name for one in step.parameters}
    return {
        name: codec.decode(value.encoded()) for name, value in stored.input.items() if name in known
    }
