"""The server that the MCP conformance suite asks for, on mcp 2.x and fastmcp 4: `--http --port N [--bare]`.

What each tool, resource and prompt has to do is said by the suite itself, scenario by scenario.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from mcp.types import (
    AudioContent,
    Completion,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from iserror import ToolErrors
from tests.helpers.hosts import HOST, Context, new_server

if HOST == "mcp2":
    from mcp.server.mcpserver.prompts.base import UserMessage as Message
else:
    from fastmcp.prompts import Message
    from fastmcp.tools import Tool

# One red pixel, and a WAV file without samples.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
IMAGE = ImageContent(type="image", data=PNG, mime_type="image/png")

JSON_SCHEMA_TOOL = "json_schema_2020_12_tool"
JSON_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def embedded(uri: str, mime_type: str, words: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=mime_type, text=words))


def add_plain_tools(server: Any) -> None:
    @server.tool(description="One text.")
    def test_simple_text():  # type: ignore[no-untyped-def]
        return text("This is a simple text response for testing.")

    @server.tool(description="One image.")
    def test_image_content():  # type: ignore[no-untyped-def]
        return IMAGE

    @server.tool(description="One sound.")
    def test_audio_content():  # type: ignore[no-untyped-def]
        return AudioContent(type="audio", data=WAV, mime_type="audio/wav")

    @server.tool(description="One resource.")
    def test_embedded_resource():  # type: ignore[no-untyped-def]
        return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")

    @server.tool(description="A text, an image and a resource.")
    def test_multiple_content_types():  # type: ignore[no-untyped-def]
        data = json.dumps({"test": "data", "value": 123})
        resource = embedded("test://mixed-content-resource", "application/json", data)
        return [text("Multiple content types test:"), IMAGE, resource]

    @server.tool(description="Always fails.")
    def test_error_handling():  # type: ignore[no-untyped-def]
        raise RuntimeError("This tool intentionally returns an error for testing")


def add_talking_tools(server: Any) -> None:
    @server.tool(description="Logs three times.")
    async def test_tool_with_logging(ctx: Context) -> str:
        for step in ("execution started", "processing data", "execution completed"):
            await ctx.info(f"Tool {step}")
            await asyncio.sleep(0.05)
        return "logged"

    @server.tool(description="Reports progress three times.")
    async def test_tool_with_progress(ctx: Context) -> str:
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100)
            await asyncio.sleep(0.05)
        return "done"

    @server.tool(description="Asks the client's model.")
    async def test_sampling(prompt: str, ctx: Context) -> str:
        messages = [SamplingMessage(role="user", content=text(prompt))]
        # Unrelated to the call, a request goes out on a stream that the client may not have opened yet.
        related = {"related_request_id": ctx.request_id}
        answer = await ctx.session.create_message(messages=messages, max_tokens=100, **related)
        return f"LLM response: {answer.content.text}"

    async def ask(ctx: Context, message: str, properties: dict[str, Any], required: list[str]) -> str:
        schema = {"type": "object", "properties": properties, "required": required}
        answer = await ctx.session.elicit_form(message, schema, related_request_id=ctx.request_id)
        return f"action={answer.action}, content={json.dumps(answer.content)}"

    @server.tool(description="Asks the user.")
    async def test_elicitation(message: str, ctx: Context) -> str:
        properties = {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"},
        }
        return f"User response: {await ask(ctx, message, properties, list(properties))}"

    @server.tool(description="Asks the user, with defaults.")
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        properties = {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "default": True},
        }
        return f"Elicitation completed: {await ask(ctx, 'Your details?', properties, [])}"

    @server.tool(description="Asks the user to choose.")
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        options = ["option1", "option2", "option3"]
        titled = [{"const": f"value{number}", "title": f"Choice {number}"} for number in (1, 2, 3)]
        properties = {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        }
        return f"Elicitation completed: {await ask(ctx, 'Which?', properties, [])}"

    @server.tool(description="Takes a while.")
    async def test_reconnection() -> str:
        await asyncio.sleep(0.1)
        return "Reconnection test completed."


def add_tool_with_schema(server: Any) -> None:
    def function(name: str = "") -> str:
        """Have an input schema with keywords of JSON Schema 2020-12."""
        return name

    if HOST == "mcp2":
        server.add_tool(function, name=JSON_SCHEMA_TOOL)
        server._tool_manager.get_tool(JSON_SCHEMA_TOOL).parameters = JSON_SCHEMA
    else:
        tool = Tool.from_function(function, name=JSON_SCHEMA_TOOL)
        tool.parameters = JSON_SCHEMA
        server.add_tool(tool)


def add_resources(server: Any) -> None:
    @server.resource("test://static-text", description="A text.", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", description="An image.", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PNG)

    @server.resource("test://watched-resource", description="A text to subscribe to.", mime_type="text/plain")
    def watched_resource() -> str:
        return "watched"

    @server.resource("test://template/{id}/data", description="One of many.", mime_type="application/json")
    def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def add_prompts(server: Any) -> None:
    @server.prompt(description="No arguments.")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="Two arguments.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="A resource.")
    def test_prompt_with_embedded_resource(resourceUri: str):  # type: ignore[no-untyped-def]
        resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        return [Message(resource), Message(text("Please process the embedded resource above."))]

    @server.prompt(description="An image.")
    def test_prompt_with_image():  # type: ignore[no-untyped-def]
        return [Message(IMAGE), Message(text("Please analyze the image above."))]


def add_utilities(server: Any) -> None:
    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=[value for value in ("paris", "park", "party") if value.startswith(argument.value)])

    async def accept(ctx: Any, params: Any) -> EmptyResult:
        return EmptyResult()

    lowlevel = server._lowlevel_server if HOST == "mcp2" else server._mcp_server
    lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)
    if HOST == "mcp2":  # fastmcp has it
        lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)


def main() -> None:
    """Serve on 127.0.0.1 until killed."""
    # Without this setting, fastmcp sends input schemas without their `$defs`.
    server = new_server("everything", **({} if HOST == "mcp2" else {"dereference_schemas": False}))
    if "--bare" not in sys.argv:
        ToolErrors().attach(server)
    for add in (add_plain_tools, add_talking_tools, add_tool_with_schema, add_resources, add_prompts, add_utilities):
        add(server)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    if HOST == "mcp2":
        server.run("streamable-http", port=port)
    else:
        server.run("http", port=port, show_banner=False, host_origin_protection=True)


if __name__ == "__main__":
    main()
