"""The work of a mail program by IMAP, with Python's imaplib: folders, append, search, flags, copy, expunge, idle."""

import base64
import imaplib
import smtplib
import socket

from harness import PASSWORD, ok, tell

NOTE = (
    b"From: Bob <bob@story.test>\r\nTo: alice@story.test\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\n"
    b"Message-ID: <note@story.test>\r\n\r\nA note about the harbour.\r\n"
)
TEA = (
    b"From: Bob <bob@story.test>\r\nTo: alice@story.test\r\nSubject: Tea\r\nMIME-Version: 1.0\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n%s"
)


def refusals(server, bob):
    client = imaplib.IMAP4(*server.imap)
    for user, password in ((bob, "wrong password"), ("nobody@story.test", PASSWORD)):
        try:
            client.login(user, password)
        except imaplib.IMAP4.error:
            continue
        raise AssertionError("a wrong login was accepted")
    client.logout()
    with server.logged_in(bob) as client:
        for command in (
            lambda: client.select("Nowhere"),
            lambda: client.create("INBOX"),
            lambda: client.delete("INBOX"),
            lambda: client.delete("Nowhere"),
        ):
            assert command()[0] == "NO"


def folders(server, bob):
    with server.logged_in(bob) as client:
        ok(client.create('"Projects/2026"'))
        names = b" ".join(ok(client.list()))
        assert b"Projects/2026" in names and b"INBOX" in names, names
        ok(client.append('"Projects/2026"', "(\\Seen)", None, NOTE))
        ok(client.rename('"Projects/2026"', '"Projects/2027"'))
    listed = {folder["name"]: folder for folder in server.get(f"/mailbox/{bob}/folders")["folders"]}
    assert listed["Projects/2027"]["messages"] == 1 and listed["Projects/2027"]["unread"] == 0, listed
    # The API finds the appended note in its folder, in the form with the folder in the path too.
    assert server.get(f"/mailbox/{bob}/folders/Projects%2F2027/messages")["messages"][0]["subject"] == "Café"


def messages(server, bob):
    with server.logged_in(bob) as client:
        ok(client.select('"Projects/2027"'))
        for criteria in (("SUBJECT", '"Caf"'), ("TEXT", '"harbour"'), ("BODY", '"NOTE"'), ("SEEN",)):
            assert ok(client.search(None, *criteria))[0] == b"1", criteria
        assert ok(client.search(None, "TEXT", '"lighthouse"'))[0] == b""
        ok(client.copy("1", "INBOX"))
        ok(client.store("1", "+FLAGS", "(\\Deleted)"))
        ok(client.expunge())
        assert ok(client.search(None, "ALL"))[0] == b""
        ok(client.select("INBOX"))
        assert ok(client.fetch("1", "(BODY.PEEK[HEADER.FIELDS (SUBJECT)])"))[0][1].startswith(b"Subject: ")
        ok(client.delete('"Projects/2027"'))
    assert server.messages(bob)[0]["flags"] == ["\\Seen"]


def extensions(server, bob):
    """What newer mail programs use: names in UTF-8, previews, decoded parts, identifiers."""
    encoded = TEA.replace(b"%s", base64.encodebytes("Grüner Tee\n".encode()))
    with server.logged_in(bob) as client:
        assert {"IMAP4REV2", "UTF8=ACCEPT", "PREVIEW", "BINARY", "OBJECTID"} <= set(client.capabilities)
        ok(client.append("INBOX", None, None, encoded))
        ok(client.enable("UTF8=ACCEPT"))
        ok(client.create('"50% off*"'))
        assert any(b'"50% off*"' in line for line in ok(client.list()))
        ok(client.select('"50% off*"'))
        ok(client.create('"Grün & mehr"'))
        ok(client.select("INBOX"))
        (number,) = ok(client.search(None, "SUBJECT", '"tea"'))
        original = ok(client.fetch(number, "(EMAILID)"))[0]
        ok(client.copy(number, '"Grün & mehr"'))
        ok(client.store(number, "+FLAGS", "(\\Deleted)"))
        ok(client.expunge())
        assert any('"Grün & mehr"'.encode() in line for line in ok(client.list()))
        ok(client.select('"Grün & mehr"'))
        (preview,) = ok(client.fetch("1", "(PREVIEW)"))
        assert preview.decode() == '1 (PREVIEW "Grüner Tee")', preview
        (head, part), _ = ok(client.fetch("1", "(BINARY.PEEK[1])"))
        assert b"BINARY[1]" in head and part.decode() == "Grüner Tee\n", (head, part)
        copy = ok(client.fetch("1", "(EMAILID)"))[0]
        assert copy.split(b"EMAILID")[1] == original.split(b"EMAILID")[1], (copy, original)
        ok(client.close())
        ok(client.delete('"Grün & mehr"'))


def idle(server, bob):
    """imaplib supports IDLE only since Python 3.14, so its socket is used directly."""
    with server.logged_in(bob) as client:
        ok(client.select("INBOX"))
        client.send(b"A1 IDLE\r\n")
        assert client.readline().startswith(b"+")
        with smtplib.SMTP(*server.smtp) as smtp:
            smtp.sendmail("eve@outside.test", [bob], "Subject: wake up\r\n\r\ntext\r\n")
        client.sock.settimeout(120)
        try:
            while b"EXISTS" not in (line := client.readline()):
                assert line, "the connection ended"
        except socket.timeout:
            raise AssertionError("IDLE did not report the new message") from None
        client.send(b"DONE\r\n")
        while not client.readline().startswith(b"A1 OK"):
            pass


def story(server):
    (bob,) = server.create_people("bob")
    refusals(server, bob)
    folders(server, bob)
    messages(server, bob)
    extensions(server, bob)
    idle(server, bob)


if __name__ == "__main__":
    tell(story)
