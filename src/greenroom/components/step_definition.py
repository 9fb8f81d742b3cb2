"""What is known of one step of a workflow: its input, its result, how it fails."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from greenroom.components.step import MethodCall, Retry
from greenroom.components.type_names import StoredTypeInfo


@dataclass(frozen=True, slots=True)
class StepParameter:
    """One parameter of a step, and the type its values are stored under."""

    name: str
    stored: StoredTypeInfo


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """One step of one workflow; made once, when the workflow is defined."""

    name: str
    """The permanent name."""
    function: Callable[..., Any]
    is_async: bool
    parameters: tuple[StepParameter, ...]
    result: StoredTypeInfo | None
    """The type of its result, if it is a branch: it returns a `BranchEffect`."""
    timeout: timedelta | None
    recovery: Retry | None
    signature: inspect.Signature = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Reading it anew took a tenth of all the time of a step that does little.
        object.__setattr__(self, "signature", inspect.signature(self.function))

    @property
    def method(self) -> str:
        """The name of the method."""
        return str(self.function.__name__)

    def bind(self, call: MethodCall) -> Mapping[str, Any]:
        """The input of a step by the names of its parameters, those with defaults left out.

        Raises:
            TypeError: The arguments do not fit the parameters.
        """
        try:
            bound = self.signature.bind(None, *call.args, **call.kwargs)
        except TypeError as error:
            known = ", ".join(one.name for one in self.parameters) or "none"
            message = f"{call!r} does not fit the step {self.method}({known}): {error}"
            raise TypeError(message) from None
        given = dict(bound.arguments)
        given.pop(next(iter(given)))
        return given
