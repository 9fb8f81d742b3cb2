"""The bank of the examples, killed by itself at one point of one step, once.

`KILL_AT` is a step and a side of it, `withdraw:before` or `withdraw:after`; `KILL_MARK` a file
that says that it has happened.
"""

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples.transfer_workflow import application
from examples.transfer_workflow.service import service as bank

_step, _, _side = os.environ.get("KILL_AT", "").partition(":")
_mark = Path(os.environ.get("KILL_MARK", "/nonexistent"))


def _die_once() -> None:
    if not _mark.exists():
        _mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _killing(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def run(self: Any) -> Any:
        if _side == "before":
            _die_once()
        result = step(self)
        if _side == "after":
            _die_once()
        return result

    return run


if _step:
    setattr(application.Transfer, _step, _killing(getattr(application.Transfer, _step)))

service = bank.with_settings(bank.settings)
