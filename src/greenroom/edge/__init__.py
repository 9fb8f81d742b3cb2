"""What both doors share: checks on who asks, carrying out a tool call, errors as told outside."""

from greenroom.edge._audit import Audit, AuditLog, AuditRecord, AuditSink
from greenroom.edge._checks import (
    door_problems,
    endpoint_problems,
    security_problems,
    settings_problems,
)
from greenroom.edge._errors import ErrorView, describe, report
from greenroom.edge._guard import METADATA_PATH, Guard, Surroundings
from greenroom.edge._hosts import HostCheck
from greenroom.edge._keys import Fetch
from greenroom.edge._methods import CONTEXTS, MethodRunner
from greenroom.edge._refusals import Refusal, RefusedError
from greenroom.edge._requests import (
    RequestHeaders,
    asking,
    request_context,
    target_of,
    traceparent_of,
)
from greenroom.edge._tasks import TaskCaller, TaskView
from greenroom.edge._tools import ToolCaller, ToolOutcome

__all__ = [
    "CONTEXTS",
    "METADATA_PATH",
    "Audit",
    "AuditLog",
    "AuditRecord",
    "AuditSink",
    "ErrorView",
    "Fetch",
    "Guard",
    "HostCheck",
    "MethodRunner",
    "Refusal",
    "RefusedError",
    "RequestHeaders",
    "Surroundings",
    "TaskCaller",
    "TaskView",
    "ToolCaller",
    "ToolOutcome",
    "asking",
    "describe",
    "door_problems",
    "endpoint_problems",
    "report",
    "request_context",
    "security_problems",
    "settings_problems",
    "target_of",
    "traceparent_of",
]
