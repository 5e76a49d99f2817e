"""Another implementation verifies each DKIM signature, for every ending of the body.

MAILAPI_DKIM_MESSAGES says how many random messages are signed.
"""

import glob
import os
import random
import smtplib
import sys

from harness import PASSWORD, ok, tell

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += glob.glob(os.path.join(HERE, "../../../../target/schemathesis/lib/python*/site-packages"))

import dkim  # noqa: E402 (./test installs it there)

MESSAGES = int(os.environ.get("MAILAPI_DKIM_MESSAGES", "100"))
ENDINGS = ["", "\r\n", "hello", "hello\r\n", "hello\r\n \r\n", "hello\r\n\r\n \r\n\t\r\n", " ", "\t \r\n", "\r\n\r\n", "a \r\n\r\n"]
PIECES = ["a", "word  word", " ", "\t", ".", "..", "\r\n", "\r\n\r\n", "\r\n \r\n", "=20", "é", "From x", "x" * 90]
FIELDS = ["Subject: Hi ", "Subject:  a   b\r\n\tc", "subject:x", "X-Other: y", "Reply-To: alice@story.test", "Cc: a@b.test,\r\n c@d.test "]


def randomly(number):
    """A random message; the first ones end like bodies that once got wrong signatures."""
    random.seed(number)
    fields = random.sample(FIELDS, random.randint(0, 3))
    body = ENDINGS[number] if number < len(ENDINGS) else "".join(random.choices(PIECES, k=random.randint(0, 9)))
    head = ["From: alice@story.test", "Date: Fri, 20 Nov 2026 10:15:30 +0000", f"Message-ID: <{number}@story.test>", *fields]
    return ("\r\n".join(head) + "\r\n\r\n" + body).encode()


def check(message, record):
    def text_record(name, timeout=5):
        return record["dns_value"].encode() if name.rstrip(b".").decode() == record["dns_name"].rstrip(".") else None

    assert dkim.verify(message, dnsfunc=text_record), message
    for added in [b"From: eve@story.test", b"Subject: Pay now", b"To: eve@story.test", b"Reply-To: eve@story.test"]:
        changed = added + b"\r\n" + message
        assert not dkim.verify(changed, dnsfunc=text_record), changed


def story(server):
    alice, bob = server.create_people("alice", "bob")
    with smtplib.SMTP(*server.submission) as smtp:
        smtp.login(alice, PASSWORD)
        for number in range(MESSAGES):
            smtp.sendmail(alice, [bob], randomly(number), ["BODY=8BITMIME"])
    status, answer = server.call("POST", "/mail/send", {"from": alice, "to": [bob], "subject": "é ", "body": {"text": "x\n \n"}})
    assert status == 202, answer
    with server.logged_in(bob) as client:
        ok(client.select("INBOX"))
        fetched = [part[1] for part in ok(client.fetch("1:*", "(BODY.PEEK[])")) if isinstance(part, tuple)]
    assert len(fetched) == MESSAGES + 1
    record = server.get("/domains/story.test/dkim")
    for message in fetched:
        check(message, record)


if __name__ == "__main__":
    tell(story)
