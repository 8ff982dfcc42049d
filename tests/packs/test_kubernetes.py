"""The kubernetes clients make exceptions of what an HTTP server on loopback answers."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
import urllib3
from kubernetes import client, config, dynamic, utils
from kubernetes.aio import client as aio
from kubernetes.dynamic import exceptions as dynamically
from kubernetes.dynamic.client import meta_request

import iserror
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure, failures
from tests.packs.upstream import Upstream, in_turn, response, serving

PACK = iserror.packs.kubernetes
BODY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CANARY}, "data": {CANARY: CANARY}}


def settings(module: Any, url: str) -> Any:
    found = module.Configuration(host=url, retries=False)
    found.proxy = None
    return found


def create(url: str) -> None:
    with client.ApiClient(settings(client, url)) as api:
        client.CoreV1Api(api).create_namespaced_config_map(CANARY, BODY, _request_timeout=5)


async def aio_create(url: str) -> None:
    async with aio.ApiClient(settings(aio, url)) as api:
        await aio.CoreV1Api(api).create_namespaced_config_map(CANARY, BODY, _request_timeout=5)


def dynamic_create(url: str) -> None:
    with client.ApiClient(settings(client, url)) as api:
        meta_request(lambda self: client.CoreV1Api(api).create_namespaced_config_map(CANARY, BODY, _request_timeout=5))(
            None
        )


def said(status: int, reason: str, headers: str = "", **details: Any) -> bytes:
    body = {"kind": "Status", "status": "Failure", "message": CANARY, "reason": reason, "details": details}
    return response(status, headers, json.dumps(body))


ANSWERS = [
    (said(307, "Moved"), "UPSTREAM_INVALID_RESPONSE", "unknown", None),
    (said(400, "BadRequest"), "UPSTREAM_REJECTED", "not_applied", None),
    (said(401, "Unauthorized"), "UPSTREAM_UNAUTHENTICATED", "not_applied", None),
    (said(402, "Paying"), "UPSTREAM_QUOTA_EXHAUSTED", "not_applied", None),
    (said(403, "Forbidden"), "UPSTREAM_PERMISSION_DENIED", "not_applied", None),
    (said(404, "NotFound"), "UPSTREAM_NOT_FOUND", "not_applied", None),
    (said(405, "MethodNotAllowed"), "UPSTREAM_UNIMPLEMENTED", "not_applied", None),
    (said(407, "Proxy"), "UPSTREAM_UNAUTHENTICATED", "not_applied", None),
    (said(408, "Timeout"), "UPSTREAM_TIMEOUT", "unknown", None),
    (said(409, "AlreadyExists"), "ALREADY_EXISTS", "not_applied", None),
    (said(409, "Conflict"), "UPSTREAM_CONFLICT", "not_applied", None),
    (said(410, "Gone"), "UPSTREAM_NOT_FOUND", "not_applied", None),
    (said(412, "Precondition"), "UPSTREAM_PRECONDITION_FAILED", "not_applied", None),
    (said(422, "Invalid"), "UPSTREAM_REJECTED", "not_applied", None),
    (said(428, "Precondition"), "UPSTREAM_PRECONDITION_FAILED", "not_applied", None),
    (said(429, "TooManyRequests", "retry-after: 7\r\n"), "UPSTREAM_RATE_LIMITED", "not_applied", 7),
    (said(500, "InternalError"), "UPSTREAM_ERROR", "unknown", None),
    (said(501, "NotImplemented"), "UPSTREAM_UNIMPLEMENTED", "not_applied", None),
    (said(502, "Gateway"), "UPSTREAM_UNAVAILABLE", "unknown", None),
    (said(503, "ServiceUnavailable"), "UPSTREAM_UNAVAILABLE", "unknown", None),
    (said(504, "Timeout"), "UPSTREAM_TIMEOUT", "unknown", None),
    (response(409), "UPSTREAM_CONFLICT", "not_applied", None),
]


@pytest.mark.parametrize("call", [create, aio_create, dynamic_create])
def test_statuses(lines: Lines, call: Any) -> None:
    """A status has its meaning in each of the clients, and a conflict that of its reason; the wait is the server's."""
    with serving(Upstream()) as upstream:
        found = failures(PACK, lines, in_turn(upstream, [row[0] for row in ANSWERS], lambda: call(upstream.url)))
    assert [(one.code, one.outcome, one.retry_after) for one in found] == [row[1:] for row in ANSWERS]


def test_reading_is_repeated(lines: Lines) -> None:
    """A tool that only reads is told the wait of a server that is unavailable."""
    with serving(Upstream(said(503, "ServiceUnavailable", "retry-after: 7\r\n"))) as upstream:
        found = failure(PACK, lines, lambda: create(upstream.url), effect="read")
    assert (found.code, found.retryable, found.retry_after) == ("UPSTREAM_UNAVAILABLE", True, 7)


def test_fields(lines: Lines) -> None:
    """An object that is invalid is so in named fields; what was chosen as the key of a label is not shown."""
    names = ("spec.containers[0].image", f"metadata.labels[{CANARY}]", f"a {CANARY}")
    causes = [{"reason": "FieldValueInvalid", "message": CANARY, "field": name} for name in names]
    with serving(Upstream(said(422, "Invalid", causes=causes))) as upstream:
        found = failure(PACK, lines, lambda: create(upstream.url))
    assert (found.code, found.details) == ("UPSTREAM_REJECTED", {"fields": "spec.containers[0].image"})
    assert found.message.endswith("(status 422).")


def test_tls(lines: Lines) -> None:
    """A handshake that fails is told apart from an answer that cannot be read: both have the status 0."""
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        found = failure(PACK, lines, lambda: create(upstream.url.replace("http:", "https:")))
        assert (found.code, found.outcome) == ("TLS_FAILED", "not_applied")
    with serving(Upstream(response(200).replace(b"text/plain", b"image/jpeg"))) as upstream:
        found = failure(PACK, lines, lambda: create(upstream.url))
        assert (found.code, found.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")


def test_before_the_request(lines: Lines, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Without a configuration, or with arguments that do not go together, nothing is sent."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    rest = client.rest.RESTClientObject(client.Configuration())
    for action, code in (
        (config.load_incluster_config, "UPSTREAM_UNAUTHENTICATED"),
        (lambda: config.load_kube_config(str(tmp_path / CANARY)), "UPSTREAM_UNAUTHENTICATED"),
        (lambda: rest.request("POST", CANARY, body=CANARY, post_params=[(CANARY, CANARY)]), "REQUEST_INVALID"),
    ):
        found = failure(PACK, lines, action)
        assert (found.code, found.outcome) == (code, "not_applied")


def test_dynamic_client(lines: Lines, tmp_path: Any) -> None:
    """A kind of thing that the cluster does not have is not found."""
    discovered = {"kind": "APIResourceList", "versions": [], "groups": [], "resources": []}
    with serving(
        Upstream(response(200, body=json.dumps(discovered)).replace(b"text/plain", b"application/json"))
    ) as upstream:

        def look() -> None:
            with client.ApiClient(settings(client, upstream.url)) as api:
                dynamic.DynamicClient(api, str(tmp_path / "cache")).resources.get(api_version="v1", kind=CANARY)

        assert failure(PACK, lines, look).code == "UPSTREAM_NOT_FOUND"


def test_a_file_of_objects(lines: Lines) -> None:
    """Of several objects some may have been made."""
    with serving(Upstream(said(403, "Forbidden"))) as upstream, client.ApiClient(settings(client, upstream.url)) as api:
        found = failure(PACK, lines, lambda: utils.create_from_dict(api, BODY), effect="write")
    assert (found.code, found.outcome, found.retryable) == ("UPSTREAM_ERROR", "unknown", False)


@pytest.mark.parametrize(
    ("exc", "code", "outcome"),
    [
        (client.ApiTypeError(CANARY), "REQUEST_INVALID", "not_applied"),
        (client.ApiException(409, body=json.dumps({"reason": "AlreadyExists"})), "ALREADY_EXISTS", "unknown"),
        (client.ApiException(409, body=CANARY), "UPSTREAM_CONFLICT", "unknown"),
    ],
)
def test_made_by_hand(lines: Lines, exc: Exception, code: str, outcome: str) -> None:
    """Older clients check the types of arguments with exceptions of their own, and have one for all statuses."""

    def fail() -> None:
        raise exc

    found = failure(PACK, lines, fail)
    assert (found.code, found.outcome) == (code, outcome)


def test_names() -> None:
    """Every row is a class of the installed library, and means the same in aio; a connection that fails is none."""
    for name in PACK.rows:
        module, _, kind = name.rpartition(".")
        assert getattr(importlib.import_module(module), kind).__module__ == module
        assert ".aio." in name or PACK.rows[name.replace("kubernetes.", "kubernetes.aio.")] is PACK.rows[name]
    made = {dynamically.api_exception(client.ApiException(status=status)) for status in range(400, 600)}
    assert {f"{type(exc).__module__}.{type(exc).__qualname__}" for exc in made} <= set(PACK.rows)
    with pytest.raises(urllib3.exceptions.HTTPError):
        create("http://127.0.0.1:1")
