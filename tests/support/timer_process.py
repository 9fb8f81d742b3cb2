"""Runs timers in a process of its own: `python -m tests.support.timer_process URL MARKER`.

It starts a timer whose action kills the process, between what it does and the record of it.
"""

import sys
import threading
from datetime import timedelta

from greenroom.runtime import Runtime
from greenroom.settings import Settings
from tests.support.timers import Bell, Ringers


def main() -> None:
    url, marker = sys.argv[1:]
    runtime = Runtime([Bell, Ringers], settings=Settings(database_url=url))
    runtime.start()
    call = runtime.client.for_timed_action(Ringers).deferred(Ringers.ring_and_die_once, "b", marker)
    runtime.client.timers.start_single_timer("t", timedelta(milliseconds=1), call)
    threading.Event().wait(60)


if __name__ == "__main__":
    main()
