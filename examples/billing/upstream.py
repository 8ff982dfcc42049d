"""The payment API, somebody else's service: its own process, its own log, its own moods.

    python upstream.py --log upstream.jsonl [--port N]

Prints its URL once it listens. How it treats a charge depends on the invoice, see `MOODS`.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

MOODS = {
    "INV-1003": "declines_cards",
    "INV-1004": "overloaded",  # 503 to everything about this invoice
    "INV-1005": "silent",  # takes the money, and never answers in time
}
SILENCE_SECONDS = 60


class PaymentAPI(ThreadingHTTPServer):
    """`POST /charges` and `GET /payments/<invoice id>`."""

    daemon_threads = True  # do not wait for the silent ones on the way out

    def __init__(self, port: int, log: Path) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.charged: dict[str, int] = {}
        self._log = log
        self._lock = threading.Lock()

    def record(self, invoice_id: str, amount: int) -> str:
        """Take the money."""
        with self._lock:
            self.charged[invoice_id] = self.charged.get(invoice_id, 0) + amount
        return f"PAY-{invoice_id.removeprefix('INV-')}-{self.charged[invoice_id]}"

    def write_log(self, line: dict[str, Any]) -> None:
        """Append one request, with the id that its sender gave it."""
        now = datetime.now(timezone.utc).isoformat()
        with self._lock, self._log.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"time": now, **line}) + "\n")


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: PaymentAPI

    def do_GET(self) -> None:
        """What was charged for an invoice so far."""
        self._log_request()
        _, _, invoice_id = self.path.partition("/payments/")
        if MOODS.get(invoice_id) == "overloaded":
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "overloaded"})
        elif invoice_id in self.server.charged:
            self._answer(HTTPStatus.OK, {"charged": self.server.charged[invoice_id]})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"error": "no payments"})

    def do_POST(self) -> None:
        """Charge an invoice."""
        self._log_request()
        charge = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        invoice_id, mood = charge["invoice_id"], MOODS.get(charge["invoice_id"])
        if mood == "declines_cards" and charge["method"] == "card":
            self._answer(HTTPStatus.PAYMENT_REQUIRED, {"reason": "card_expired"})
        elif mood == "overloaded":
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "overloaded"})
        else:
            payment_id = self.server.record(invoice_id, charge["amount"])
            if mood == "silent":
                time.sleep(SILENCE_SECONDS)
            self._answer(HTTPStatus.CREATED, {"payment_id": payment_id})

    def _log_request(self) -> None:
        # On arrival: the charge that is never answered has to be in the log as well.
        request_id = self.headers.get("X-Request-Id")
        self.server.write_log({"method": self.command, "path": self.path, "x_request_id": request_id})

    def _answer(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        payload = json.dumps(body).encode()
        with suppress(ConnectionError):  # the caller did not wait
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            if status == HTTPStatus.SERVICE_UNAVAILABLE:
                self.send_header("Retry-After", "2")
            self.end_headers()
            self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name for it
        """Say nothing on stderr: write_log has it all."""


def main() -> None:
    """Serve until terminated."""
    parser = argparse.ArgumentParser(description="The payment API of the billing example.")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes a free one")
    parser.add_argument("--log", type=Path, default=Path("upstream.jsonl"), help="one JSON line a request")
    options = parser.parse_args()
    api = PaymentAPI(options.port, options.log)
    print(f"http://127.0.0.1:{api.server_port}", flush=True)
    with suppress(KeyboardInterrupt):
        api.serve_forever()


if __name__ == "__main__":
    main()
