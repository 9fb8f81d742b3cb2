"""What an application's tests import; no pytest needed."""

from greenroom.testkit._clock import ManualClock
from greenroom.testkit._entity import CommandResult, EventSourcedTestKit, KeyValueTestKit
from greenroom.testkit._mcp import McpTestClient, ToolAnswer
from greenroom.testkit._service import ServiceTestKit
from greenroom.testkit._workflow import StepCall, WorkflowTestKit

__all__ = [
    "CommandResult",
    "EventSourcedTestKit",
    "KeyValueTestKit",
    "ManualClock",
    "McpTestClient",
    "ServiceTestKit",
    "StepCall",
    "ToolAnswer",
    "WorkflowTestKit",
]
