"""Which rows are in which slice, and the last numbers given in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import and_, func, or_, select, true, update

from greenroom.persistence.tables import LOW_BITS, SLICE_BITS, instance, journal, slice_table

_AT_ONCE = 500
"""Ids in one IN: few enough for every database, many enough to be quick."""


def parts(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut what is to stand in an IN."""
    return (items[start : start + _AT_ONCE] for start in range(0, len(items), _AT_ONCE))


def in_slices(column: Any, slices: Sequence[int]) -> Any:
    """Whether a key is in one of the slices: neighbours are joined to one range."""
    ranges: list[list[int]] = []
    for slice_ in sorted(slices):
        if ranges and ranges[-1][1] == slice_:
            ranges[-1][1] = slice_ + 1
        else:
            ranges.append([slice_, slice_ + 1])
    conditions = [
        and_(column > low << SLICE_BITS, column <= (high - 1 << SLICE_BITS) + LOW_BITS)
        for low, high in ranges
    ]
    return or_(*conditions) if conditions else ~true()


def last_numbers(connection: Any, slice_: int) -> list[int]:
    """The last slice_seq and the last instance number given in a slice.

    In one statement, so that a purge is seen whole: the record that it removed, or the number
    that it left behind.
    """

    def last(column: Any) -> Any:
        low = slice_ << SLICE_BITS
        return select(func.max(column)).where(column > low, column <= low + LOW_BITS)

    row = connection.execute(
        select(
            slice_table.c.purged_to,
            last(journal.c.record_id).scalar_subquery(),
            last(instance.c.instance_id).scalar_subquery(),
        ).where(slice_table.c.slice == slice_)
    ).one()
    return [max(row[0], (row[1] or 0) & LOW_BITS), (row[2] or 0) & LOW_BITS]


def remember_numbers(connection: Any, record_ids: Iterable[int]) -> None:
    """Note that records are about to go, so that nobody counts from what is left."""
    highest: dict[int, int] = {}
    for record_id in record_ids:
        slice_ = record_id >> SLICE_BITS
        highest[slice_] = max(highest.get(slice_, 0), record_id & LOW_BITS)
    for slice_, number in sorted(highest.items()):
        connection.execute(
            update(slice_table)
            .where(slice_table.c.slice == slice_, slice_table.c.purged_to < number)
            .values(purged_to=number)
        )
