"""What both doors share: checks on who asks, carrying out a tool call, errors as told outside."""

from greenroom.edge._errors import ErrorView, describe, report
from greenroom.edge._hosts import HostCheck, Refusal
from greenroom.edge._methods import CONTEXTS, MethodRunner
from greenroom.edge._tools import ToolCaller, ToolOutcome

__all__ = [
    "CONTEXTS",
    "ErrorView",
    "HostCheck",
    "MethodRunner",
    "Refusal",
    "ToolCaller",
    "ToolOutcome",
    "describe",
    "report",
]
