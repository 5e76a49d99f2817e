"""curl speaks IMAP too: it lists folders, searches, and fetches the same bytes as the raw message of the API."""

import smtplib
import subprocess

from harness import PASSWORD, needs, tell


def story(server):
    (bob,) = server.create_people("bob")
    with smtplib.SMTP(*server.smtp) as smtp:
        smtp.sendmail("eve@outside.test", [bob], "Subject: for curl\r\n\r\ntext\r\n")
    (message,) = server.messages(bob)
    host, port = server.imap

    def curl(path, *options, password=PASSWORD, expected=0):
        command = ["curl", "-sS", "--user", f"{bob}:{password}", f"imap://{host}:{port}{path}", *options]
        done = subprocess.run(command, capture_output=True, check=False)
        assert done.returncode == expected, (command, done)
        return done.stdout

    # curl exits with 67 when the server rejects the login.
    curl("/", password="wrong password", expected=67)
    assert b"INBOX" in curl("/")
    assert curl("/INBOX?SUBJECT%20curl").split() == [b"*", b"SEARCH", b"1"]
    assert curl("/INBOX?SUBJECT%20wget").split() == [b"*", b"SEARCH"]
    raw = server.get(f"/mailbox/{bob}/messages/{message['uid']}/raw")
    assert curl(f"/INBOX;UID={message['uid']}") == raw
    assert b"for curl" in curl(f"/INBOX;UID={message['uid']};SECTION=HEADER.FIELDS%20(SUBJECT)")


if __name__ == "__main__":
    needs("curl")
    tell(story)
