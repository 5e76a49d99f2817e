"""The code samples of the OpenAPI document work on a new server, in the order in which a user needs them."""

import json
import os
import subprocess
import sys

from harness import needs, running, until

# The Python samples use requests, which Schemathesis brings.
VENV = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../target/schemathesis/bin/python")
PYTHON = VENV if os.path.exists(VENV) else sys.executable
# Node runs them as JavaScript modules: the TypeScript samples need no type annotations.
RUN = {
    "shell": ("sh", ["sh", "-e"]),
    "python": ("py", [PYTHON, "-B"]),
    "typescript": ("mjs", ["node"]),
}
# Bob is not part of any sample.
BOB = {"email": "bob@example.test", "password": "correct horse battery staple"}


def samples(document, language):
    """Operation and source, in the order of the steps below."""
    found = {}
    for item in document["paths"].values():
        for operation in item.values():
            for sample in operation.get("x-codeSamples", []):
                if sample["lang"] == language:
                    found[operation["operationId"]] = sample["source"]
    steps = list(STEPS)
    assert sorted(found) == sorted(steps), sorted(set(found) ^ set(steps))
    return [(step, found[step]) for step in steps]


def is_sent(server):
    [message] = server.get("/mail/sent")["messages"]
    return message["from"] == "alice@example.test" and message["to"] == ["bob@example.test"]


def is_downloaded(server):
    with open(os.path.join(server.directory, "minutes.txt"), "rb") as file:
        return file.read() == b"Hello!"


# Each operation with its effect, or with a word of its output.
STEPS = {
    "create_domain": lambda server: server.get("/domains/example.test")["domain"]["active"],
    "create_user": lambda server: server.get("/users/alice@example.test")["user"]["name"] == "Alice Lee",
    "log_in": "maps_",
    "create_token": "mapi_",
    "send_message": is_sent,
    "get_message_status": "recipients",
    "list_sent_messages": "Meeting minutes",
    "list_messages": "Meeting minutes",
    "get_message": "See attached.",
    "download_attachment": is_downloaded,
    "search_messages": "INBOX",
    "get_delivery_stats": "example.test",
}


def run(server, language, operation, source, message_id):
    extension, command = RUN[language]
    assert "http://127.0.0.1:8080/api/v1" in source, source
    path = os.path.join(server.directory, f"{operation}.{extension}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source.replace("http://127.0.0.1:8080/api/v1", server.api_url))
    environment = {**os.environ, "MAILAPI_TOKEN": server.token, "MESSAGE_ID": message_id}
    done = subprocess.run(
        [*command, path], cwd=server.directory, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (language, operation, done)
    if language == "shell" and done.stdout:
        assert json.loads(done.stdout)["success"], (operation, done.stdout)
    return done.stdout


def story(server, language):
    message_id = ""
    for operation, source in samples(json.loads(server.run("openapi")), language):
        output = run(server, language, operation, source, message_id)
        effect = STEPS[operation]
        is_done = effect in output if isinstance(effect, str) else effect(server)
        assert is_done, (language, operation, output)
        if operation == "create_user":
            status, answer = server.call("POST", "/users", BOB)
            assert status == 201, answer
        if operation == "send_message":
            message_id = server.get("/mail/sent")["messages"][0]["message_id"]
            until(lambda: server.get("/stats/delivery?group_by=domain")["breakdown"], "the message is counted")


if __name__ == "__main__":
    needs("sh", "curl", "node")
    for each in RUN:
        with running() as server:
            story(server, each)
