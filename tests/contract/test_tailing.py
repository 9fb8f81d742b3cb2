"""A reader with one offset per slice misses no late commit, whoever writes."""

import random
import threading
import time

import pytest
from sqlalchemy import create_engine, text

from greenroom.errors import GreenroomError, NotOwnerError
from greenroom.ids import EntityRef, slice_of
from greenroom.persistence import Head
from tests.support.journals import a_chain, a_write, an_event, open_journal

SLICES = 16
OWNERS = 3
MOVES = 15
FENCED = 5
RECORDS = 500
SECONDS = 45.0
"""At most; on a machine that is busy with other things it takes longer to get there."""

# Every transaction that wrote records waits before it commits, so that commits come late and
# in another order than their writes.
_SLOW_COMMITS = """
CREATE FUNCTION greenroom_slow() RETURNS trigger AS $$
BEGIN PERFORM pg_sleep(random() * 0.005); RETURN NULL; END $$ LANGUAGE plpgsql;
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON greenroom_journal
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION greenroom_slow();
"""


class Writer(threading.Thread):
    """An owner that writes as fast as it can, and passes slices on all the time."""

    def __init__(self, url: str, stop: threading.Event) -> None:
        super().__init__()
        self._url = url
        self._stop_event = stop
        self.written = 0
        self.moves = 0
        self.fenced = 0
        self.unexpected: list[BaseException] = []

    def run(self) -> None:
        refs = [EntityRef("cart", str(number)) for number in range(32)]
        with open_journal(self._url) as (store, _):
            while not self._stop_event.is_set():
                try:
                    self._step(store, refs)
                except NotOwnerError:
                    self.fenced += 1
                    store.ownership.start("127.0.0.1:1")
                except GreenroomError as error:
                    self.unexpected.append(error)
                    return

    def _step(self, store, refs) -> None:
        if random.random() < 0.1:
            _make_look_frozen(store)
        store.ownership.beat()
        owned = sorted(store.ownership.owned())
        if owned and random.random() < 0.5:
            store.ownership.release(frozenset(random.sample(owned, min(2, len(owned)))))
            self.moves += 1
        mine = [ref for ref in refs if slice_of(ref, SLICES) in store.ownership.owned()]
        heads: dict[EntityRef, Head] = {ref: store.journal.load(ref).head for ref in mine}
        for _ in range(3):
            batch = [a_chain(ref, heads[ref], a_write(an_event())) for ref in mine]
            for ref, outcome in zip(
                mine, store.journal.commit(batch) if batch else [], strict=True
            ):
                if outcome.head is not None:
                    heads[ref] = outcome.head
                    self.written += 1


def _make_look_frozen(store) -> None:
    """Some other owner, which the next beat then fences off in the middle of what it does."""
    victim = (
        "UPDATE greenroom_owner SET lease_expires_at = 0 WHERE owner_id = "
        "(SELECT min(owner_id) FROM greenroom_owner WHERE owner_id <> :me)"
    )
    with store.journal._engine.begin() as connection:
        connection.execute(text(victim), {"me": store.ownership.fence()[0]})


@pytest.mark.postgresql
@pytest.mark.timeout(90)
def test_nothing_is_missed_and_nothing_is_seen_twice(postgres_url: str) -> None:
    """Several owners with slow commits pass slices on and fence each other; one reader follows."""
    with open_journal(postgres_url, slices=SLICES):
        pass
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text(_SLOW_COMMITS))
    stop = threading.Event()
    writers = [Writer(postgres_url, stop) for _ in range(OWNERS)]
    for writer in writers:
        writer.start()
    seen: list[tuple[int, int]] = []
    offsets = dict.fromkeys(range(SLICES), 0)
    with open_journal(postgres_url) as (reader, _):
        # The reader owns nothing that matters; it only reads.
        reader.ownership.release(reader.ownership.owned())

        def follow() -> None:
            for slice_ in range(SLICES):
                for record in reader.journal.feed(slice_, after=offsets[slice_]):
                    seen.append((record.slice, record.slice_seq))
                    offsets[slice_] = record.slice_seq

        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            follow()
            moves = sum(writer.moves for writer in writers)
            fenced = sum(writer.fenced for writer in writers)
            if moves >= MOVES and fenced >= FENCED and len(seen) >= RECORDS:
                break
        stop.set()
        for writer in writers:
            writer.join()
        follow()
        with engine.connect() as connection:
            stored = connection.execute(text("SELECT count(*) FROM greenroom_journal")).scalar()
    engine.dispose()

    assert [writer.unexpected for writer in writers] == [[], [], []]
    assert sum(writer.written for writer in writers) == stored == len(seen)
    assert len(set(seen)) == len(seen)
    assert sum(writer.moves for writer in writers) >= MOVES
    assert sum(writer.fenced for writer in writers) >= FENCED
    for slice_ in range(SLICES):
        numbers = [number for found, number in seen if found == slice_]
        assert numbers == list(range(1, len(numbers) + 1))
