"""After a batch that did not go in: who is to blame."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from greenroom.errors import ConcurrentWriteError, NotOwnerError
from greenroom.persistence.records import Outcome
from greenroom.persistence.sql._reads import receipt_of
from greenroom.persistence.sql._slices import parts
from greenroom.persistence.tables import instance, journal, owner

if TYPE_CHECKING:
    from greenroom.ids import EntityRef
    from greenroom.persistence.records import Chain
    from greenroom.persistence.sql._dialect import Row
    from greenroom.persistence.sql._ownership import Fence

_Position = tuple[int, int, int]
_NEW: _Position = (0, 1, 0)


@dataclass(slots=True)
class Verdict:
    """Why each loser lost; and the expired receipts that stand in the way of the others."""

    losers: dict[int, Outcome] = field(default_factory=dict)
    """By the place in the sequence of chains."""
    expired: list[Row] = field(default_factory=list)
    """record_id of each, for those whose keys come again."""


def judge(connection: Any, fence: Fence, chains: Sequence[Chain], now: int) -> Verdict:
    """Compare what the chains believe with what is stored.

    A chain that is found to be in order may still have met a conflict: with another owner's
    number in its slice, say. It is not a loser, since fresh numbers may do.

    Raises:
        NotOwnerError: Another owner took over; whoever lost, lost to that one.
    """
    held = select(owner.c.epoch).where(owner.c.owner_id == fence[0])
    if connection.execute(held).scalar() != fence[1]:
        raise NotOwnerError("Another owner took over from this process.")
    positions = _positions(connection, {chain.ref for chain in chains})
    receipts = _receipts(connection, chains, positions)
    verdict = Verdict()
    seen: set[EntityRef] = set()
    for place, chain in enumerate(chains):
        head, keys = chain.head, _keys(chain)
        position = positions.get(chain.ref, _NEW)
        used = [receipts[position[0], key] for key in keys if (position[0], key) in receipts]
        valid = [row for row in used if row.receipt_expires_at > now]
        stands = position == (head.instance_id, head.generation, head.sequence_number)
        if stands and not valid and len(keys) == len(set(keys)) and chain.ref not in seen:
            verdict.expired += [(row.record_id,) for row in used]
        else:
            error = ConcurrentWriteError(chain.ref, expected=head.sequence_number)
            first_uses = tuple(receipt_of(connection, row) for row in valid)
            verdict.losers[place] = Outcome(error=error, duplicates=first_uses)
        seen.add(chain.ref)
    return verdict


def _keys(chain: Chain) -> list[str]:
    return [write.receipt.key for write in chain.writes if write.receipt is not None]


def _positions(connection: Any, refs: Iterable[EntityRef]) -> dict[EntityRef, _Position]:
    """Where the instances stand that are stored: id, generation, sequence number."""
    by_component: dict[str, list[EntityRef]] = {}
    for ref in refs:
        by_component.setdefault(ref.component, []).append(ref)
    found: dict[EntityRef, _Position] = {}
    for component, members in by_component.items():
        for part in parts(members):
            known = {ref.instance: ref for ref in part}
            rows = connection.execute(
                select(
                    instance.c.instance,
                    instance.c.instance_id,
                    instance.c.generation,
                    instance.c.sequence_number,
                ).where(instance.c.component == component, instance.c.instance.in_(list(known)))
            )
            found.update({known[row[0]]: (row[1], row[2], row[3]) for row in rows})
    return found


def _receipts(
    connection: Any, chains: Sequence[Chain], positions: dict[EntityRef, _Position]
) -> dict[tuple[int, str], Any]:
    """The receipts of the chains' keys that are stored, by instance and key."""
    pairs = [
        (positions[chain.ref][0], key)
        for chain in chains
        if chain.ref in positions
        for key in _keys(chain)
    ]
    found = {}
    for part in parts(pairs):
        # Each instance with each key finds too many, but hardly ever: keys are random.
        rows = connection.execute(
            select(journal).where(
                journal.c.instance_id.in_({pair[0] for pair in part}),
                journal.c.idempotency_key.in_({pair[1] for pair in part}),
            )
        )
        found.update({(row.instance_id, row.idempotency_key): row for row in rows})
    return found
