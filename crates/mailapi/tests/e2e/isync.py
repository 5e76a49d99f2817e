"""isync keeps a local Maildir and the mailbox equal, in both directions."""

import glob
import os
import smtplib
import subprocess

from harness import PASSWORD, needs, tell

CONFIGURATION = """
IMAPAccount story
Host {host}
Port {port}
User {user}
Pass "{password}"
{no_tls}
AuthMechs LOGIN

IMAPStore far
Account story

MaildirStore near
Path {directory}/mail/
Inbox {directory}/mail/INBOX
SubFolders Verbatim

Channel story
Far :far:
Near :near:
Patterns *
Create Both
Expunge Both
SyncState *
"""


def story(server):
    (bob,) = server.create_people("bob")
    os.makedirs(os.path.join(server.directory, "mail"))
    configuration = os.path.join(server.directory, "mbsyncrc")
    host, port = server.imap
    version = subprocess.run(["mbsync", "--version"], capture_output=True, text=True, check=True).stdout
    # isync 1.5 renamed the setting.
    no_tls = "TLSType None" if version.split()[-1] >= "1.5" else "SSLType None"
    with open(configuration, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(host=host, port=port, user=bob, password=PASSWORD, no_tls=no_tls,
                                        directory=server.directory))  # fmt: skip

    def sync():
        subprocess.run(["mbsync", "-c", configuration, "-a"], check=True, timeout=300)

    def local(folder):
        return sorted(glob.glob(os.path.join(server.directory, "mail", folder, "[cn]*", "*")))

    with smtplib.SMTP(*server.smtp) as smtp:
        for number in range(3):
            smtp.sendmail("eve@outside.test", [bob], f"Subject: number {number}\r\n\r\ntext\r\n")
    sync()
    assert len(local("INBOX")) == 3, local("INBOX")

    # To the server: a new message, a flag, and an expunged message.
    with open(os.path.join(server.directory, "mail", "INBOX", "cur", "1.local.story:2,S"), "wb") as file:
        file.write(b"From: bob@story.test\nSubject: written here\n\ntext\n")
    by_subject = {open(path, "rb").read().split(b"Subject: ")[1].split(b"\n")[0].strip(): path for path in local("INBOX")}
    seen = by_subject[b"number 0"]
    os.rename(seen, seen.replace("/new/", "/cur/").split(":2,")[0] + ":2,FS")
    os.remove(by_subject[b"number 1"])
    sync()
    found = {message["subject"]: message["flags"] for message in server.messages(bob)}
    assert set(found) == {"number 0", "number 2", "written here"}, found
    assert set(found["number 0"]) == {"\\Seen", "\\Flagged"} and found["written here"] == ["\\Seen"], found

    # From the server: a folder with a message, and a flag.
    with server.logged_in(bob) as client:
        assert client.create("Archive2026")[0] == "OK"
        assert client.append("Archive2026", None, None, b"Subject: filed\r\n\r\ntext\r\n")[0] == "OK"
        assert client.select("INBOX")[0] == "OK"
        assert client.store("1:*", "+FLAGS", "(\\Answered)")[0] == "OK"
    sync()
    assert len(local("Archive2026")) == 1
    assert all("R" in path.split(":2,")[1] for path in local("INBOX")), local("INBOX")
    before = server.messages(bob)
    sync()
    assert server.messages(bob) == before, "a sync without changes must change nothing"


if __name__ == "__main__":
    needs("mbsync")
    tell(story)
