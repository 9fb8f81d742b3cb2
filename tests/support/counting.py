"""The counting components as a service, for tests that need it in a process of its own."""

from greenroom import Service, mcp_endpoint
from tests.support.components import Counter, ProfileEntity


@mcp_endpoint(server_name="counting", tools=[Counter, ProfileEntity])
class CountingMcp:
    """The tools of the counting components."""


service = Service("counting", components=[Counter, ProfileEntity], endpoints=[CountingMcp])
