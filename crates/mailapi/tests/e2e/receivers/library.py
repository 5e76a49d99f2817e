"""A receiver of webhooks that verifies with a library of PyPI: `library.py svix` or `library.py standardwebhooks`.

The environment has WEBHOOK_SECRET and JOURNAL. With FAILING, a seed, it fails half of the requests. Its first line is
its port. Each verified message is a line of the journal before it is answered."""

import contextlib
import http.server
import importlib
import json
import os
import random
import sys
import threading

webhooks = importlib.import_module(f"{sys.argv[1]}.webhooks")
verifier = webhooks.Webhook(os.environ["WEBHOOK_SECRET"])
chance = random.Random(os.environ["FAILING"]) if "FAILING" in os.environ else None
lock = threading.Lock()


class Receiver(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle(self):
        # A server that is killed resets its connections.
        with contextlib.suppress(ConnectionError):
            super().handle()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with lock:
            self.answer(self.status(body, dict(self.headers)))

    def status(self, body, headers):
        try:
            verifier.verify(body, headers)
        except webhooks.WebhookVerificationError as error:
            self.write({"refused": str(error)})
            return 401
        if chance and chance.random() < 0.5:
            return 500
        self.write({"headers": headers, "body": body.decode()})
        return 204

    def write(self, entry):
        with open(os.environ["JOURNAL"], "a", encoding="utf-8") as journal:
            journal.write(json.dumps(entry) + "\n")

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "0"))), Receiver)
print(server.server_port, flush=True)
server.serve_forever()
