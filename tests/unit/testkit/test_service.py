"""A service under test: real, on a file of its own, in a time of its own."""

from datetime import timedelta

from greenroom.testkit import ServiceTestKit
from tests.support.components import Counter
from tests.support.counting import service
from tests.support.eventually import eventually


def test_what_was_acknowledged_survives_a_restart() -> None:
    with ServiceTestKit(service) as kit:
        kit.client.for_event_sourced_entity(Counter, "a").ask(Counter.increase, 2)
        kit.restart()
        assert kit.client.for_event_sourced_entity(Counter, "a").ask(Counter.total) == 2


def test_time_passes_when_it_is_told_to() -> None:
    with ServiceTestKit(service) as kit:
        kit.client.for_event_sourced_entity(Counter, "a").ask(Counter.keep_for, 60)
        kit.advance(timedelta(seconds=61))

        def is_deleted() -> bool:
            [summary] = kit.client.instances(Counter)
            return summary.deleted_at is not None

        assert eventually(is_deleted)


def test_two_kits_share_nothing() -> None:
    with ServiceTestKit(service) as first, ServiceTestKit(service) as second:
        first.client.for_event_sourced_entity(Counter, "a").ask(Counter.increase)
        assert second.client.for_event_sourced_entity(Counter, "a").ask(Counter.total) == 0
