"""Schemathesis, over the whole OpenAPI document with all of its checks on, finds nothing to complain about.

How it is set up, and where a rule of the interface is beyond what a schema can say, is written in schemathesis/.
"""

import os
import subprocess
import sys

from harness import PASSWORD, running

HERE = os.path.dirname(os.path.abspath(__file__))
SETUP = os.path.join(HERE, "schemathesis")
# Each operation gets several examples, and ./test stays short.
EXAMPLES = os.environ.get("MAILAPI_SCHEMATHESIS_EXAMPLES", "15")
SEED = "20261120"
ROOT = "root@guard.test"
WITH_ATTACHMENT = {
    "from": "alice@example.test",
    "to": ["alice@example.test", "bob@example.test"],
    "subject": "The minutes",
    "body": {"text": "See attached."},
    "attachments": [{"filename": "minutes.txt", "content": "SGVsbG8h", "content_type": "text/plain"}],
}


def made(server, path, body, status=201):
    code, answer = server.call("POST", path, body)
    assert code == status, (path, code, answer)
    return answer


def populate(server):
    """Creates the records in the dictionaries of the set-up. Returns the variables of its hooks."""
    for domain in ["guard.test", "example.test", "example.com"]:
        made(server, "/domains", {"domain": domain})
    for email in [ROOT, "alice@example.test", "bob@example.test", "carol@guard.test", "eve@example.com"]:
        made(server, "/users", {"email": email, "password": PASSWORD})
    made(server, "/permissions", {"email": "alice@example.test", "permission": "view_stats", "domain": "example.com"})
    sent = [made(server, "/mail/send", WITH_ATTACHMENT, status=202) for _ in range(3)]
    # An admin's session: an admin token has no mailbox, and a user token is no admin's.
    server.token = made(server, "/auth/login", {"email": ROOT, "password": PASSWORD}, status=200)["token"]
    return {
        "GUARD_TOKEN": server.token,
        "GUARD_TOKEN_ID": str(server.get("/tokens/me")["id"]),
        "GUARD_LOGIN": f"{server.api_url}/auth/login",
        "GUARD_EMAIL": ROOT,
        "GUARD_PASSWORD": PASSWORD,
        "GUARD_MESSAGE_ID": sent[0]["message_id"],
        "GUARD_EVENT_ID": server.get("/events?after=start&limit=1")["events"][0]["id"],
    }


def schemathesis():
    """The program: where ./test puts it, or on the path."""
    ours = os.path.join(HERE, "../../../../target/schemathesis/bin/schemathesis")
    return os.environ.get("SCHEMATHESIS") or (ours if os.path.exists(ours) else "schemathesis")


def story(server):
    guarded = populate(server)
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": SETUP, **guarded}
    # Schemathesis does not test the operation from which it fetched the document, so it reads a file.
    document = os.path.join(server.directory, "openapi.json")
    with open(document, "w", encoding="utf-8") as file:
        file.write(server.run("openapi"))
    origin = server.api_url.removesuffix("/api/v1")
    settings = ["--config-file", os.path.join(SETUP, "schemathesis.toml")]
    # All checks are on, and naming them here would overrule the settings.
    options = ["--url", origin, "--max-examples", EXAMPLES, "--seed", SEED, "--no-color"]
    command = [schemathesis(), *settings, "run", document, *options]
    done = subprocess.run(command, env=environment, cwd=server.directory, text=True, capture_output=True, check=False)
    sys.stdout.write(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    me = server.get("/auth/me")
    assert (me["email"], me["token_type"]) == (ROOT, "admin"), "the token works until the end, with all rights"


if __name__ == "__main__":
    # The admin is a user, so the operations on the caller's own mailbox return data.
    with running({"AUTH__ADMINS": ROOT, "SECURITY__ANALYSIS": "true"}) as server:
        story(server)
