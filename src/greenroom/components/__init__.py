"""What an application subclasses: declarations only, no threads, no I/O."""

from greenroom.components._parameters import Parameter
from greenroom.components._reading import define, define_all, read_all
from greenroom.components.contexts import (
    CommandContext,
    EntityContext,
    EventContext,
    ToolContext,
)
from greenroom.components.definition import (
    ComponentDefinition,
    StoredTypeInfo,
    component,
    new_instance,
)
from greenroom.components.effects import (
    Effect,
    EventSourcedEffects,
    Failure,
    KeyValueEffects,
    Persisted,
    PersistEvents,
    ReadOnlyEffect,
    Reply,
    Updated,
    UpdateState,
    WithMetadata,
    no_effect,
    read_only_writes,
)
from greenroom.components.entity import Component, Entity, Kinded
from greenroom.components.event_sourced_entity import EventSourcedEntity
from greenroom.components.function_tool import ToolAnnotation, ToolCall, function_tool
from greenroom.components.handlers import HandlerDefinition
from greenroom.components.key_value_entity import KeyValueEntity
from greenroom.components.mcp_endpoint import (
    McpEndpointDefinition,
    McpEndpointInfo,
    define_endpoint,
    endpoint_info,
    mcp_endpoint,
    read_endpoint,
)
from greenroom.components.metadata import Metadata
from greenroom.components.session import EntitySession
from greenroom.components.tools import (
    ToolDefinition,
    ToolHints,
    ToolResult,
    ToolSet,
    render,
    resolve_tools,
)
from greenroom.components.type_names import migrates, type_name

__all__ = [
    "CommandContext",
    "Component",
    "ComponentDefinition",
    "Effect",
    "Entity",
    "EntityContext",
    "EntitySession",
    "EventContext",
    "EventSourcedEffects",
    "EventSourcedEntity",
    "Failure",
    "HandlerDefinition",
    "KeyValueEffects",
    "KeyValueEntity",
    "Kinded",
    "McpEndpointDefinition",
    "McpEndpointInfo",
    "Metadata",
    "Parameter",
    "PersistEvents",
    "Persisted",
    "ReadOnlyEffect",
    "Reply",
    "StoredTypeInfo",
    "ToolAnnotation",
    "ToolCall",
    "ToolContext",
    "ToolDefinition",
    "ToolHints",
    "ToolResult",
    "ToolSet",
    "UpdateState",
    "Updated",
    "WithMetadata",
    "component",
    "define",
    "define_all",
    "define_endpoint",
    "endpoint_info",
    "function_tool",
    "mcp_endpoint",
    "migrates",
    "new_instance",
    "no_effect",
    "read_all",
    "read_endpoint",
    "read_only_writes",
    "render",
    "resolve_tools",
    "type_name",
]
