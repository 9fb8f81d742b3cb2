"""Components over HTTP: the FastAPI application, health, problems, and the client for routes."""

from greenroom.web._app import RESERVED_PATHS, add_greenroom, is_router, new_app, paths_of
from greenroom.web._dependencies import async_component_client, component_client
from greenroom.web._problems import problem_response
from greenroom.web._security import Secured, request_context, secured, securities_of
from greenroom.web._steering import STEERING_PATH
from greenroom.web._tools import tool_router

__all__ = [
    "RESERVED_PATHS",
    "STEERING_PATH",
    "Secured",
    "add_greenroom",
    "async_component_client",
    "component_client",
    "is_router",
    "new_app",
    "paths_of",
    "problem_response",
    "request_context",
    "secured",
    "securities_of",
    "tool_router",
]
