"""Where workflows stand, read from the journal: without running them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from greenroom.runtime._position import read_position
from greenroom.runtime._workflow_status import status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from greenroom.components import WorkflowStatus
    from greenroom.ids import EntityRef
    from greenroom.persistence import Journal

_PAGE = 500


def stored_status(journal: Journal, ref: EntityRef) -> WorkflowStatus:
    """Where an instance stands, as far as it is stored. Blocks on the database.

    A step that is tried again at this very moment is told as `retrying`.
    """
    stored = journal.load(ref, latest_only=True)
    head = stored.head
    deleted = head.deleted_at is not None
    position, progress = read_position([] if deleted else stored.records)
    return status_of(position, progress, deleted=deleted, is_running=False, due=head.expires_at)


def listed(
    journal: Journal, component: str, *, status: str | None, after: str | None
) -> Iterator[tuple[EntityRef, WorkflowStatus]]:
    """Instances in the order of their ids, all or those of one status; page after page.

    Args:
        journal: What is stored.
        component: The id of the workflow.
        status: As `WorkflowStatus` has it, or `suspended`; None for every one.
        after: Begin after this instance id.
    """
    while page := journal.instances(component, after=after, limit=_PAGE):
        for one in page:
            found = stored_status(journal, one.ref)
            shown = "suspended" if found.suspended else found.status
            if status in (None, shown):
                yield one.ref, found
        after = page[-1].ref.instance
