"""A receiver that verifies with the library of Standard Webhooks, and receivers that fail in every way."""

import contextlib
import glob
import http.server
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
import threading
import time

from harness import needs, tell, until

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "../../../..")
sys.path += glob.glob(os.path.join(ROOT, "target/schemathesis/lib/python*/site-packages"))

from standardwebhooks.webhooks import Webhook  # noqa: E402 (./test installs it there)

MESSAGES = 20
LARGE = 64 << 20


class Receiver(http.server.BaseHTTPRequestHandler):
    """Answers by the path; `server.got` has the verified events of each path."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        event = Webhook(self.server.secrets[self.path]).verify(body, dict(self.headers))
        assert event["id"] == self.headers["webhook-id"]
        seen = self.server.got.setdefault(self.path, [])
        if self.path == "/half" and event["id"] not in self.server.failed and len(self.server.failed) < MESSAGES:
            self.server.failed.add(event["id"])
            return self.answer(500)
        seen.append(event)
        if self.path == "/hang":
            self.server.ended.wait(60)
        if self.path == "/redirect":
            return self.answer(307, {"Location": f"http://127.0.0.1:{self.server.server_port}/target"})
        if self.path == "/large":
            return self.large()
        return self.answer(410 if self.path == "/gone" else 204)

    def answer(self, status, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": "0", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def large(self):
        self.send_response(200)
        self.send_header("Content-Length", str(LARGE))
        self.end_headers()
        self.close_connection = True
        # The sender stops reading.
        with contextlib.suppress(OSError):
            for _ in range(LARGE >> 20):
                self.wfile.write(bytes(1 << 20))

    def log_message(self, *_):
        pass


def register(server, url, **more):
    status, webhook = server.call("POST", "/webhooks", {"url": url, "types": ["message.*"], **more})
    assert status == 201, webhook
    return webhook


def documented(language):
    """The receiver of docs/webhooks.md."""
    with open(os.path.join(ROOT, "docs/webhooks.md"), encoding="utf-8") as page:
        return re.search(f"```{language}\n(.*?)```", page.read(), re.DOTALL)[1]


@contextlib.contextmanager
def running_receiver(server, command, source, suffix, port):
    """A receiver of the documentation, as its own process; yields the lines that it prints."""
    path = os.path.join(server.directory, f"receiver{suffix}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    webhook = register(server, f"http://127.0.0.1:{port}/", enabled=False)
    environment = {**os.environ, "WEBHOOK_SECRET": webhook["secret"], "PORT": str(port)}
    process = subprocess.Popen([*command, path], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        test = lambda: server.call("POST", f"/webhooks/{webhook['id']}/test")[1]["delivered"]
        until(test, f"{suffix} accepts a message")
        yield json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


def story(server):
    alice, bob = server.create_people("alice", "bob")
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    receiver.got, receiver.failed, receiver.secrets, receiver.ended = {}, set(), {}, threading.Event()
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    paths = ["/ok", "/half", "/hang", "/redirect", "/gone", "/large"]
    webhooks = {path: register(server, f"http://127.0.0.1:{receiver.server_port}{path}") for path in paths}
    receiver.secrets = {path: webhook["secret"] for path, webhook in webhooks.items()}
    receiver.secrets["/target"] = "whsec_"
    begun = time.monotonic()
    for number in range(MESSAGES):
        message = {"from": alice, "to": [bob], "subject": str(number), "body": {"text": "x"}}
        status, answer = server.call("POST", "/mail/send", message)
        assert status == 202, answer

    log = until(lambda: finished(server), "every message is delivered")
    ids = [event["id"] for event in log]
    for path in ("/ok", "/large", "/half"):
        until(lambda: {event["id"] for event in receiver.got.get(path, [])} >= set(ids), f"{path} gets every event")
    assert time.monotonic() - begun < 25, "the receiver that hangs delays no other"
    assert sorted(event["id"] for event in receiver.got["/ok"]) == sorted(ids), "each event once"
    assert all(event in log for event in receiver.got["/ok"]), "the body of the log"
    assert receiver.failed, "one receiver failed"
    for path in ("/ok", "/half"):
        for message_id in {event["data"].get("message_id") for event in log} - {None}:
            of_message = lambda events: [event["id"] for event in events if event["data"].get("message_id") == message_id]
            assert of_message(receiver.got[path]) == of_message(log), f"{path}: the order of a message"

    state = lambda path: server.get(f"/webhooks/{webhooks[path]['id']}")
    until(lambda: state("/gone")["disabled_reason"] == "gone", "410 disables")
    until(lambda: state("/redirect")["last_error"] == "HTTP status 307", "a redirect is a failure")
    assert "/target" not in receiver.got and len(receiver.got["/gone"]) <= 8
    assert len(receiver.got["/hang"]) <= 8, "a receiver that hangs holds few connections"
    receiver.ended.set()

    for command, language, suffix in ((["python3", "-B"], "python", ".py"), (["node"], "typescript", ".mjs")):
        source = documented(language)
        assert len(source.strip().splitlines()) <= 15, language
        with running_receiver(server, command, source, suffix, free_port()) as event:
            assert event["type"] == "webhook.test", event


def finished(server):
    """The events of the log, once every message is delivered."""
    with contextlib.closing(sqlite3.connect(os.path.join(server.data, "mailapi.db"))) as database:
        rows = database.execute("SELECT body FROM events WHERE type LIKE 'message.%' ORDER BY number").fetchall()
    events = [json.loads(body) for (body,) in rows]
    delivered = [event for event in events if event["type"] == "message.delivered"]
    return events if len(delivered) >= MESSAGES else None


if __name__ == "__main__":
    needs("node")
    tell(story)
