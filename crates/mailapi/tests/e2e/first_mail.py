"""The lines that a first start prints, and those of README.md, work as they are. Each protocol shows their mail."""

import imaplib
import json
import os
import subprocess

from harness import Server, needs, ok, running, until

LAST_LINE = "/mailbox/ben@try.test/messages"
README = os.path.join(os.path.dirname(__file__), "../../../../README.md")


def paste(*paragraphs):
    script = "\n".join(paragraphs)
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (script, done)
    return done.stdout


def paragraphs(shown):
    """The lines to paste, by their titles."""
    _, _, below = shown.partition("to try it")
    found = {}
    for paragraph in ("to try it" + below).strip().split("\n\n"):
        title, *lines = paragraph.split("\n")
        found[title] = "\n".join(line[2:] for line in lines)
    return found


def readme_lines(server):
    """README's first block of requests, for this server's port and directory."""
    with open(README, encoding="utf-8") as file:
        section = file.read().split("## The first mail")[1]
    block = section.split("```sh\n")[1].split("```")[0]
    assert "http://127.0.0.1:8080/api/v1" in block and "mailapi-data/" in block, block
    return block.replace("http://127.0.0.1:8080/api/v1", server.api_url).replace("mailapi-data/", f"{server.data}/")


def story(server):
    prepare, create, send, read = paragraphs(server.shown).values()
    assert server.token not in prepare + create + send + read, "the token must not appear in the shell's history"
    assert paste(prepare, create).count('"success":true') == 3
    sent = json.loads(paste(prepare, send))
    assert sent["success"] and sent["status"] == "submitted" and sent["recipient_count"] == 1, sent
    inbox = json.loads(paste(prepare, read))
    (message,) = inbox["messages"]
    assert message["subject"] == "Hello" and message["message_id"] == f"<{sent['message_id']}@try.test>", message
    answers = paste(prepare, readme_lines(server))
    assert answers.count('"success":true') == 5 and '"total":1' in answers, answers

    path = f"/mail/{sent['message_id']}/status"
    until(lambda: server.get(path)["status"] == "sent", "the delivery was never reported")
    assert server.get(path)["recipients"][0]["status"] == "sent"

    summary = lambda: server.get("/stats/delivery")["summary"]
    stats = until(lambda: (found := summary())["delivered"] == 2 and found, "deliveries are not counted")
    assert stats["total_sent"] == 2 and stats["delivery_rate"] == 100, stats

    # The password in the pasted line opens the mailbox to a mail program.
    password = create.split('"ben@try.test","password":"')[1].split('"')[0]
    client = imaplib.IMAP4(*server.imap)
    client.login("ben@try.test", password)
    ok(client.select("INBOX", readonly=True))
    assert ok(client.uid("SEARCH", "ALL"))[0] == str(message["uid"]).encode()
    assert b"DKIM-Signature:" in ok(client.uid("FETCH", str(message["uid"]), "(BODY.PEEK[])"))[0][1]
    client.logout()

    # Changes by the command line take effect without a restart.
    token = server.run("token", "create", "--type", "user", "--name", "ben's", "--email", "ben@try.test").strip()
    admin, server.token = server.token, token
    assert server.get("/mail/inbox")["total"] == 1
    assert server.call("GET", "/mailbox/ann@try.test/messages")[0] == 403
    number = [line.split()[0] for line in server.run("token", "list").splitlines() if token[:12] in line][0]
    server.run("token", "revoke", number)
    # The server looks for changes by others every quarter of a second (`database.sqlite.foreign_check`).
    until(lambda: server.call("GET", "/mail/inbox")[0] == 401, "a revoked token still works")
    assert server.call("GET", "/mail/inbox")[1]["error"] == "TOKEN_EXPIRED"
    server.token = admin


if __name__ == "__main__":
    needs("bash", "curl")
    with running(start=lambda server: Server.start_for_people(server, LAST_LINE)) as server:
        story(server)
