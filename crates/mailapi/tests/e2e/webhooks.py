"""A receiver that verifies with the library of Standard Webhooks, receivers that fail in every way, and the receivers
of the documentation, of an admin and of a user."""

import contextlib
import glob
import http.server
import json
import os
import re
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from harness import needs, running, tell, until

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
def running_receiver(server, command, language, suffix, secret, port):
    """A receiver of the documentation, as its own process; yields what it prints, event by event."""
    source = documented(language)
    assert len(source.strip().splitlines()) <= 15, language
    path = os.path.join(server.directory, f"receiver{suffix}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    environment = {**os.environ, "WEBHOOK_SECRET": secret, "PORT": str(port)}
    process = subprocess.Popen([*command, path], env=environment, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: listens(port), f"{suffix} listens")
        yield map(json.loads, process.stdout)
    finally:
        process.kill()
        process.wait()


def listens(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10):
        return True
    return False


def free_port():
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        return listener.getsockname()[1]


def certificate(directory):
    """A certificate for this machine, and its key, in one file."""
    form, path = os.path.join(directory, "form"), os.path.join(directory, "hook.pem")
    with open(form, "w", encoding="utf-8") as file:
        file.write(
            "[req]\ndistinguished_name=name\nprompt=no\nx509_extensions=more\n[name]\nCN=hook\n"
            "[more]\nsubjectAltName=IP:127.0.0.1\nbasicConstraints=critical,CA:FALSE\n"
        )
    made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-keyout", path]
    new = subprocess.run(["openssl", "req", "-x509", "-config", form, *made], check=True, capture_output=True, text=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(new.stdout)
    return path


@contextlib.contextmanager
def behind_tls(pem, port):
    """TLS in front of a receiver; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    def forward(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def serve(connection):
        with contextlib.suppress(OSError), context.wrap_socket(connection, server_side=True) as client:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as receiver:
                threading.Thread(target=forward, args=(client, receiver), daemon=True).start()
                forward(receiver, client)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


@contextlib.contextmanager
def token_of(server, email):
    """The requests of this user."""
    status, made = server.call("POST", "/tokens", {"name": "receiver", "token_type": "user", "email": email})
    assert status == 201, made
    admin, server.token = server.token, made["token"]
    try:
        yield
    finally:
        server.token = admin


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


def documented_receivers(server, pem):
    alice, _ = server.create_people("alice", "bob")
    for receiver in ((["python3", "-B"], "python", ".py"), (["node"], "typescript", ".mjs")):
        port = free_port()
        webhook = register(server, f"http://127.0.0.1:{port}/", enabled=False)
        with running_receiver(server, *receiver, webhook["secret"], port) as printed:
            tested(server, webhook)
            assert next(printed)["type"] == "webhook.test"
        port = free_port()
        with token_of(server, alice), behind_tls(pem, port) as outside:
            webhook = register(server, f"https://127.0.0.1:{outside}/", enabled=False)
            with running_receiver(server, *receiver, webhook["secret"], port) as printed:
                status, enabled = server.call("POST", f"/webhooks/{webhook['id']}/enable")
                assert (status, enabled["enabled"]) == (200, True), enabled
                tested(server, webhook)
                assert [next(printed)["type"] for _ in range(2)] == ["webhook.challenge", "webhook.test"]
            status, deleted = server.call("DELETE", f"/webhooks/{webhook['id']}")
            assert status == 200, deleted


def tested(server, webhook):
    status, result = server.call("POST", f"/webhooks/{webhook['id']}/test")
    assert (status, result["delivered"], result["status"]) == (200, True, 200), result


def finished(server):
    """The events of the log, once every message is delivered."""
    with contextlib.closing(sqlite3.connect(os.path.join(server.data, "mailapi.db"))) as database:
        rows = database.execute("SELECT body FROM events WHERE type LIKE 'message.%' ORDER BY number").fetchall()
    events = [json.loads(body) for (body,) in rows]
    delivered = [event for event in events if event["type"] == "message.delivered"]
    return events if len(delivered) >= MESSAGES else None


if __name__ == "__main__":
    needs("node", "openssl")
    tell(story)
    with tempfile.TemporaryDirectory() as directory:
        pem = certificate(directory)
        # The authorities that the server trusts.
        os.environ["SSL_CERT_FILE"] = pem
        with running({"WEBHOOKS__ALLOW_NETWORKS": "127.0.0.0/8"}) as server:
            documented_receivers(server, pem)
