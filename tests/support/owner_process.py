"""Owns a database in a process of its own: `python -m tests.support.owner_process URL`.

Prints a line when it owns something. Each line on standard input makes it write one event to
the instance of that name, and it prints what came of it.
"""

import sys

from greenroom.errors import GreenroomError
from greenroom.ids import EntityRef
from tests.support.journals import a_write, an_event, commit_one, open_journal


def main() -> None:
    with open_journal(sys.argv[1]) as (store, _):
        print("owning", len(store.ownership.owned()), flush=True)
        for line in sys.stdin:
            ref = EntityRef("cart", line.strip())
            try:
                head = store.journal.load(ref).head
                outcome = commit_one(store, ref, head, a_write(an_event("from the other")))
                print("error" if outcome.error else "written", flush=True)
            except GreenroomError as error:
                print(error.code, flush=True)


if __name__ == "__main__":
    main()
