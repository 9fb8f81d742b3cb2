"""greenroom: stateful, agentic services in Python.

The front door: what users need is imported from here, and nothing inside imports it.

- `components` is what an application subclasses: declarations only, no threads, no I/O.
- `runtime` carries out what they declare: each live instance is an actor.
- `persistence` and `migrations` remember: a journal in SQLite or PostgreSQL.
- `mcp` and `web` are thin edges onto the same handlers; `service` puts it all together.
"""

from greenroom.components import (
    CommandContext,
    Effect,
    EntityContext,
    EventContext,
    EventSourcedEntity,
    KeyValueEntity,
    Metadata,
    ReadOnlyEffect,
    ToolAnnotation,
    ToolCall,
    ToolContext,
    WithMetadata,
    component,
    function_tool,
    mcp_endpoint,
    migrates,
    type_name,
)
from greenroom.errors import CommandError, DefinitionError, GreenroomError, ToolError
from greenroom.runtime import (
    AsyncComponentClient,
    AsyncEntityClient,
    ComponentClient,
    DependencyProvider,
    DetailedReply,
    EntityClient,
    InstanceSummary,
    Retries,
    StoredEvent,
)
from greenroom.service import Service
from greenroom.settings import Settings
from greenroom.web import async_component_client, component_client

__all__ = [
    "AsyncComponentClient",
    "AsyncEntityClient",
    "CommandContext",
    "CommandError",
    "ComponentClient",
    "DefinitionError",
    "DependencyProvider",
    "DetailedReply",
    "Effect",
    "EntityClient",
    "EntityContext",
    "EventContext",
    "EventSourcedEntity",
    "GreenroomError",
    "InstanceSummary",
    "KeyValueEntity",
    "Metadata",
    "ReadOnlyEffect",
    "Retries",
    "Service",
    "Settings",
    "StoredEvent",
    "ToolAnnotation",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "WithMetadata",
    "async_component_client",
    "component",
    "component_client",
    "function_tool",
    "mcp_endpoint",
    "migrates",
    "type_name",
]
