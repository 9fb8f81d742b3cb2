"""What the official conformance suite asks a server for, written as an application would."""

import time
from base64 import b64decode
from typing import Annotated, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, Field

from greenroom import (
    AskForm,
    AskModel,
    AskRoots,
    AudioContent,
    ComponentClient,
    EmbeddedResource,
    ImageContent,
    McpContext,
    MessageContent,
    PromptMessage,
    ResourceContent,
    ResourceLink,
    Service,
    TextContent,
    ToolError,
    mcp_completion,
    mcp_endpoint,
    mcp_instances,
    mcp_prompt,
    mcp_resource,
    mcp_tool,
)
from tests.conformance.tasks import TOOLS, WORKFLOWS, GreetingJob

PNG = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")

SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class Name(BaseModel):
    """A form with a name."""

    name: str


class Confirmation(BaseModel):
    """A form with a tick."""

    ok: bool


class Anything(BaseModel, extra="allow"):
    """A form whose fields don't matter."""

    value: str | None = None


@mcp_endpoint(
    server_name="conformance",
    server_version="1.0.0",
    instructions="For the suite.",
    tools=TOOLS,
)
class Everything:
    """Tools, resources and prompts under the names that the suite knows."""

    def __init__(self, client: ComponentClient) -> None:
        self._client = client

    # -- tools -----------------------------------------------------------------------------

    @mcp_tool(description="Answers with text.")
    def test_simple_text(self) -> str:
        return "This is a simple text response for testing."

    @mcp_tool(description="Answers with an image.")
    def test_image_content(self) -> ImageContent:
        return ImageContent.from_bytes(PNG, "image/png")

    @mcp_tool(description="Answers with sound.")
    def test_audio_content(self) -> AudioContent:
        return AudioContent.from_bytes(WAV, "audio/wav")

    @mcp_tool(description="Answers with a resource.")
    def test_embedded_resource(self) -> EmbeddedResource:
        text = "This is an embedded resource content."
        return EmbeddedResource(ResourceContent(text, "test://embedded-resource", "text/plain"))

    @mcp_tool(description="Answers with text, an image and a resource.")
    def test_multiple_content_types(self) -> list[MessageContent]:
        data = ResourceContent(
            '{"test":"data","value":123}', "test://mixed-content-resource", "application/json"
        )
        return [
            TextContent("Multiple content types test:"),
            ImageContent.from_bytes(PNG, "image/png"),
            EmbeddedResource(data),
        ]

    @mcp_tool(description="Fails.")
    def test_error_handling(self) -> str:
        raise ToolError("This tool intentionally returns an error for testing")

    @mcp_tool(description="Reports its progress.")
    def test_tool_with_progress(self, context: McpContext) -> str:
        for done in (0, 50, 100):
            context.report_progress(done, total=100)
            time.sleep(0.05)
        return "done"

    @mcp_tool(description="Writes to the client's log.")
    def test_tool_with_logging(self, context: McpContext) -> str:
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            context.log("info", text)
            time.sleep(0.05)
        return "done"

    @mcp_tool(description="Writes to the client's log, when the request allows it.")
    def test_logging_tool(self, context: McpContext) -> str:
        context.log("info", "Only for clients that asked for it")
        return "logged"

    @mcp_tool(description="Has a schema that was written by hand.", input_schema=SCHEMA_2020_12)
    def json_schema_2020_12_tool(
        self,
        name: str | None = None,
        address: dict[str, Any] | None = None,
        contactMethod: str | None = None,
        phone: str | None = None,
        email: str | None = None,
    ) -> str:
        return f"{name} {address} {contactMethod} {phone} {email}"

    @mcp_tool(description="Has an argument that comes in a header too.")
    def test_x_mcp_header(
        self,
        region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
        query: str = "",
    ) -> str:
        return f"{region} {query}"

    @mcp_tool(description="Needs a client that can sample.")
    def test_missing_capability(self, context: McpContext) -> str:
        return context.ask("sample", AskModel("Say something."))

    @mcp_tool(description="Says something and then asks for something.")
    def test_streaming_elicitation(self, context: McpContext) -> str:
        context.report_progress(1, total=2)
        answer = context.ask("name", AskForm("What is your name?", Name))
        return f"Hello, {answer.content}!"

    @mcp_tool(description="Changes a resource.")
    def test_trigger_resource_change(self, context: McpContext) -> str:
        context.resource_updated("test://watched-resource")
        context.resources_changed()
        return "changed"

    # -- tools that ask the client ---------------------------------------------------------

    @mcp_tool(description="Asks for a name.")
    def test_input_required_result_elicitation(self, context: McpContext) -> str:
        answer = context.ask("user_name", AskForm("What is your name?", Name))
        return f"Hello, {answer.content.name if answer.content else 'stranger'}!"

    @mcp_tool(description="Asks the client's model.")
    def test_input_required_result_sampling(self, context: McpContext) -> str:
        question = AskModel("What is the capital of France?", max_tokens=100)
        return context.ask("capital_question", question)

    @mcp_tool(description="Asks for the client's roots.")
    def test_input_required_result_list_roots(self, context: McpContext) -> str:
        return ", ".join(context.ask("client_roots", AskRoots()))

    @mcp_tool(description="Asks for a confirmation, with a state.")
    def test_input_required_result_request_state(self, context: McpContext) -> str:
        context.ask("confirm", AskForm("Please confirm", Confirmation))
        return "state-ok"

    @mcp_tool(description="Asks three things at once.")
    def test_input_required_result_multiple_inputs(self, context: McpContext) -> str:
        form, greeting, roots = context.ask_all(
            {
                "user_name": AskForm("What is your name?", Name),
                "greeting": AskModel("Generate a greeting", max_tokens=50),
                "client_roots": AskRoots(),
            }
        )
        return f"{form} {greeting} {roots}"

    @mcp_tool(description="Asks twice, one after the other.")
    def test_input_required_result_multi_round(self, context: McpContext) -> str:
        first = context.ask("step1", AskForm("Step 1: What is your name?", Name))
        second = context.ask("step2", AskForm("Step 2: What is your favourite colour?", Anything))
        return f"{first.content} {second.content}"

    @mcp_tool(description="Asks for a confirmation, with a state that can't be forged.")
    def test_input_required_result_tampered_state(self, context: McpContext) -> str:
        context.ask("confirm", AskForm("Please confirm", Confirmation))
        return "state-ok"

    @mcp_tool(description="Asks only for what the client can do.")
    def test_input_required_result_capabilities(self, context: McpContext) -> str:
        if context.can("elicitation"):
            context.ask("name", AskForm("What is your name?", Name))
        if context.can("sampling"):
            context.ask("sample", AskModel("Say something."))
        return "nothing to ask"

    # -- tools that go on as tasks ---------------------------------------------------------

    @mcp_tool(description="Greets at once.")
    def greet(self, name: str) -> str:
        return f"Hello, {name}!"

    @mcp_tool(description="Asks for a name, and greets in a task.")
    def test_tool_with_task(self, context: McpContext) -> str:
        answer = context.ask("user_name", AskForm("What is your name?", Name))
        name = answer.content.name if answer.content else "stranger"
        job = uuid4().hex
        self._client.for_workflow(GreetingJob, job).ask(GreetingJob.start, name)
        context.go_on_as(GreetingJob.start, job)
        return "begun"

    # -- resources -------------------------------------------------------------------------

    @mcp_resource(uri="test://static-text", name="Static Text")
    def static_text(self) -> str:
        return "This is the content of the static text resource."

    @mcp_resource(uri="test://static-binary", name="Static Binary", mime_type="image/png")
    def static_binary(self) -> bytes:
        return PNG

    @mcp_resource(uri="test://watched-resource", name="Watched")
    def watched(self) -> str:
        return "Watch me."

    @mcp_resource(
        uri_template="test://template/{id}/data", name="Template", mime_type="application/json"
    )
    def template(self, id: str) -> dict[str, Any]:  # noqa: A002 - the suite's name
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}

    @mcp_instances(template)
    def instances(self) -> list[ResourceLink]:
        return [ResourceLink("test://template/1/data", "The first")]

    # -- prompts ---------------------------------------------------------------------------

    @mcp_prompt(description="A prompt without arguments.")
    def test_simple_prompt(self) -> str:
        return "This is a simple prompt for testing."

    @mcp_prompt(description="A prompt with two arguments.")
    def test_prompt_with_arguments(
        self,
        arg1: Annotated[str, "First test argument"],
        arg2: Annotated[str, "Second test argument"],
    ) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @mcp_completion(test_prompt_with_arguments, "arg1")
    def first_arguments(self, typed: str) -> list[str]:
        return [one for one in ("paris", "park", "party") if one.startswith(typed)]

    @mcp_prompt(description="A prompt with a resource in it.")
    def test_prompt_with_embedded_resource(
        self,
        resourceUri: Annotated[str, "URI of the resource"],
    ) -> list[PromptMessage]:
        resource = ResourceContent("Embedded resource content.", resourceUri, "text/plain")
        return [
            PromptMessage("user", EmbeddedResource(resource)),
            PromptMessage("user", "Please process the embedded resource above."),
        ]

    @mcp_prompt(description="A prompt with an image in it.")
    def test_prompt_with_image(self) -> list[str | MessageContent]:
        return [ImageContent.from_bytes(PNG, "image/png"), "Please analyze the image above."]

    @mcp_prompt(description="A prompt that asks first.")
    def test_input_required_result_prompt(
        self, context: McpContext, style: Literal["short", "long"] = "short"
    ) -> str:
        answer = context.ask("user_context", AskForm("What context?", Anything))
        return f"{style} {answer.content}"


service = Service("conformance", components=WORKFLOWS, endpoints=[Everything])
