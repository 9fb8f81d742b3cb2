"""What an application's tests import; no pytest needed."""

from greenroom.testkit._clock import ManualClock

__all__ = ["ManualClock"]
