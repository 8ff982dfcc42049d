"""Every kind of result that a tool may return: a repeat gets the same on the wire, or hears that it was not kept."""

from __future__ import annotations

import dataclasses
import warnings
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, computed_field
from typing_extensions import TypedDict

from iserror import PartialResult, ToolErrors
from iserror.idempotency import Idempotency, record
from tests.helpers import hosts
from tests.helpers.hosts import HOST, IS_FASTMCP, TextContent, in_memory, new_server, text_of

pytestmark = [pytest.mark.host, pytest.mark.anyio]


class Row(BaseModel):
    a: int
    b: float = 2


class Longer(Row):
    extra: str = "x"


class Named(BaseModel):
    a: int = Field(alias="theA")


class Computed(BaseModel):
    a: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.a * 2


class Dated(BaseModel):
    day: date


class Typed(TypedDict):
    x: int


@dataclasses.dataclass
class Data:
    a: int
    b: list[float]


class Color(Enum):
    RED = "r"


PARTIAL = PartialResult[Row](succeeded=[Row(a=1)], next_cursor="c")
DAY = date(2020, 1, 1)

# Annotation (None: none) and result.
KEPT: dict[str, tuple[Any, Any]] = {
    "float_int": (float, 5),
    "floats_ints": (list[float], [1, 2]),
    "model": (Row, Row(a=1)),
    "model_dict": (Row, {"a": 1}),
    "dated_dict": (Dated, {"day": DAY}),
    "alias": (Named, Named(theA=1)),
    "computed": (Computed, Computed(a=1)),
    "typed_dict": (Typed, {"x": 1}),
    "optional": (Row | None, None),
    "data": (Data, Data(1, [1.0, 2.5])),
    "date": (date, DAY),
    "decimal": (Decimal, Decimal("1.50")),
    "enum": (Color, Color.RED),
    "int_keys": (dict[int, str], {1: "a"}),
    "dict_order": (dict[str, float], {"b": 1, "a": 2.5}),
    "plain_dict": (None, {"b": 1, "a": [2.5, None]}),
    "union": (int | str, "5"),
    "literal": (Literal["a", "b"], "a"),
    "text": (str, "5"),
    "nothing": (None, None),
    "list": (None, [None, 1, "a"]),
    "big": (None, 2**70),
    "block": (None, TextContent(type="text", text="t")),
    "partial": (PartialResult[Row], PARTIAL),
    "partial_bare": (PartialResult[Row], PartialResult(succeeded=[Row(a=1)], next_cursor="c")),
}
NOT_KEPT: dict[str, tuple[Any, Any]] = {
    "subclass": (Row, Longer(a=1)),
    "plain_tuple": (None, (1, "a")),
    "plain_model": (None, Row(a=1)),
    "plain_date": (None, datetime(2020, 1, 1, tzinfo=timezone.utc)),
    "plain_dates": (list[Any], [DAY]),
    "plain_partial": (None, PARTIAL),
    "plain_frozenset": (None, frozenset({3, 1, 2})),
    "set": (set[str], {"a", "b", "zz"}),
    "bytes": (None, b"abc"),
    "mixed": (None, [TextContent(type="text", text="t"), "s", {"a": 1}]),
}


def _image() -> Any:
    if IS_FASTMCP:
        from fastmcp.utilities.types import Image
    elif hosts.HOST == "mcp1":
        from mcp.server.fastmcp import Image
    else:
        from mcp.server.mcpserver import Image
    return Image(data=b"x", format="png")


def _returning(name: str, annotation: Any, value: Any, runs: list[str]) -> Any:
    async def give(key: str) -> Any:
        runs.append(name)
        return value

    give.__name__ = give.__qualname__ = name
    give.__annotations__ = {"key": str} if annotation is None else {"key": str, "return": annotation}
    return give


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # fastmcp's own, of a dict in a model's place
@pytest.mark.parametrize("attached", [True, False], ids=["attached", "decorated"])
async def test_a_repeat_is_equal_or_not_kept(attached: bool) -> None:
    """Of each kind of result the repeat's wire form is that of the first call, or says `RESULT_NOT_KEPT`."""
    # `MCPServer` without a guard hands a tool nothing that tells who is calling.
    subject = (lambda: "me") if HOST == "mcp2" and not attached else None
    guard, server, runs = ToolErrors(idempotency=Idempotency(subject=subject)), new_server(), []  # type: ignore[var-annotated]
    lost = {**NOT_KEPT, "image": (None, _image()), "images": (None, ["t", _image()])}
    for name, (annotation, value) in {**KEPT, **lost}.items():
        server.tool()(guard(idempotency_key="key")(_returning(name, annotation, value, runs)))
    if attached:
        guard.attach(server)
    async with in_memory(server) as call:
        for name in (*KEPT, *lost):
            first, again = [hosts.normalize(await call(name, {"key": "k"})) for _ in range(2)]
            assert first["result"].get("isError") is not True, (name, first)
            if name in KEPT:
                assert first == again, name
            else:
                assert "RESULT_NOT_KEPT" in text_of(again), name
    assert runs == [*KEPT, *lost]


def test_a_bool_in_an_integer_s_place() -> None:
    """A result that its declared type would make another one comes back as what it was."""
    fn = _returning("give", int, None, [])
    assert record.result_in(fn, record.of_result(fn, True)) is True


def test_no_warning_shows_a_result() -> None:
    """A result that does not fit its declared type is compared without pydantic's warnings, which quote values."""
    fn = _returning("give", Row, None, [])
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        kept = record.of_result(fn, {"a": "4111"})
    assert shown == []
    assert record.result_in(fn, kept) == {"a": "4111"}
