"""Checks by JSON Schema: an author's schema that cannot be used fails no call, and sends nobody to the network."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from iserror.errors.arguments import reasons_of_json
from iserror.support.schema import schema_error

pytestmark = pytest.mark.hostless

pytest.importorskip("jsonschema", reason="this host comes without jsonschema, and checks no schema with it")


@pytest.fixture
def visits() -> Iterator[tuple[int, list[object]]]:
    """A port that nobody should call, and who did; it hangs up on them."""
    came: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def hang_up() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, address = listener.accept()
                    came.append(address)
                    connection.close()

        thread = threading.Thread(target=hang_up, daemon=True)
        thread.start()
        yield listener.getsockname()[1], came
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_reference_to_elsewhere_is_not_fetched(visits: tuple[int, list[object]]) -> None:
    port, came = visits
    schema = {"type": "object", "properties": {"a": {"$ref": f"http://127.0.0.1:{port}/s"}}}
    assert schema_error(schema, {"a": 1}) is None
    assert reasons_of_json(schema, {"a": 1}) == []
    assert came == []


def test_arguments_are_told_by_declared_field_and_rule() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "b"]}
    assert reasons_of_json(schema, {"a": "secret"}) == [("a", "must be an integer"), ("b", "is required")]
