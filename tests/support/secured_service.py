"""A service that asks for everything there is to ask, for tests against a real server."""

from greenroom import (
    Acl,
    CommandError,
    Effect,
    Issuer,
    Jwt,
    KeyValueEntity,
    RateLimit,
    ReadOnlyEffect,
    Service,
    ToolRequest,
    component,
    function_tool,
    mcp_endpoint,
)


@component("diary")
class Diary(KeyValueEntity[str]):
    """What somebody writes down."""

    def empty_state(self) -> str:
        return ""

    @function_tool(description="Writes.")
    def write(self, text: str) -> Effect[str]:
        author = self.command_context.principal
        return self.effects.update_state(f"{author}: {text}").then_reply("written")

    @function_tool(description="Reads.")
    def read(self) -> ReadOnlyEffect[str]:
        return self.effects.reply(self.state)

    @function_tool(description="Burns it.", requires_approval=True)
    def burn(self) -> Effect[None]:
        return self.effects.update_state("").then_reply(None)

    @function_tool(description="Breaks.")
    def crash(self) -> Effect[None]:
        raise LookupError("SELECT secret FROM /etc/table")


def own_or_shared(request: ToolRequest) -> bool:
    """Whoever is in the group may read what the group shares."""
    if request.instance_id.startswith("forbidden"):
        raise CommandError("This diary is sealed.")
    claims = request.principal.claims or {}
    return request.instance_id in ("crash", *claims.get("groups", ()))


TOKENS = Jwt([Issuer("${TEST_ISSUER}")], ["${TEST_AUDIENCE}"], scopes={"diary:read"})


@mcp_endpoint(
    server_name="diaries",
    acl=Acl.allow_internet(),
    jwt=TOKENS,
    tools=[
        Diary.tools(only={"read"}, bind=lambda call: call.principal.subject),
        Diary.tools(
            only={"write"}, bind=lambda call: call.principal.subject, scopes={"diary:write"}
        ),
        Diary.tools(only={"burn", "crash"}, authorize=own_or_shared),
    ],
)
class DiariesMcp:
    """One's own diary."""


@mcp_endpoint(
    path="/inside",
    server_name="inside",
    acl=Acl.allow_services("library"),
    rate_limit=RateLimit(3),
    tools=[Diary.tools(only={"read"})],
)
class InsideMcp:
    """Every diary, for one other service."""


service = Service("diaries", components=[Diary], endpoints=[DiariesMcp, InsideMcp])
