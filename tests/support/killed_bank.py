"""The bank of the example, in a process that kills itself at a named point.

Points are `begin:STEP` (the transition to it is stored, it has done nothing), `called:STEP:N`
(its Nth call to a wallet was answered), `result:STEP` (it has said what comes next, nothing of
that is stored), `before:N` and `after:N` (around the Nth commit of the process).

Read from the environment: `BANK_KILL_AT`, a point; `BANK_FAIL_AT`, points where a step raises,
every time, with commas between; `BANK_DEADLINE` and `BANK_APPROVE_WITHIN`, in seconds.
"""

import functools
import itertools
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends

from examples.transfer_workflow import application
from examples.transfer_workflow.application import Transfer
from examples.transfer_workflow.service import service as bank
from greenroom import (
    AsyncComponentClient,
    EntityClient,
    WorkflowSettings,
    async_component_client,
)
from greenroom.persistence.sql import _journal

KILL_AT = os.environ.get("BANK_KILL_AT")
FAIL_AT = os.environ.get("BANK_FAIL_AT", "").split(",")
STEPS = ("withdraw", "deposit", "take_back", "give_up")


class Place(threading.local):
    """Which step this thread runs, and how often it has called."""

    step: str | None = None
    calls = 0


place = Place()


def pass_by(point: str) -> None:
    if point == KILL_AT:
        os.kill(os.getpid(), signal.SIGKILL)
    if point in FAIL_AT:
        raise RuntimeError(f"out of order at {point}")


def watched_step(name: str) -> Callable[..., Any]:
    original = getattr(Transfer, name)

    @functools.wraps(original)
    def run(self: Transfer) -> Any:
        place.step, place.calls = name, 0
        try:
            pass_by(f"begin:{name}")
            effect = original(self)
            pass_by(f"result:{name}")
        finally:
            place.step = None
        return effect

    return run


ask = EntityClient.ask


def watched_ask(self: EntityClient[Any], *args: Any, **kwargs: Any) -> Any:
    reply = ask(self, *args, **kwargs)
    if place.step is not None:
        place.calls += 1
        pass_by(f"called:{place.step}:{place.calls}")
    return reply


commits = itertools.count(1)
commit = _journal.SqlJournal.commit


def watched_commit(self: Any, batch: Any) -> Any:
    number = next(commits)
    pass_by(f"before:{number}")
    outcomes = commit(self, batch)
    pass_by(f"after:{number}")
    return outcomes


for name in STEPS:
    setattr(Transfer, name, watched_step(name))
EntityClient.ask = watched_ask  # type: ignore[method-assign]
_journal.SqlJournal.commit = watched_commit  # type: ignore[method-assign]
if "BANK_APPROVE_WITHIN" in os.environ:
    seconds = float(os.environ["BANK_APPROVE_WITHIN"])
    application.APPROVE_WITHIN = timedelta(seconds=seconds)
if "BANK_DEADLINE" in os.environ:
    application.DEADLINE = timedelta(seconds=float(os.environ["BANK_DEADLINE"]))
    settings = Transfer.settings

    def in_a_hurry(self: Transfer) -> WorkflowSettings:
        """A workflow must have more time than each of its steps."""
        return replace(settings(self), step_timeout=application.DEADLINE / 2)

    Transfer.settings = in_a_hurry  # type: ignore[method-assign]

service = bank.with_settings(bank.settings)


@service.app.get("/transfers/{transfer_id}")
async def look(
    transfer_id: str, client: Annotated[AsyncComponentClient, Depends(async_component_client)]
) -> tuple[str, str]:
    """What the transfer says of itself, and where its workflow stands."""
    transfer = client.for_workflow(Transfer, transfer_id)
    return (await transfer.ask(Transfer.get)).status, (await transfer.status()).status
