"""The libraries that receivers use verify mailapi's webhooks, and refuse changed, foreign and old messages."""

import base64
import glob
import os
import sys
import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone

from harness import needs, tell
from receivers.process import LIBRARIES, NODE, PYTHON, Receiver

sys.path += glob.glob(os.path.join(LIBRARIES, "lib/python*/site-packages"))

from standardwebhooks.webhooks import Webhook  # noqa: E402 (./test installs it there)

OTHER_SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()
LIBRARIES_OF_V1 = {"standardwebhooks": [*PYTHON, "standardwebhooks"], "svix": [*PYTHON, "svix"], "npm": NODE}
OLD = timedelta(minutes=6)


def post(url, body, headers):
    """Sends a message as an attacker would; the status of the receiver."""
    request = urllib.request.Request(url, data=body.encode(), headers=headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def signed_headers(entry):
    headers = {name.lower(): value for name, value in entry["headers"].items()}
    return {name: value for name, value in headers.items() if name.startswith("webhook-")}


def register(server, signing):
    """A webhook whose receiver does not run yet: its key is known first. The number of the webhook, and the key."""
    body = {"url": "http://127.0.0.1:9/", "types": ["*"], "enabled": False, "signing": signing}
    status, webhook = server.call("POST", "/webhooks", body)
    assert status == 201, webhook
    return webhook["id"], webhook["secret"] or webhook["public_key"]


def test_message(server, webhook, receiver):
    """Sends a test message to the receiver; what the receiver verified."""
    status, answer = server.call("PUT", f"/webhooks/{webhook}", {"url": receiver.url})
    assert status == 200, answer
    before = len(receiver.arrivals())
    status, answer = server.call("POST", f"/webhooks/{webhook}/test")
    assert status == 200 and answer["delivered"], (answer, receiver.entries())
    [arrived] = receiver.arrivals()[before:]
    return arrived


def refuses(receiver, arrived, headers=None, body=None):
    before = len(receiver.refusals())
    status = post(receiver.url, body or arrived["body"], {**signed_headers(arrived), **(headers or {})})
    assert (status, len(receiver.refusals())) == (401, before + 1), (status, receiver.entries())


def refuses_forgeries(receiver, arrived):
    changed = arrived["body"].replace("webhook.test", "webhook.true")
    assert changed != arrived["body"]
    refuses(receiver, arrived, body=changed)
    refuses(receiver, arrived, headers={"webhook-id": "evt_00000000000000000000000000"})
    later = int(signed_headers(arrived)["webhook-timestamp"]) + 1
    refuses(receiver, arrived, headers={"webhook-timestamp": str(later)})
    # Without a change it is verified again: only the library's own memory would recognise a repetition.
    assert post(receiver.url, arrived["body"], signed_headers(arrived)) == 204


def refuses_an_old_message(receiver, arrived, secret):
    """The signature is right, so only the time is a reason."""
    identifier = signed_headers(arrived)["webhook-id"]
    for age, expected in ((timedelta(), 204), (OLD, 401)):
        at = datetime.now(tz=timezone.utc) - age
        signature = Webhook(secret).sign(identifier, at, arrived["body"])
        headers = {
            "webhook-id": identifier,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": signature,
        }
        assert post(receiver.url, arrived["body"], headers) == expected, (age, receiver.entries()[-1])
    assert "too old" in receiver.refusals()[-1], receiver.refusals()


def v1(server, name, command):
    webhook, secret = register(server, "v1")
    with Receiver(server.directory, name, command, secret) as receiver:
        arrived = test_message(server, webhook, receiver)
        refuses_forgeries(receiver, arrived)
        refuses_an_old_message(receiver, arrived, secret)
        # For a day after a rotation, receivers with either secret verify.
        status, rotated = server.call("POST", f"/webhooks/{webhook}/rotate")
        assert status == 200 and rotated["secret"] != secret, rotated
        test_message(server, webhook, receiver)
        with Receiver(server.directory, f"{name}-rotated", command, rotated["secret"]) as after:
            test_message(server, webhook, after)
    with Receiver(server.directory, f"{name}-stranger", command, OTHER_SECRET) as stranger:
        status, answer = server.call("PUT", f"/webhooks/{webhook}", {"url": stranger.url})
        assert status == 200, answer
        _, answer = server.call("POST", f"/webhooks/{webhook}/test")
        assert not answer["delivered"] and len(stranger.refusals()) == 1, (answer, stranger.entries())


def v1a(server):
    webhook, public_key = register(server, "v1a")
    with Receiver(server.directory, "v1a", [*NODE, "v1a"], public_key) as receiver:
        refuses_forgeries(receiver, test_message(server, webhook, receiver))
        status, rotated = server.call("POST", f"/webhooks/{webhook}/rotate")
        assert status == 200 and rotated["public_key"] != public_key, rotated
        test_message(server, webhook, receiver)


def story(server):
    for name, command in LIBRARIES_OF_V1.items():
        v1(server, name, command)
    v1a(server)


if __name__ == "__main__":
    needs("node")
    tell(story)
