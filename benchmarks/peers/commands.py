"""Durable commands per second of `eventsourcing`: load, trigger, save."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.persistence import OperationalError

from benchmarks.pace import TEXT, Pace, settle
from benchmarks.peers.ledger import Ledger, application, new_ledger


def run(
    database_url: str, threads: int, entities: int, seconds: float, history: int = 10
) -> dict[str, float]:
    """Each thread has aggregates of its own, so that none is kept waiting by a conflict.

    With fewer aggregates than threads, a lock per aggregate keeps the threads apart: a conflict
    costs the peer a command that has to be run again.
    """
    app = application(database_url, cached=2 * entities, pool=min(threads, 50))
    ids = [new_ledger(app, TEXT, history) for _ in range(entities)]
    for one in ids:
        app.repository.get(one)
    settle()
    pace = Pace(seconds)
    command = _command(app)
    if threads == 1:
        _one_thread(command, ids, pace)
    else:
        _many_threads(command, ids, threads, pace)
    figures = pace.figures()
    recorded = sum(_entries(app, one) for one in ids)
    if recorded != entities * history + pace.total:
        sys.exit(f"{recorded} entries were recorded, but {entities * history + pace.total} saved")
    app.close()
    return figures


def _command(app: Application[UUID]) -> Callable[[UUID], None]:
    def command(one: UUID) -> None:
        while True:
            ledger: Ledger = app.repository.get(one)
            ledger.record(TEXT)
            try:
                app.save(ledger)
            except OperationalError:
                # The pool, or SQLite's lock, was not to be had in time; nothing was saved.
                continue
            return

    return command


def _one_thread(command: Callable[[UUID], None], ids: Sequence[UUID], pace: Pace) -> None:
    pace.start()
    for one in itertools.cycle(ids):
        command(one)
        if pace.done():
            return


def _many_threads(
    command: Callable[[UUID], None], ids: Sequence[UUID], threads: int, pace: Pace
) -> None:
    counting = threading.Lock()
    hot = [threading.Lock() for _ in ids]

    def work(number: int) -> None:
        mine = range(number % len(ids), len(ids), threads)
        for place in itertools.cycle(mine):
            with hot[place]:
                command(ids[place])
            with counting:
                if pace.done():
                    return

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    pace.start()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def _entries(app: Application[UUID], one: UUID) -> int:
    ledger: Ledger = app.repository.get(one)
    return ledger.entries
