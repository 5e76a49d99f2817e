"""The server is killed at random while messages are sent to three receivers of webhooks, of which one fails half of its
requests. Each event arrives at each receiver, in the order of its message, and all channels show the same events.

MAILAPI_KILLS is the number of kills: 3 by default, 100 for a run of some minutes."""

import collections
import contextlib
import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.parse

from harness import tell
from receivers.process import PYTHON, Receiver

KILLS = int(os.environ.get("MAILAPI_KILLS", "3"))
SEED = 20261123
SENDERS = 6
# Answers before a kill.
MOST_ANSWERS = 40
# Maximum time until all events have arrived.
PATIENCE = 120 + 5 * KILLS
# Both kinds of errors of a server that was killed: without a connection, and in the middle of an answer.
KILLED = (urllib.error.URLError, http.client.HTTPException, OSError, json.JSONDecodeError)


class Stream(threading.Thread):
    """Follows the event stream from the start of the log, and resumes where a kill ended it."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.cursor, self.seen, self.error = server, "0", [], None

    def run(self):
        while self.error is None:
            try:
                self.follow()
            except KILLED:
                # The server starts again on another port; a pause keeps the processor for it.
                time.sleep(0.05)
            except (AssertionError, KeyError, ValueError) as error:
                self.error = error

    def follow(self):
        address = urllib.parse.urlsplit(self.server.api_url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        headers = {"X-MAILAPI-TOKEN": self.server.token, "Last-Event-ID": self.cursor}
        with contextlib.closing(connection):
            connection.request("GET", f"{address.path}/events/stream", headers=headers)
            response = connection.getresponse()
            assert response.status == 200, response.read()
            fields = {}
            while line := response.readline():
                if line != b"\n":
                    name, _, value = line.decode().rstrip("\n").partition(": ")
                    fields[name] = value
                    continue
                # A piece without its end is not dispatched, so a torn one is read again.
                self.cursor = fields.get("id", self.cursor)
                if "data" in fields:
                    assert fields["event"] != "truncated"
                    self.seen.append((int(fields["id"].split("-")[0]), fields["data"]))
                fields = {}


class Sends:
    """Messages that are sent until the server is killed; `answered` has the ids of those that were answered."""

    def __init__(self, server, people):
        self.server, self.people, self.answered = server, people, []
        self.unexpected, self.stop = [], threading.Event()

    def send(self):
        sender, *recipients = self.people
        message = {"from": sender, "to": recipients, "body": {"text": "x"}}
        with contextlib.suppress(*KILLED):
            while not self.stop.is_set():
                status, answer = self.server.call("POST", "/mail/send", message)
                if status == 202:
                    self.answered.append(answer["message_id"])
                else:
                    self.unexpected.append(answer)

    def until_killed(self, answers):
        threads = [threading.Thread(target=self.send) for _ in range(SENDERS)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + PATIENCE
        while len(self.answered) < answers and not self.unexpected:
            assert time.monotonic() < deadline, "the server answers too few sends"
            time.sleep(0.001)
        self.server.process.kill()
        self.server.process.wait()
        self.stop.set()
        for thread in threads:
            thread.join()
        assert not self.unexpected, self.unexpected
        return self.answered


@contextlib.contextmanager
def received(server, name, failing=None):
    """A webhook with a running receiver, which starts with the webhook's secret."""
    body = {"url": "http://127.0.0.1:9/", "types": ["message.*"], "enabled": False}
    status, webhook = server.call("POST", "/webhooks", body)
    assert status == 201, webhook
    with Receiver(server.directory, name, [*PYTHON, "standardwebhooks"], webhook["secret"], failing) as receiver:
        change = {"url": receiver.url, "enabled": True}
        status, answer = server.call("PUT", f"/webhooks/{webhook['id']}", change)
        assert status == 200, answer
        yield webhook["id"], receiver


def listed(server):
    """All events of the log, by pages."""
    events, cursor = [], "start"
    while True:
        page = server.get(f"/events?after={cursor}&limit=1000")
        assert not page["truncated"]
        events += page["events"]
        cursor = page["cursor"]
        if not page["has_more"]:
            return events


def until_arrived(server, webhook, receiver, ids):
    """Waits until the receiver has all events. What failed is sent again at once instead of minutes later."""
    deadline, missing = time.monotonic() + PATIENCE, ids
    while missing := ids - {json.loads(entry["body"])["id"] for entry in receiver.arrivals()}:
        assert time.monotonic() < deadline, (len(missing), server.get(f"/webhooks/{webhook}"))
        replay(server, webhook, "failed")
        time.sleep(0.2)


def replay(server, webhook, only):
    status, answer = server.call("POST", f"/webhooks/{webhook}/replay", {"after": "0", "only": only})
    assert status == 200, answer


def of_messages(events):
    """The ids of the events of each message, in their order."""
    found = collections.defaultdict(list)
    for event in events:
        if "message_id" in event["data"]:
            found[event["data"]["message_id"]].append(event["id"])
    return found


def first_arrivals(receiver):
    """The bodies in the order of their first arrival."""
    return list(dict.fromkeys(entry["body"] for entry in receiver.arrivals()))


def check_receiver(name, receiver, by_id):
    """Each event arrived with the bytes of the stream, and those of a message in the order of the log."""
    assert not receiver.refusals(), receiver.refusals()
    bodies = first_arrivals(receiver)
    events = [json.loads(body) for body in bodies]
    assert {event["id"]: body for event, body in zip(events, bodies)} == by_id, name
    assert of_messages(events) == of_messages(map(json.loads, by_id.values())), f"{name}: the order of a message"
    for entry in receiver.arrivals():
        headers = {key.lower(): value for key, value in entry["headers"].items()}
        assert headers["webhook-id"] == json.loads(entry["body"])["id"], entry


def check_log(server, events, answered):
    """No event is missing: each message has those that its status implies."""
    types = collections.defaultdict(collections.Counter)
    for event in events:
        if "message_id" in event["data"]:
            types[event["data"]["message_id"]][event["type"]] += 1
    for message_id in answered:
        assert types[message_id] == {"message.accepted": 1, "message.delivered": 2}, (message_id, types[message_id])
    for message_id, order in of_messages(events).items():
        timeline = server.get(f"/mail/{message_id}/timeline")["events"]
        assert [event["id"] for event in timeline] == order, message_id
    assert len(answered) == len(set(answered))


def settled(server, answered):
    """Waits until every answered message is delivered; the log, which then does not grow."""
    deadline = time.monotonic() + PATIENCE
    while True:
        events = listed(server)
        delivered = collections.Counter(
            event["data"]["message_id"] for event in events if event["type"] == "message.delivered"
        )
        if all(delivered[message_id] == 2 for message_id in answered):
            if server.get("/mail/sent?status=pending")["total"] == 0 and len(listed(server)) == len(events):
                return events
        assert time.monotonic() < deadline, "not every message is delivered"


def kill_at_random(server, people):
    chance, answered = random.Random(SEED), []
    for _ in range(KILLS):
        answered += Sends(server, people).until_killed(chance.randrange(1, MOST_ANSWERS))
        server.start()
    return answered


def story(server):
    people = server.create_people("alice", "bob", "carol")
    stream = Stream(server)
    stream.start()
    with contextlib.ExitStack() as receivers:
        start = lambda name, failing=None: receivers.enter_context(received(server, name, failing))
        by_name = {"first": start("first"), "second": start("second"), "half": start("half", failing=SEED)}
        answered = kill_at_random(server, people)
        events = settled(server, answered)
        check_log(server, events, answered)

        deadline = time.monotonic() + PATIENCE
        while len(stream.seen) < len(events):
            assert stream.error is None and time.monotonic() < deadline, (stream.error, len(stream.seen))
            time.sleep(0.01)
        assert [cursor for cursor, _ in stream.seen] == list(range(1, len(events) + 1)), "one order without gaps"
        assert [json.loads(data) for _, data in stream.seen] == events, "the stream is the list"

        bodies = {event["id"]: data for event, (_, data) in zip(events, stream.seen)}
        by_id = {event["id"]: bodies[event["id"]] for event in events if event["type"].startswith("message.")}
        for name, (webhook, receiver) in by_name.items():
            until_arrived(server, webhook, receiver, set(by_id))
            check_receiver(name, receiver, by_id)

        # A receiver that lost everything gets the whole log again.
        webhook, late = start("late")
        replay(server, webhook, "all")
        until_arrived(server, webhook, late, set(by_id))
        check_receiver("late", late, by_id)
    print(f"{KILLS} kills, {len(answered)} answered sends, {len(events)} events")


if __name__ == "__main__":
    tell(story)
