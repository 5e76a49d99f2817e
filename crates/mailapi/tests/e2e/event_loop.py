"""The cursor loop in docs/events.md misses no event, also while it does not run."""

import os
import re
import subprocess
import sys

from harness import tell

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../docs/events.md")
LINES = 20


def program():
    with open(DOCUMENT, encoding="utf-8") as file:
        [source] = re.findall(r"^```python\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    assert source.count("\n") <= LINES, source
    return source


def send(server, sender, recipient):
    message = {"from": sender, "to": [recipient], "body": {"text": "Hello"}}
    status, answer = server.call("POST", "/mail/send", message)
    assert status == 202, answer
    return answer["message_id"]


def seen_until_delivered(server, message_id):
    """Runs the loop until it prints the delivery of a message. Returns the ids of the printed events."""
    environment = {**os.environ, "API_URL": server.api_url, "API_TOKEN": server.token}
    loop = subprocess.Popen(
        [sys.executable, "-u", "-c", program()], cwd=server.directory, env=environment, stdout=subprocess.PIPE, text=True
    )
    seen = []
    try:
        for line in loop.stdout:
            event_id, event_type, of_message = line.split()
            seen.append(event_id)
            if (event_type, of_message) == ("message.delivered", message_id):
                return seen
    finally:
        loop.kill()
        loop.communicate()
    raise AssertionError(f"the loop ended after {seen}")


def story(server):
    ann, bob = server.create_people("ann", "bob")
    first = send(server, ann, bob)
    seen = seen_until_delivered(server, first)
    # The loop does not run while this message is sent.
    second = send(server, bob, ann)
    seen += seen_until_delivered(server, second)
    events = server.get("/events?after=start&types=message.*")["events"]
    kinds = {(event["data"].get("message_id"), event["type"]) for event in events}
    for message_id in (first, second):
        assert {(message_id, "message.accepted"), (message_id, "message.delivered")} <= kinds, events
    missing = {event["id"] for event in events} - set(seen)
    assert not missing, (missing, seen)


if __name__ == "__main__":
    tell(story)
