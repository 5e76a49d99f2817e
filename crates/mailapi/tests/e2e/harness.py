"""A real server for one story, and helpers that every story uses."""

import contextlib
import imaplib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

PASSWORD = "correct horse battery"
DOMAIN = "story.test"


class Server:
    """The binary that MAILAPI_BINARY names, on free ports of the loopback and in a directory of its own."""

    def __init__(self, directory, settings=None):
        self.directory = directory
        self.settings = settings or {}
        self.data = os.path.join(directory, "data")
        self.log = os.path.join(directory, "server.log")
        self.process = None
        self.token = None
        self.running = None
        self.shown = ""

    def environment(self):
        settings = {
            "DATA_DIR": self.data,
            "HTTP__LISTEN": "127.0.0.1:0",
            "MAIL__EMBEDDED__SMTP_LISTEN": "127.0.0.1:0",
            "MAIL__EMBEDDED__SUBMISSION_LISTEN": "127.0.0.1:0",
            "MAIL__EMBEDDED__IMAP_LISTEN": "127.0.0.1:0",
            "LIMITS__REQUESTS_PER_MINUTE": "0",
            "LIMITS__REQUESTS_PER_HOUR": "0",
            "ADVANCED__AUTH__PASSWORD_ROUNDS": "1000",
            **self.settings,
        }
        ours = {"MAILAPI_" + name: value for name, value in settings.items()}
        return {**{k: v for k, v in os.environ.items() if not k.startswith("MAILAPI_")}, **ours}

    def _spawn(self, log_format):
        self.process = subprocess.Popen(
            [os.environ["MAILAPI_BINARY"], "serve", "--log-format", log_format],
            stdout=subprocess.PIPE,
            env=self.environment(),
            cwd=self.directory,
            text=True,
        )

    def start_for_people(self, last_line):
        """Starts with the log for people, and keeps the output up to the given line."""
        self._spawn("human")
        for line in self.process.stdout:
            self.shown += line
            if last_line in line:
                break
        else:
            raise AssertionError("the server ended before it was ready")
        address = lambda name: self.shown.split(f"\n  {name} ")[1].split("\n")[0].strip()
        self.api_url = address("API")
        self.smtp, self.submission, self.imap = map(split_address, map(address, ("SMTP", "submission", "IMAP")))
        with open(os.path.join(self.data, "admin-token"), encoding="utf-8") as file:
            self.token = file.read().strip()
        threading.Thread(target=self._keep_log, daemon=True).start()

    def start(self):
        self._spawn("json")
        for line in self.process.stdout:
            event = json.loads(line)
            if event.get("message") == "first start":
                with open(event["admin_token_file"], encoding="utf-8") as file:
                    self.token = file.read().strip()
            if event.get("message") == "mailapi is running":
                self.running = event
                self.api_url = event["api"]
                self.smtp, self.submission, self.imap = (
                    split_address(event[name]) for name in ("smtp", "submission", "imap")
                )
                break
        else:
            raise AssertionError("the server ended before it was ready")
        threading.Thread(target=self._keep_log, daemon=True).start()

    def _keep_log(self):
        with open(self.log, "a", buffering=1, encoding="utf-8") as log:
            for line in self.process.stdout:
                log.write(line)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=120) == 0, "the server did not end cleanly"

    def run(self, *arguments, stdin=None):
        """A command of the command line on the same data; its standard output."""
        done = subprocess.run(
            [os.environ["MAILAPI_BINARY"], *arguments],
            input=stdin,
            env=self.environment(),
            cwd=self.directory,
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, f"mailapi {arguments}: {done.stderr}"
        return done.stdout

    def call(self, method, path, body=None):
        """One request to the API with the admin's token; status and answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.api_url + path, data=data, method=method)
        request.add_header("X-MAILAPI-TOKEN", self.token)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, parsed(response)
        except urllib.error.HTTPError as error:
            return error.code, parsed(error)

    def get(self, path):
        status, answer = self.call("GET", path)
        assert status == 200, (path, status, answer)
        return answer

    def create_people(self, *names, domain=DOMAIN):
        """A domain and mailboxes in it; their addresses."""
        status, answer = self.call("POST", "/domains", {"domain": domain})
        assert status == 201, answer
        addresses = [f"{name}@{domain}" for name in names]
        for address in addresses:
            status, answer = self.call("POST", "/users", {"email": address, "password": PASSWORD})
            assert status == 201, answer
        return addresses

    def messages(self, mailbox, folder="INBOX"):
        return self.get(f"/mailbox/{mailbox}/messages?folder={folder}")["messages"]

    @contextlib.contextmanager
    def logged_in(self, mailbox):
        """An IMAP connection."""
        client = imaplib.IMAP4(*self.imap)
        client.login(mailbox, PASSWORD)
        yield client
        client.logout()


def parsed(response):
    content = response.read()
    is_json = response.headers.get("Content-Type", "").startswith("application/json")
    return json.loads(content) if is_json else content


def split_address(address):
    host, port = address.rsplit(":", 1)
    return host.strip("[]"), int(port)


def ok(answer):
    """The data of an answer of imaplib that must be OK."""
    status, data = answer
    assert status == "OK", answer
    return data


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        sys.exit(f"not installed: {', '.join(missing)}")


def until(true, what):
    """Polls, as a client would, until background work has happened."""
    deadline = time.monotonic() + 30
    while not (answer := true()):
        assert time.monotonic() < deadline, what
    return answer


@contextlib.contextmanager
def running(settings=None, start=Server.start):
    """A fresh server; when the story fails, the end of the server's log is shown."""
    with tempfile.TemporaryDirectory(prefix="mailapi-story-") as directory:
        server = Server(directory, settings)
        start(server)
        try:
            yield server
            server.stop()
        except BaseException:
            server.process.kill()
            with contextlib.suppress(OSError), open(server.log, encoding="utf-8") as log:
                sys.stderr.write("".join(log.readlines()[-50:]))
            raise


def tell(story):
    """Runs a story against a fresh server, or against the one at MAILAPI_RUNNING."""
    if api := os.environ.get("MAILAPI_RUNNING"):
        server = Server("")
        server.api_url, server.token = api, os.environ["MAILAPI_RUNNING_TOKEN"]
        story(server)
        return
    with running() as server:
        story(server)
