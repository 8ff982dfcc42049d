"""What comes with an error beside its text: images, audio, links, embedded resources, structured content."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from iserror import ToolErrors, ToolFailure
from iserror.client import ToolFailed, classify
from iserror.errors import blocks as blocks_module
from iserror.errors.blocks import MAX_TEXT, safe_blocks
from tests.helpers.hosts import HOST, IS_FASTMCP, CallToolResult, TextContent, in_memory, new_server, types

pytestmark = [pytest.mark.host, pytest.mark.anyio]

PNG = base64.b64encode(b"\x89PNG fake").decode()
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": PNG, "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "https://traces.example.test/7", "name": "trace"}
TEXT = {"type": "resource", "resource": {"uri": "log://7", "mimeType": "text/plain", "text": "line 7: /srv/app/x.py"}}
BLOB = {"type": "resource", "resource": {"uri": "log://8", "blob": PNG}}
SAID = {"type": "text", "text": "No element matches. See the screenshot."}
FOUND = {"errors": 3, "first": "line 7"}


def result_of(blocks: list[dict[str, Any]], structured: dict[str, Any] | None = None) -> Any:
    """The error result that the host documents for its tools, of blocks as they are sent."""
    content = CallToolResult.model_validate({"content": blocks}).content
    if IS_FASTMCP:
        from fastmcp.tools.base import ToolResult

        return ToolResult(content=content, structured_content=structured, is_error=True)
    return CallToolResult.model_validate({"content": blocks, "structuredContent": structured, "isError": True})


async def called(body: Callable[..., Any], arguments: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    server = new_server()
    server.tool(name="click")(body)
    ToolErrors(**settings).attach(server)
    async with in_memory(server) as call:
        result: dict[str, Any] = (await call("click", arguments))["result"]
        assert (await call("click", arguments))["result"]["isError"] is True  # the session lives
    assert result["isError"] is True
    return result


def returning(blocks: list[dict[str, Any]], structured: dict[str, Any] | None = None) -> Callable[..., Any]:
    def body():  # type: ignore[no-untyped-def]
        return result_of(blocks, structured)

    return body


@pytest.mark.parametrize("block", [IMAGE, AUDIO, LINK, TEXT, BLOB], ids=lambda block: block["type"])
async def test_kept(block: dict[str, Any]) -> None:
    """A block of a returned error stays behind the text."""
    result = await called(returning([SAID, block]))
    text, kept = result["content"]
    assert text["text"].startswith(
        "RETURNED_ERROR: No element matches. See the screenshot.\n[click failed; request_id: "
    )
    assert kept == block


async def test_c58_screenshot_with_error() -> None:
    """The screenshot and the tool's own data stay, and the envelope stands beside these."""
    result = await called(returning([SAID, IMAGE], FOUND))
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    envelope = result["_meta"]["iserror/failure"]
    assert result["structuredContent"] == {**FOUND, "iserror/failure": envelope}
    outcome = classify({"jsonrpc": "2.0", "id": 1, "result": result})
    assert isinstance(outcome, ToolFailed)
    assert outcome.code == "RETURNED_ERROR"
    del result["_meta"]
    again = classify({"jsonrpc": "2.0", "id": 1, "result": result})
    assert isinstance(again, ToolFailed)
    assert again.code == "RETURNED_ERROR"
    never = await called(returning([SAID, IMAGE], FOUND), structured="never")
    assert never["structuredContent"] == FOUND


async def test_a_tool_failure_with_content() -> None:
    """A `ToolFailure` takes blocks: the SDK's objects and JSON."""
    image = types.ImageContent.model_validate(IMAGE)

    def body():  # type: ignore[no-untyped-def]
        raise ToolFailure("NO_ELEMENT", "No element matches.", category="not_found", content=[image, LINK])

    result = await called(body)
    assert result["content"][1:] == [IMAGE, LINK]
    assert result["content"][0]["text"].startswith("NO_ELEMENT: No element matches.\n")
    assert result["structuredContent"] == result["_meta"]["iserror/failure"]


async def test_through_another_tool() -> None:
    """The blocks of an inner guarded function go along with its failure."""
    guard = ToolErrors()

    @guard
    def inner() -> None:
        raise ToolFailure("NO_ELEMENT", "No element matches.", category="not_found", content=[IMAGE])

    result = await called(lambda: inner())
    assert result["content"][1:] == [IMAGE]


def test_pickled() -> None:
    """Blocks cross a process."""
    failure = ToolFailure("NO_ELEMENT", "No element matches.", content=[IMAGE])
    assert pickle.loads(pickle.dumps(failure)).content == (IMAGE,)


BIG = {"type": "image", "data": base64.b64encode(bytes(900_000)).decode(), "mimeType": "image/png"}
RESOURCE = {"uri": "log://7", "text": "word " * 20_000}
DROPPED: list[tuple[list[dict[str, Any]], int, str]] = [
    ([IMAGE] * 12, 8, "Left out: 4 images."),
    ([BIG], 0, "Left out: 1 image."),
    ([IMAGE, BIG, AUDIO], 2, "Left out: 1 image."),
    ([{**IMAGE, "data": "no base64!"}], 0, "Left out: 1 image."),
    ([{**IMAGE, "mimeType": "a picture"}], 0, "Left out: 1 image."),
    ([{**LINK, "uri": "file:///srv/app/trace.zip"}], 0, "Left out: 1 link."),
    ([{"type": "resource", "resource": {"uri": "file:///srv/app/x", "text": "a"}}, IMAGE], 1, "Left out: 1 resource."),
    ([{**LINK, "uri": "FILE:///srv/app/x"}, {**LINK, "uri": "jar:file:///srv/app/x.jar!/y"}], 0, "Left out: 2 links."),
    ([IMAGE] * 300, 8, "Left out: 191 images, and more."),
    ([{"type": "resource", "resource": RESOURCE}], 1, "Left out: the end of 1 resource."),
]


@pytest.mark.parametrize(("blocks", "kept", "note"), DROPPED)
async def test_left_out(blocks: list[dict[str, Any]], kept: int, note: str) -> None:
    """What can't be sent is named in the text, before its last line."""
    result = await called(returning([SAID, *blocks]))
    assert len(result["content"]) == 1 + kept
    lines = result["content"][0]["text"].split("\n")
    assert lines[-2] == note
    assert lines[-1].startswith("[click failed; ")
    assert len(json.dumps(result)) < 1_200_000


URIS = [
    ("https://t.example.test", "https://t.example.test/"),
    ("https://t.example.test/a%20b?q=1#c", "https://t.example.test/a%20b?q=1#c"),
    ("log://7", "log://7"),
    ("mailto:ann@example.test", "mailto:ann@example.test"),
    ("https://t.example.test:99999/x", None),
    ("https://[bad/x", None),
    ("http://", None),
    ("no uri", None),
]


@pytest.mark.parametrize(("uri", "sent"), URIS)
async def test_uris_are_alike_on_all_hosts(uri: str, sent: str | None) -> None:
    """A malformed URI costs its own block alone, by name, and the others have one form on every host."""

    def body():  # type: ignore[no-untyped-def]
        raise ToolFailure("NO_ELEMENT", "No element matches.", content=[{**LINK, "uri": uri}, IMAGE])

    result = await called(body)
    links = [block["uri"] for block in result["content"] if block["type"] == "resource_link"]
    assert links == ([] if sent is None else [sent])
    assert result["content"][-1] == IMAGE
    assert ("Left out: 1 link." in result["content"][0]["text"]) is (sent is None)


def test_no_work_for_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many texts another server embeds, few are redacted, whether these are kept or too large."""
    read = []

    def counted(text: str, **settings: Any) -> str:
        read.append(len(text))
        return text

    monkeypatch.setattr(blocks_module, "redact_text", counted)
    for letter in ("a", "\N{OLD PERSIAN SIGN A}"):
        read.clear()
        many = [{"type": "resource", "resource": {"uri": "log://7", "text": letter * 100_000}}] * 200
        kept, note = safe_blocks(many)
        assert 0 < len(kept) <= 8
        assert f"{200 - len(kept)} resources" in note
        assert sum(read) <= 9 * MAX_TEXT


@pytest.mark.parametrize("raises", [True, False])
async def test_kept_with_an_idempotency_key(raises: bool) -> None:
    """A replayed failure has the blocks and the data of the first one, and names what was left out."""
    guard = ToolErrors()
    ran = []

    @guard(effect="write", idempotency_key="key")
    def body(key: str, uri: str):  # type: ignore[no-untyped-def]
        ran.append(key)
        link = {**LINK, "uri": "https://app:hunter22@a.example.test/x?token=8f3kq0zm4t"}
        blocks = [IMAGE, link, {**LINK, "uri": uri}, {**LINK, "uri": "file:///srv/app/x"}, BIG]
        if raises:
            raise ToolFailure("NO_ELEMENT", "No element matches.", outcome="unknown", content=blocks)
        return result_of([SAID, *blocks], FOUND)

    server = new_server()
    server.tool(name="click")(body)
    guard.attach(server)
    arguments = {"key": "k-1234567", "uri": "file:///home/ann/report.pdf"}
    async with in_memory(server) as call:
        first, again = [(await call("click", arguments))["result"] for _ in range(2)]
    assert len(ran) == 1
    assert [block["type"] for block in first["content"]] == ["text", "image", "resource_link", "resource_link"]
    assert again["content"][1:] == first["content"][1:]
    for result in (first, again):
        lines = result["content"][0]["text"].split("\n")
        assert sorted(lines[-2].removeprefix("Left out: ").rstrip(".").split(", ")) == ["1 image", "1 link"]
    if not raises:
        assert FOUND.items() <= again["structuredContent"].items()


async def test_secrets() -> None:
    """Credentials go from links, texts and data; what the author embedded stays otherwise."""
    secret = "sk-" + "proj-" + "a1B2" * 8
    blocks = [
        {**LINK, "uri": "https://a.example.test/x?token=8f3kq0zm4t", "title": f"see {secret}"},
        {"type": "resource", "resource": {"uri": "log://7", "text": f"key {secret} at /srv/app"}},
        {**LINK, "uri": "https://app:hunter22@a.example.test/x"},
    ]
    result = await called(returning([SAID, *blocks], {"password": "hunter22", "path": 3}))
    sent = json.dumps(result)
    for planted in (secret, "8f3kq0zm4t", "hunter22"):
        assert planted not in sent
    assert [block["type"] for block in result["content"]] == ["text", "resource_link", "resource", "resource_link"]
    assert "/srv/app" in result["content"][2]["resource"]["text"]
    assert result["structuredContent"]["path"] == 3


async def test_the_callers_own_file() -> None:
    """A `file:` link that the caller named comes back."""
    uri = "file:///home/ann/report.pdf"

    def body(uri: str):  # type: ignore[no-untyped-def]
        return result_of([SAID, {**LINK, "uri": uri}, {**LINK, "uri": "file:///srv/app/other.pdf"}])

    result = await called(body, {"uri": uri})
    assert [block["uri"] for block in result["content"][1:]] == [uri]


class Clicked(BaseModel):
    errors: int
    first: str = ""


@pytest.mark.skipif(HOST == "fastmcp3", reason="fastmcp 3 has no typed tool that returns a ToolResult")
@pytest.mark.parametrize(("structured", "kept"), [(FOUND, FOUND), ({"errors": "many"}, None), (None, None)])
async def test_in_a_typed_tool(structured: dict[str, Any] | None, kept: dict[str, Any] | None) -> None:
    """In a typed tool the tool's own data stays only if it fits the schema: clients validate it."""
    server = new_server()

    def body() -> Clicked:
        return result_of([SAID, IMAGE], structured)  # type: ignore[no-any-return]

    server.tool(name="click")(body)
    ToolErrors().attach(server)
    async with in_memory(server) as call:
        result = (await call("click"))["result"]
    assert [block["type"] for block in result["content"]] == ["text", "image"]
    assert result.get("structuredContent") == kept


async def test_returned_as_a_success() -> None:
    """A success that reads like an error keeps its screenshot when it is converted."""

    def body():  # type: ignore[no-untyped-def]
        return [TextContent(type="text", text="Error: no element matches"), types.ImageContent.model_validate(IMAGE)]

    result = await called(body, returned_errors="convert")
    assert result["content"][1:] == [IMAGE]
    assert result["content"][0]["text"].startswith("RETURNED_ERROR: Error: no element matches\n")


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        ("text", TypeError, "content must be a list of content blocks, not str"),
        (IMAGE, TypeError, "content must be a list of content blocks, not dict"),
        ([SAID], ValueError, "put texts into message and hint"),
        ([b"png"], TypeError, "bytes isn't a content block; use ImageContent"),
        ([{"type": "video"}], TypeError, "isn't a content block"),
        (7, TypeError, "content must be a list"),
    ],
)
def test_bad_content(content: Any, error: type[Exception], words: str) -> None:
    """Content that is none is refused where it is raised."""
    with pytest.raises(error, match=words):
        ToolFailure("NO_ELEMENT", "No element matches.", content=content)
