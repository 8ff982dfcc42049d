"""botocore fails against a server on loopback, and against moto, and the pack says what that means."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore import exceptions, parsers
from botocore.config import Config
from botocore.session import Session
from moto import mock_aws

import iserror
from iserror import Failure
from tests.conftest import Lines
from tests.packs.failing import CANARY, failure, failures
from tests.packs.upstream import Upstream, free_port, in_turn, response, serving, stalled_connect

PACK = iserror.packs.botocore
# moto and botocore call what Python has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Aws:
    """Clients that make one attempt and know one key."""

    def __init__(self) -> None:
        self.session = Session()
        self.session.set_credentials(CANARY, CANARY)

    def client(self, service: str, url: str | None = None, attempts: int = 1, **settings: Any) -> Any:
        retries = {"total_max_attempts": attempts, "mode": "standard"}
        config = Config(retries=retries, proxies={}, s3={"addressing_style": "path"}, **settings)
        return self.session.create_client(service, region_name="eu-west-1", endpoint_url=url, config=config)


@pytest.fixture(scope="module")
def aws() -> Aws:
    return Aws()


@pytest.fixture(scope="module")
def served(aws: Aws) -> Iterator[tuple[Upstream, Any]]:
    with serving(Upstream()) as upstream:
        yield upstream, aws.client("dynamodb", f"http://127.0.0.1:{upstream.port}")


def put(client: Any) -> None:
    client.put_item(TableName=CANARY, Item={CANARY: {"S": CANARY}})


def answer(code: str, status: int = 400, headers: str = "", **more: Any) -> bytes:
    return response(status, headers, json.dumps({"__type": f"com.example#{code}", "message": CANARY, **more}))


LIMITED = ("UPSTREAM_RATE_LIMITED", "not_applied", True)
DENIED = ("UPSTREAM_PERMISSION_DENIED", "not_applied", False)
UNKNOWN_TO_IT = ("UPSTREAM_UNAUTHENTICATED", "not_applied", False)
NOT_FOUND = ("UPSTREAM_NOT_FOUND", "not_applied", False)
CONFLICT = ("UPSTREAM_CONFLICT", "not_applied", False)
EXISTS = ("ALREADY_EXISTS", "not_applied", False)
QUOTA = ("UPSTREAM_QUOTA_EXHAUSTED", "not_applied", False)


CODES = [
    ("Throttling", 400, LIMITED),
    ("ThrottlingException", 400, LIMITED),
    ("ThrottledException", 400, LIMITED),
    ("RequestThrottledException", 400, LIMITED),
    ("RequestThrottled", 403, LIMITED),
    ("TooManyRequestsException", 400, LIMITED),
    ("ProvisionedThroughputExceededException", 400, LIMITED),
    ("RequestLimitExceeded", 503, LIMITED),
    ("BandwidthLimitExceeded", 509, LIMITED),
    ("LimitExceededException", 400, LIMITED),
    ("SlowDown", 503, LIMITED),
    ("PriorRequestNotComplete", 400, LIMITED),
    ("EC2ThrottledException", 400, LIMITED),
    ("LimitExceeded", 409, QUOTA),
    ("ServiceQuotaExceededException", 402, QUOTA),
    ("AccessDenied", 403, DENIED),
    ("AccessDeniedException", 400, DENIED),
    ("KMSAccessDeniedException", 502, DENIED),
    ("UnauthorizedOperation", 403, DENIED),
    ("AuthorizationError", 403, DENIED),
    ("NotAuthorized", 400, DENIED),
    ("OptInRequired", 403, DENIED),
    ("AllAccessDisabled", 403, DENIED),
    ("AuthFailure", 401, UNKNOWN_TO_IT),
    ("ExpiredToken", 400, UNKNOWN_TO_IT),
    ("ExpiredTokenException", 400, UNKNOWN_TO_IT),
    ("IncompleteSignature", 400, UNKNOWN_TO_IT),
    ("InvalidAccessKeyId", 403, UNKNOWN_TO_IT),
    ("InvalidClientTokenId", 403, UNKNOWN_TO_IT),
    ("InvalidSignatureException", 400, UNKNOWN_TO_IT),
    ("InvalidToken", 400, UNKNOWN_TO_IT),
    ("MissingAuthenticationTokenException", 403, UNKNOWN_TO_IT),
    ("RequestExpired", 400, UNKNOWN_TO_IT),
    ("RequestTimeTooSkewed", 403, UNKNOWN_TO_IT),
    ("SignatureDoesNotMatch", 403, UNKNOWN_TO_IT),
    ("TokenRefreshRequired", 400, UNKNOWN_TO_IT),
    ("UnrecognizedClientException", 400, UNKNOWN_TO_IT),
    ("NoSuchWhatever", 400, NOT_FOUND),
    ("ResourceNotFoundException", 400, NOT_FOUND),
    ("InvalidInstanceID.NotFound", 400, NOT_FOUND),
    ("QueueDoesNotExist", 400, NOT_FOUND),
    ("AWS.SimpleQueueService.NonExistentQueue", 400, NOT_FOUND),
    ("EntityAlreadyExistsException", 409, EXISTS),
    ("BucketAlreadyOwnedByYou", 409, EXISTS),
    ("ConditionalCheckFailedException", 400, ("UPSTREAM_PRECONDITION_FAILED", "not_applied", False)),
    ("ResourceInUseException", 400, CONFLICT),
    ("ResourceConflictException", 400, CONFLICT),
    ("ConflictException", 400, CONFLICT),
    ("TransactionConflictException", 400, ("TRANSACTION_CONFLICT", "not_applied", True)),
    ("TransactionInProgressException", 400, ("UPSTREAM_CONFLICT", "unknown", False)),
    ("TransactionCanceledException", 400, ("UPSTREAM_REJECTED", "not_applied", False)),
    ("RequestTimeout", 400, ("UPSTREAM_TIMEOUT", "unknown", False)),
    ("InternalError", 400, ("UPSTREAM_ERROR", "unknown", False)),
    ("InternalFailure", 400, ("UPSTREAM_ERROR", "unknown", False)),
    ("InternalServerError", 400, ("UPSTREAM_ERROR", "unknown", False)),
    ("ServiceUnavailable", 400, ("UPSTREAM_UNAVAILABLE", "unknown", False)),
    ("UnknownOperationException", 400, ("UPSTREAM_UNIMPLEMENTED", "not_applied", False)),
    ("ValidationException", 400, ("UPSTREAM_REJECTED", "not_applied", False)),
    # Of a code that nobody knows, the status counts.
    (CANARY, 301, ("UPSTREAM_INVALID_RESPONSE", "unknown", False)),
    (CANARY, 401, UNKNOWN_TO_IT),
    (CANARY, 402, QUOTA),
    (CANARY, 403, DENIED),
    (CANARY, 404, NOT_FOUND),
    (CANARY, 405, ("UPSTREAM_UNIMPLEMENTED", "not_applied", False)),
    (CANARY, 408, ("UPSTREAM_TIMEOUT", "unknown", False)),
    (CANARY, 409, CONFLICT),
    (CANARY, 412, ("UPSTREAM_PRECONDITION_FAILED", "not_applied", False)),
    (CANARY, 418, ("UPSTREAM_REJECTED", "not_applied", False)),
    (CANARY, 429, LIMITED),
    (CANARY, 500, ("UPSTREAM_ERROR", "unknown", False)),
    (CANARY, 501, ("UPSTREAM_UNIMPLEMENTED", "not_applied", False)),
    (CANARY, 502, ("UPSTREAM_UNAVAILABLE", "unknown", False)),
    (CANARY, 503, ("UPSTREAM_UNAVAILABLE", "unknown", False)),
    (CANARY, 504, ("UPSTREAM_TIMEOUT", "unknown", False)),
]


def test_codes(lines: Lines, served: tuple[Upstream, Any]) -> None:
    """A code counts before the status, with `Exception` at its end or without, and by what services add to it."""
    upstream, client = served
    answers = [answer(code, status) for code, status, _ in CODES]
    said = failures(PACK, lines, in_turn(upstream, answers, lambda: put(client)))
    assert [(one.code, one.outcome, one.retryable) for one in said] == [row[2] for row in CODES]


@pytest.mark.parametrize(
    ("reasons", "code", "retryable"),
    [
        (["None", "ConditionalCheckFailed"], "UPSTREAM_PRECONDITION_FAILED", False),
        (["TransactionConflict", "ConditionalCheckFailed"], "UPSTREAM_PRECONDITION_FAILED", False),
        (["DuplicateItem", "None"], "ALREADY_EXISTS", False),
        (["None", "TransactionConflict"], "TRANSACTION_CONFLICT", True),
        (["ThrottlingError"], "UPSTREAM_RATE_LIMITED", True),
        (["ProvisionedThroughputExceeded", "None"], "UPSTREAM_RATE_LIMITED", True),
        (["ValidationError"], "UPSTREAM_REJECTED", False),
        ([], "UPSTREAM_REJECTED", False),
    ],
)
def test_transactions(
    lines: Lines, served: tuple[Upstream, Any], reasons: list[str], code: str, retryable: bool
) -> None:
    """A transaction is cancelled for the reason that does not go away by itself."""
    upstream, client = served
    said = [{"Code": reason, "Message": CANARY} for reason in reasons]
    upstream.answer = answer("TransactionCanceledException", CancellationReasons=said)
    found = failure(
        PACK,
        lines,
        lambda: client.transact_write_items(
            TransactItems=[{"Delete": {"TableName": CANARY, "Key": {"k": {"S": "v"}}}}]
        ),
    )
    assert (found.code, found.outcome, found.retryable) == (code, "not_applied", retryable)


def test_waits(lines: Lines, served: tuple[Upstream, Any]) -> None:
    """A server says how long to wait, in seconds or in AWS's header."""
    upstream, client = served
    headers = ("retry-after: 7\r\n", "x-amz-retry-after: 250\r\n", "")
    for code, status, effect in (("SlowDown", 503, "write"), (CANARY, 429, "write"), (CANARY, 503, "read")):
        answers = [answer(code, status, header) for header in headers]
        said = failures(PACK, lines, in_turn(upstream, answers, lambda: put(client)), effect=effect)
        assert [one.retry_after for one in said] == [7, 0.25, None]


def test_a_repeat(lines: Lines, aws: Aws) -> None:
    """What botocore sent twice may have worked at first: a refusal that this explains says nothing of the outcome."""
    unavailable = Upstream(answer("InternalServerError", 500))

    def refusing(code: str, status: int) -> Failure:
        upstream.answer = answer("InternalServerError", 500)
        client = aws.client("dynamodb", f"http://127.0.0.1:{upstream.port}", attempts=2)

        def then(**_: Any) -> None:
            upstream.answer = answer(code, status)

        client.meta.events.register("needs-retry.dynamodb.PutItem", then)
        return failure(PACK, lines, lambda: put(client))

    with serving(unavailable) as upstream:
        for code, status, said in (
            ("ConditionalCheckFailedException", 400, "UPSTREAM_PRECONDITION_FAILED"),
            ("ResourceNotFoundException", 400, "UPSTREAM_NOT_FOUND"),
            ("NoSuchTag", 400, "UPSTREAM_NOT_FOUND"),
            ("ItAlreadyExists", 400, "ALREADY_EXISTS"),
            (CANARY, 404, "UPSTREAM_NOT_FOUND"),
            (CANARY, 409, "UPSTREAM_CONFLICT"),
            (CANARY, 412, "UPSTREAM_PRECONDITION_FAILED"),
            ("AccessDenied", 403, "UPSTREAM_PERMISSION_DENIED"),
        ):
            found = refusing(code, status)
            assert (found.code, found.outcome) == (said, "unknown")


def test_nothing_was_sent(lines: Lines, aws: Aws) -> None:
    """A refused connection, a name that does not exist, a connect timeout, a proxy that is not there."""
    listener, port = stalled_connect()
    gone = f"http://127.0.0.1:{free_port()}"
    clients = [
        aws.client("dynamodb", gone),
        aws.client("dynamodb", f"http://{CANARY}.invalid"),
        aws.client("dynamodb", f"http://127.0.0.1:{port}", connect_timeout=0.1),
    ]
    with serving(Upstream(response(200))) as upstream:
        config = Config(retries={"total_max_attempts": 1}, proxies={"http": gone})
        url = f"http://127.0.0.1:{upstream.port}"
        clients.append(aws.session.create_client("dynamodb", "eu-west-1", endpoint_url=url, config=config))
        for client in clients:
            said = failure(PACK, lines, lambda: put(client))
            assert (said.code, said.outcome, said.retryable) == ("DEPENDENCY_UNAVAILABLE", "not_applied", True)
        assert upstream.requests == []
    listener.close()


@pytest.mark.parametrize(
    ("upstream", "code"),
    [
        (Upstream(ends="stall"), "UPSTREAM_TIMEOUT"),
        (Upstream(ends="close"), "CONNECTION_LOST"),
        (Upstream(ends="reset"), "CONNECTION_LOST"),
        (Upstream(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "reset"), "CONNECTION_LOST"),
        (Upstream(b"no HTTP at all\r\n\r\n"), "CONNECTION_LOST"),
    ],
)
def test_it_was_sent(lines: Lines, aws: Aws, upstream: Upstream, code: str) -> None:
    """Where the server received the request and no good answer came, what it did is unknown."""
    with serving(upstream):
        client = aws.client("dynamodb", f"http://127.0.0.1:{upstream.port}", read_timeout=upstream.patience)
        said = failure(PACK, lines, lambda: put(client))
    assert len(upstream.requests) == 1
    assert (said.code, said.outcome, said.retryable) == (code, "unknown", False)


def test_tls(lines: Lines, aws: Aws) -> None:
    """A handshake that fails is told apart from a connection that fails."""
    with serving(Upstream(b"no TLS", reads=False)) as upstream:
        client = aws.client("dynamodb", f"https://127.0.0.1:{upstream.port}")
        said = failure(PACK, lines, lambda: put(client))
    assert (said.code, said.outcome) == ("TLS_FAILED", "not_applied")


def test_answers_that_cannot_be_read(lines: Lines, aws: Aws) -> None:
    """XML that is none, checksums that are wrong, a body that is cut off while it streams, a page that comes twice."""
    with serving(Upstream(response(200))) as upstream:
        url = f"http://127.0.0.1:{upstream.port}"
        iam = aws.client("iam", url)
        dynamodb = aws.session.create_client(
            "dynamodb",
            "eu-west-1",
            endpoint_url=url,
            config=Config(retries={"total_max_attempts": 1, "mode": "legacy"}),
        )
        s3 = aws.client("s3", url, response_checksum_validation="when_supported")
        for action, headers in (
            (lambda: iam.list_users(), ""),
            (lambda: put(dynamodb), "x-amz-crc32: 1\r\n"),
            (lambda: s3.get_object(Bucket=CANARY, Key=CANARY)["Body"].read(), "x-amz-checksum-crc32: AAAAAA==\r\n"),
        ):
            upstream.answer = response(200, headers)
            said = failure(PACK, lines, action)
            assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")

        upstream.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nshort"
        said = failure(PACK, lines, lambda: s3.get_object(Bucket=CANARY, Key=CANARY)["Body"].read())
        assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")
        upstream.ends = "reset"
        said = failure(PACK, lines, lambda: s3.get_object(Bucket=CANARY, Key=CANARY)["Body"].read())
        assert (said.code, said.outcome) == ("CONNECTION_LOST", "unknown")

        upstream.answer, upstream.ends = response(200, body=json.dumps({"LastEvaluatedTableName": CANARY})), "close"
        dynamodb = aws.client("dynamodb", f"http://127.0.0.1:{upstream.port}")
        said = failure(PACK, lines, lambda: list(dynamodb.get_paginator("list_tables").paginate()))
        assert (said.code, said.outcome) == ("UPSTREAM_INVALID_RESPONSE", "unknown")


def test_waiters(lines: Lines, served: tuple[Upstream, Any]) -> None:
    """A waiter that gives up is a timeout; one that sees a failure is a failure."""
    upstream, client = served
    upstream.answer = answer("ResourceNotFoundException")
    waiter = client.get_waiter("table_exists")
    once = {"Delay": 0, "MaxAttempts": 1}
    assert failure(PACK, lines, lambda: waiter.wait(TableName=CANARY, WaiterConfig=once)).code == "UPSTREAM_TIMEOUT"
    upstream.answer = answer("ValidationException")
    said = failure(PACK, lines, lambda: waiter.wait(TableName=CANARY, WaiterConfig=once), effect="read")
    assert (said.code, said.retryable) == ("UPSTREAM_ERROR", False)


def test_before_the_request(lines: Lines, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials, half of them, no region, parameters that do not fit: the operator has to mend it."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", f"/nowhere/{CANARY}")
    nobody = Session().create_client("dynamodb", "eu-west-1")
    for action, code in (
        (lambda: put(nobody), "UPSTREAM_UNAUTHENTICATED"),
        (lambda: Session(profile=CANARY).create_client("dynamodb", "eu-west-1"), "UPSTREAM_UNAUTHENTICATED"),
        (lambda: Session().create_client("dynamodb", "eu-west-1", aws_access_key_id="x"), "UPSTREAM_UNAUTHENTICATED"),
        (lambda: Session().create_client("dynamodb"), "REQUEST_INVALID"),
        (lambda: Session().create_client("dynamodb", f"not a {CANARY}"), "REQUEST_INVALID"),
        (lambda: aws.client("dynamodb").put_item(TableName=CANARY, Item=CANARY), "REQUEST_INVALID"),
    ):
        said = failure(PACK, lines, action)
        assert (said.code, said.outcome) == (code, "not_applied")
        stop = code == "UPSTREAM_UNAUTHENTICATED"
        assert said.advice == ("stop and tell the user" if stop else "do not repeat it unchanged")


@mock_aws
def test_moto(lines: Lines, aws: Aws) -> None:
    """What moto's services answer is read in the same way: S3 in XML, DynamoDB in JSON, SQS, IAM, EC2 and STS."""
    s3, dynamodb, sqs = aws.client("s3"), aws.client("dynamodb"), aws.client("sqs")
    here = {"LocationConstraint": "eu-west-1"}
    s3.create_bucket(Bucket=CANARY, CreateBucketConfiguration=here)
    table = {
        "TableName": CANARY,
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        "BillingMode": "PAY_PER_REQUEST",
    }
    dynamodb.create_table(**table)
    item = {"TableName": CANARY, "Item": {"id": {"S": CANARY}}, "ConditionExpression": "attribute_not_exists(id)"}
    dynamodb.put_item(**item)
    cases = [
        (lambda: s3.get_object(Bucket=CANARY, Key=CANARY), "UPSTREAM_NOT_FOUND"),
        (lambda: s3.get_object(Bucket=f"{CANARY}-2", Key=CANARY), "UPSTREAM_NOT_FOUND"),
        (lambda: s3.head_object(Bucket=CANARY, Key=CANARY), "UPSTREAM_NOT_FOUND"),
        (lambda: s3.create_bucket(Bucket=CANARY, CreateBucketConfiguration=here), "ALREADY_EXISTS"),
        (lambda: dynamodb.put_item(**item), "UPSTREAM_PRECONDITION_FAILED"),
        (lambda: dynamodb.transact_write_items(TransactItems=[{"Put": item}]), "UPSTREAM_PRECONDITION_FAILED"),
        (lambda: dynamodb.create_table(**table), "UPSTREAM_CONFLICT"),
        (lambda: dynamodb.describe_table(TableName=f"{CANARY}2"), "UPSTREAM_NOT_FOUND"),
        (lambda: dynamodb.get_item(TableName=CANARY, Key={"no": {"S": "x"}}), "UPSTREAM_REJECTED"),
        (lambda: sqs.get_queue_url(QueueName=CANARY), "UPSTREAM_NOT_FOUND"),
        (lambda: aws.client("iam").get_role(RoleName=CANARY), "UPSTREAM_NOT_FOUND"),
        (lambda: aws.client("ec2").terminate_instances(InstanceIds=["i-0123456789abcdef0"]), "UPSTREAM_NOT_FOUND"),
    ]
    said = failures(PACK, lines, [action for action, _ in cases])
    assert [(one.code, one.outcome) for one in said] == [(code, "not_applied") for _, code in cases]


def raising(exc: Exception) -> Any:
    def action() -> None:
        raise exc

    return action


@pytest.mark.parametrize(
    ("exc", "code", "outcome"),
    [
        (exceptions.EventStreamError({"Error": {"Code": CANARY}}, CANARY), "UPSTREAM_ERROR", "unknown"),
        (exceptions.ConnectionError(error=CANARY), "DEPENDENCY_UNAVAILABLE", "not_applied"),
        (exceptions.UnseekableStreamError(stream_object=CANARY), "CONNECTION_LOST", "unknown"),
        (exceptions.UnknownEndpointError(service_name=CANARY, region_name=CANARY), "REQUEST_INVALID", "not_applied"),
        (exceptions.IncompleteReadError(actual_bytes=1, expected_bytes=2), "CONNECTION_LOST", "unknown"),
        (exceptions.ClientError({"Error": {"Code": "NoSuchKey"}}, CANARY), "UPSTREAM_NOT_FOUND", "unknown"),
        (exceptions.ClientError({}, CANARY), "UPSTREAM_INVALID_RESPONSE", "unknown"),
    ],
)
def test_made_by_hand(lines: Lines, exc: Exception, code: str, outcome: str) -> None:
    """What needs an event stream or an error of urllib3 that has no name; and a stub's error."""
    said = failure(PACK, lines, raising(exc))
    assert (said.code, said.outcome) == (code, outcome)


def test_credentials_made_by_hand(lines: Lines) -> None:
    """What needs a single sign-on, a login or a second factor: nothing is sent, and the operator is told."""
    words = dict.fromkeys(("provider", "cred_var", "error_msg", "name", "profile"), CANARY)
    names = (
        "CredentialRetrievalError",
        "LoginAuthorizationCodeError",
        "LoginError",
        "LoginInsufficientPermissions",
        "LoginRefreshRequired",
        "LoginTokenLoadError",
        "NoAuthTokenError",
        "RefreshWithMFAUnsupportedError",
        "SSOError",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
        "UnknownCredentialError",
    )
    said = failures(PACK, lines, [raising(getattr(exceptions, name)(**words)) for name in names])
    assert {(one.code, one.outcome) for one in said} == {("UPSTREAM_UNAUTHENTICATED", "not_applied")}


def test_names() -> None:
    """Every row is a class of the installed library."""
    for name in PACK.rows:
        module, _, kind = name.rpartition(".")
        assert getattr(parsers if module == "botocore.parsers" else exceptions, kind).__module__ == module
