"""Every exception a caller of greenroom may catch, drawn as a tree first.

    GreenroomError
    ├── CommandError                  the component understood the command and declined it
    │   ├── ToolError                 the same, raised by a tool that is not a component
    │   └── ResourceNotFoundError     there is nothing at the URI that was read
    ├── DefinitionError               component classes are written wrongly; lists every breach
    ├── ConfigurationError            a setting is wrong, or two of them contradict each other
    ├── CallError                     a call did not get its answer
    │   ├── InvalidCallError          the call itself is wrong; nothing was done
    │   │   ├── InvalidIdError
    │   │   ├── UnknownComponentError
    │   │   ├── UnknownHandlerError
    │   │   ├── InvalidArgumentsError
    │   │   ├── IdempotencyKeyReusedError
    │   │   ├── AccessDeniedError     the caller may not do this
    │   │   └── PayloadTooLargeError
    │   ├── EntityDeletedError        the instance takes no more writes
    │   ├── VersionMismatchError      the instance is not at the version the caller expected
    │   ├── TransitionNotAllowedError the workflow is over and goes nowhere any more
    │   ├── WorkflowSuspendedError    the workflow is suspended until somebody resumes it
    │   ├── EntityUnavailableError    the command was not carried out (retryable)
    │   │   └── OverloadedError       the mailbox is full (retryable)
    │   ├── CallTimeoutError          no answer in time; the command may still be carried out
    │   ├── BlockingCallError         a blocking call where it would stop others
    │   ├── ReentrantCallError        the call would wait for itself
    │   ├── HandlerError              the handler raised something it did not mean to
    │   └── RuntimeStoppedError       the runtime is not running
    ├── PersistenceError              the database could not do what was asked
    │   ├── ConcurrentWriteError      someone else wrote to the instance first (retryable)
    │   ├── NotOwnerError             this process lost its slices; nothing was written (retryable)
    │   ├── StoreUnavailableError     no connection, or lost before the commit (retryable)
    │   ├── CommitUnknownError        the connection broke and the database can't be asked
    │   ├── StoreReadOnlyError
    │   ├── StoreFullError
    │   ├── StoreInUseError           another process owns this database file
    │   ├── UnreadableRecordError     the stored text and the code disagree
    │   ├── RecoveryError             state could not be rebuilt from what is stored
    │   └── SchemaError               the database is not at this version's migration
    ├── StepTimeoutError              an attempt of a step ran past its timeout
    ├── StepCancelledError            nobody waits for this step any more
    └── InternalError                 a bug in greenroom itself

`code` is permanent: clients and log queries match on it. `retryable` means that nothing was
done, so the call may be made again. Only the text of a `CommandError` reaches callers and
models unchanged; what else goes out is decided by the two edges (`mcp` and `web`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar


class GreenroomError(Exception):
    """The root of everything greenroom raises on purpose."""

    code: ClassVar[str] = "greenroom"
    retryable: ClassVar[bool] = False

    def __reduce__(self) -> tuple[Any, ...]:
        # An error travels between threads and processes with its parts and its message,
        # whatever its constructor asks for.
        return (_rebuild, (type(self), self.args, dict(self.__dict__)))


def _rebuild(
    kind: type[GreenroomError], args: tuple[Any, ...], parts: dict[str, Any]
) -> GreenroomError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(parts)
    return error


class CommandError(GreenroomError):
    """The component understood the command and declined it.

    Applications raise it, return it with `effects.error(...)`, and subclass it. Its text is
    the only error text that reaches callers, MCP clients and models unchanged.

    Example:
        >>> class CartClosedError(CommandError):
        ...     code = "cart-closed"
        >>> str(CartClosedError("The cart is already checked out."))
        'The cart is already checked out.'
    """

    code = "declined"


class ToolError(CommandError):
    """Raised by a tool to tell the model what went wrong and what it may try instead."""

    code = "tool-failed"


class ResourceNotFoundError(CommandError):
    """Raised by a resource of an MCP endpoint when there is nothing at the URI that was read.

    Example:
        >>> str(ResourceNotFoundError("There is no cart c-1."))
        'There is no cart c-1.'
    """

    code = "resource-not-found"


class DefinitionError(GreenroomError):
    """Components, tools or endpoints of a service are written wrongly.

    Attributes:
        problems: One line per breach, each naming the class and the method.
    """

    code = "definition"

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"{len(self.problems)} problem(s) in the definition:\n{lines}")


class ConfigurationError(GreenroomError):
    """A setting is wrong; the message names it and the remedy."""

    code = "configuration"


class CallError(GreenroomError):
    """A call to a component did not get its answer."""

    code = "call"


class InvalidCallError(CallError):
    """The call itself is wrong. Nothing was done, and the same call will fail again."""

    code = "invalid-call"


class InvalidIdError(InvalidCallError):
    """A component id or instance id that can't be one."""

    code = "invalid-id"


class UnknownComponentError(InvalidCallError):
    """The service has no such component."""

    code = "unknown-component"

    def __init__(self, component: str, known: Sequence[str] = ()) -> None:
        self.component = component
        self.known = tuple(known)
        listing = ", ".join(self.known) or "none"
        super().__init__(
            f"This service has no component {component!r}; it has: {listing}. "
            "Add the class to Service(components=[...])."
        )


class UnknownHandlerError(InvalidCallError):
    """The component has no such command handler."""

    code = "unknown-handler"

    def __init__(self, component: str, handler: str, known: Sequence[str] = ()) -> None:
        self.component = component
        self.handler = handler
        self.known = tuple(known)
        super().__init__(
            f"Component {component!r} has no command handler {handler!r}; "
            f"it has: {', '.join(self.known) or 'none'}."
        )


class InvalidArgumentsError(InvalidCallError):
    """The arguments of a call do not fit the handler's parameters.

    Attributes:
        target: What was called, as `component.handler` or a tool's name.
        problems: One line per parameter, naming it.
    """

    code = "invalid-arguments"

    def __init__(self, target: str, problems: Sequence[str]) -> None:
        self.target = target
        self.problems = tuple(problems)
        super().__init__(f"Invalid arguments for {target}: {'; '.join(self.problems)}")


class IdempotencyKeyReusedError(InvalidCallError):
    """An idempotency key came again with another handler, caller or other arguments."""

    code = "idempotency-key-reused"

    def __init__(self, ref: object, key: str) -> None:
        self.ref = ref
        self.key = key
        super().__init__(
            f"Idempotency key {key!r} was already used on {ref} for a different call; "
            "use a new key for a new command."
        )


class AccessDeniedError(InvalidCallError):
    """The caller may not do this. Nothing was done; its text is for the caller."""

    code = "access-denied"


class PayloadTooLargeError(InvalidCallError):
    """Something to be stored or sent is over its size limit. Nothing was stored."""

    code = "payload-too-large"

    def __init__(self, what: str, *, size: int, limit: int, setting: str) -> None:
        self.what = what
        self.size = size
        self.limit = limit
        self.setting = setting
        super().__init__(
            f"{what} is {size:,} bytes; the limit is {limit:,}. "
            f"Store large content elsewhere and keep a reference, or raise {setting}."
        )


class EntityDeletedError(CallError):
    """The instance was deleted; it takes no more writes until it has been cleaned up."""

    code = "deleted"

    def __init__(self, ref: object) -> None:
        self.ref = ref
        super().__init__(f"{ref} was deleted and takes no more writes.")


class VersionMismatchError(CallError):
    """The instance is not at the version that the caller expected. Nothing was done."""

    code = "version-mismatch"

    def __init__(self, ref: object, *, expected: int, actual: int) -> None:
        self.ref = ref
        self.expected = expected
        self.actual = actual
        super().__init__(f"{ref} is at version {actual}, not {expected}; read it and try again.")


class TransitionNotAllowedError(CallError):
    """The workflow is over; a command can't start it again. Nothing was done."""

    code = "transition-not-allowed"

    def __init__(self, ref: object, *, status: str, reason: str | None) -> None:
        self.ref = ref
        self.status = status
        self.reason = reason
        because = "" if reason is None else f" ({reason})"
        super().__init__(
            f"Transition not allowed: {ref} is {status}{because}. Use another id to start anew."
        )


class WorkflowSuspendedError(CallError):
    """The workflow is suspended and takes no commands that change it. Nothing was done."""

    code = "suspended"

    def __init__(self, ref: object, *, reason: str | None) -> None:
        self.ref = ref
        self.reason = reason
        because = "" if reason is None else f" ({reason})"
        super().__init__(f"{ref} is suspended{because}; resume it first.")


class EntityUnavailableError(CallError):
    """The command was not carried out; it may be sent again."""

    code = "unavailable"
    retryable = True


class OverloadedError(EntityUnavailableError):
    """The mailbox of the instance is full. Nothing was done; try again later."""

    code = "overloaded"

    def __init__(self, ref: object, *, limit: int) -> None:
        self.ref = ref
        self.limit = limit
        super().__init__(f"{ref} has {limit:,} commands waiting; try again later.")


class CallTimeoutError(CallError):
    """No answer came in time. The command may still be carried out, or has been.

    You don't get this error when the command was never delivered; that is
    `EntityUnavailableError`, and only that one is safe to repeat blindly. With an
    idempotency key, repeating is safe here too.

    Attributes:
        carried_out: Whether the command is known to have been carried out, too late: its handler
            held the caller's own thread for longer than the caller would wait.
    """

    code = "timeout"

    def __init__(
        self, ref: object, handler: str, *, seconds: float, carried_out: bool = False
    ) -> None:
        self.ref = ref
        self.handler = handler
        self.seconds = seconds
        self.carried_out = carried_out
        what = "it was carried out later" if carried_out else "it may still be carried out"
        super().__init__(
            f"No answer from {ref}.{handler} within {seconds:g} s; {what}. "
            "Repeat it with the same idempotency key, or read the state first."
        )


class BlockingCallError(CallError):
    """A blocking call on an event loop or inside an entity handler, where it stops others."""

    code = "blocking-call"


class ReentrantCallError(CallError):
    """The call would wait for a command that waits for the call."""

    code = "reentrant-call"


class HandlerError(CallError):
    """The handler raised something it did not mean to. The instance was recovered.

    The exception itself is in the log under `correlation_id`; it never reaches a caller.
    """

    code = "handler-failed"

    def __init__(self, target: str, correlation_id: str) -> None:
        self.target = target
        self.correlation_id = correlation_id
        super().__init__(f"{target} failed unexpectedly; see the log for {correlation_id}.")


class RuntimeStoppedError(CallError):
    """The runtime was not started, or is stopping. Nothing was done."""

    code = "stopped"


class PersistenceError(GreenroomError):
    """The database could not do what was asked."""

    code = "persistence"


class ConcurrentWriteError(PersistenceError):
    """Someone else wrote to this instance first."""

    code = "concurrent-write"
    retryable = True

    def __init__(self, ref: object, *, expected: int) -> None:
        self.ref = ref
        self.expected = expected
        super().__init__(f"{ref} is no longer at {expected}.")


class NotOwnerError(PersistenceError):
    """This process lost its slices to another owner; nothing was written."""

    code = "not-owner"
    retryable = True


class StoreUnavailableError(PersistenceError):
    """The database can't be reached, or was lost before the commit; nothing was written."""

    code = "store-unavailable"
    retryable = True


class CommitUnknownError(PersistenceError):
    """The connection broke during the commit and the database can't be asked what it did.

    It may have been written. Only a call with an idempotency key may be repeated.
    """

    code = "commit-unknown"


class StoreReadOnlyError(PersistenceError):
    """The database can be read but not written; nothing was written."""

    code = "store-read-only"


class StoreFullError(PersistenceError):
    """The database or its disk is full; nothing was written."""

    code = "store-full"


class StoreInUseError(PersistenceError):
    """Another process owns this database file; a SQLite file has one owner at a time."""

    code = "store-in-use"


class UnreadableRecordError(PersistenceError):
    """A stored record and the code disagree: unknown type name, version, or shape."""

    code = "unreadable-record"


class RecoveryError(PersistenceError):
    """The state of an instance could not be rebuilt from what is stored."""

    code = "recovery"


class SchemaError(PersistenceError):
    """The database is not at this version's migration."""

    code = "schema"


class StepTimeoutError(GreenroomError, TimeoutError):
    """An attempt of a step ran past its timeout; to a `Retry` it is a `TimeoutError` too."""

    code = "step-timeout"

    def __init__(self, step: str, *, seconds: float) -> None:
        self.step = step
        self.seconds = seconds
        super().__init__(f"Step {step} took longer than {seconds:g} s.")


class StepCancelledError(GreenroomError):
    """Raised into a step that asks whether anybody still waits for it, and nobody does."""

    code = "step-cancelled"

    def __init__(self) -> None:
        super().__init__("Nobody waits for this step any more; its result is thrown away.")


class InternalError(GreenroomError):
    """A bug in greenroom itself; please report it."""

    code = "internal"
