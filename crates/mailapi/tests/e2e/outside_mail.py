"""Mail from outside, by smtplib and by swaks: the API and IMAP show the same message, and reading through the
API changes nothing."""

import re
import smtplib
import subprocess
from email.message import EmailMessage

from harness import needs, ok, tell


def flags_by_uid(client):
    rows = ok(client.uid("FETCH", "1:*", "(UID FLAGS)"))
    found = {}
    for row in rows:
        uid = re.search(rb"UID (\d+)", row)
        flags = re.search(rb"FLAGS \(([^)]*)\)", row)
        found[int(uid[1])] = {flag.decode() for flag in flags[1].split()} - {"\\Recent"}
    return found


def refuses_what_is_not_ours(server, bob):
    with smtplib.SMTP(*server.smtp) as smtp:
        smtp.ehlo("outside.test")
        assert "auth" not in smtp.esmtp_features, "the listener for mail from outside offers no login"
        smtp.mail("eve@outside.test")
        for recipient in ("nobody@story.test", "somebody@elsewhere.test"):
            code, reply = smtp.rcpt(recipient)
            assert code == 550, (recipient, code, reply)
        assert smtp.rcpt(bob)[0] == 250, "a rejected recipient must not affect the others"
        smtp.rset()


def deliver(server, bob):
    message = EmailMessage()
    message["From"] = "Eve <eve@outside.test>"
    message["To"] = bob
    message["Subject"] = "Grüße from outside"
    message["Message-ID"] = "<from-smtplib@outside.test>"
    message.set_content("Zwölf Boxkämpfer jagen Viktor.\n")
    message.add_attachment(b"\x00\x01\x02" * 1000, maintype="application", subtype="octet-stream", filename="data.bin")
    with smtplib.SMTP(*server.smtp) as smtp:
        smtp.send_message(message, from_addr="eve@outside.test", to_addrs=[bob])
    host, port = server.smtp
    subprocess.run(
        ["swaks", "--server", host, "--port", str(port), "--from", "eve@outside.test", "--to", bob,
         "--header", "Subject: from swaks", "--body", "second", "--hide-all"],
        check=True,
    )  # fmt: skip


def story(server):
    (bob,) = server.create_people("bob")
    refuses_what_is_not_ours(server, bob)
    deliver(server, bob)

    listed = server.messages(bob)
    assert [message["subject"] for message in listed] == ["from swaks", "Grüße from outside"], listed
    first = listed[1]
    assert first["message_id"] == "<from-smtplib@outside.test>" and first["has_attachments"], first

    # No read through the API changes the flags.
    path = f"/mailbox/{bob}/messages/{first['uid']}"
    assert "Zwölf Boxkämpfer" in server.get(path)["body"]["text"]
    assert server.get(f"{path}/attachment/0") == b"\x00\x01\x02" * 1000
    assert b"Return-Path: <eve@outside.test>" in server.get(f"{path}/raw")
    assert server.get(f"/mailbox/{bob}/search?q=boxk%C3%84mpfer")["total"] == 1
    with server.logged_in(bob) as client:
        ok(client.select("INBOX"))
        seen_by_imap = flags_by_uid(client)
        assert seen_by_imap == {message["uid"]: set(message["flags"]) for message in server.messages(bob)}
        assert all("\\Seen" not in flags for flags in seen_by_imap.values()), seen_by_imap

        # The API shows a flag that a mail program sets.
        ok(client.uid("STORE", str(first["uid"]), "+FLAGS", "(\\Seen \\Flagged)"))
        assert set(server.get(path)["flags"]) == {"\\Seen", "\\Flagged"}
        assert server.get(f"/mailbox/{bob}/folders")["folders"][0]["unread"] == 1

        # IMAP and the API return the same bytes.
        raw = ok(client.uid("FETCH", str(first["uid"]), "(BODY.PEEK[])"))[0][1]
        assert raw == server.get(f"{path}/raw")


if __name__ == "__main__":
    needs("swaks")
    tell(story)
