"""The three lines that a first start prints work as they are, and the mail they send is read at every door."""

import imaplib
import json
import subprocess

from harness import needs, ok, tell, until


def paste(line):
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (line, done)
    return done.stdout


def story(server):
    create, send, read = server.examples
    assert server.token not in create + send + read, "the lines must be safe in a shell's history"
    assert paste(create).count('"success":true') == 3
    sent = json.loads(paste(send))
    assert sent["success"] and sent["status"] == "submitted" and sent["recipient_count"] == 1, sent
    inbox = json.loads(paste(read))
    (message,) = inbox["messages"]
    assert message["subject"] == "Hello" and message["message_id"] == f"<{sent['message_id']}@example.test>", message

    path = f"/mail/{sent['message_id']}/status"
    until(lambda: server.get(path)["status"] == "sent", "the delivery was never reported")
    assert server.get(path)["recipients"][0]["status"] == "sent"

    stats = until(lambda: (found := server.get("/stats/delivery")["summary"])["delivered"] and found, "nobody counts")
    assert stats["total_sent"] == 1 and stats["delivery_rate"] == 100, stats

    # The password in the pasted line opens the mailbox to a mail program.
    password = create.split('"bob@example.test","password":"')[1].split('"')[0]
    client = imaplib.IMAP4(*server.imap)
    client.login("bob@example.test", password)
    ok(client.select("INBOX", readonly=True))
    assert ok(client.uid("SEARCH", "ALL"))[0] == str(message["uid"]).encode()
    assert b"DKIM-Signature:" in ok(client.uid("FETCH", str(message["uid"]), "(BODY.PEEK[])"))[0][1]
    client.logout()

    # What the command line does is in force without a restart.
    token = server.run("token", "create", "--type", "user", "--name", "bob's", "--email", "bob@example.test").strip()
    admin, server.token = server.token, token
    assert server.get("/mail/inbox")["total"] == 1
    assert server.call("GET", "/mailbox/alice@example.test/messages")[0] == 403
    number = [line.split()[0] for line in server.run("token", "list").splitlines() if token[:12] in line][0]
    server.run("token", "revoke", number)
    # The server looks for changes by others every quarter of a second (`database.sqlite.foreign_check`).
    until(lambda: server.call("GET", "/mail/inbox")[0] == 401, "a revoked token still works")
    assert server.call("GET", "/mail/inbox")[1]["error"] == "TOKEN_EXPIRED"
    server.token = admin


if __name__ == "__main__":
    needs("bash", "curl")
    tell(story)
