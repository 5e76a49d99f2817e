"""App passwords with Python's imaplib and swaks: they open mail programs alone, and a revocation ends open sessions."""

import imaplib
import smtplib
import subprocess

from harness import PASSWORD, needs, ok, running, until


def refused_at_imap(server, user, password):
    client = imaplib.IMAP4(*server.imap)
    try:
        client.login(user, password)
    except imaplib.IMAP4.error:
        return True
    finally:
        client.shutdown()
    return False


def swaks(server, user, password, recipient):
    """Submits a message; the exit code of swaks, which is 28 if the login is refused."""
    host, port = server.submission
    arguments = ["--server", host, "--port", str(port), "--auth", "PLAIN", "--auth-user", user]
    arguments += ["--auth-password", password, "--from", user, "--to", recipient, "--header", "Subject: by swaks"]
    return subprocess.run(["swaks", *arguments], capture_output=True, check=False, timeout=120).returncode


def ended(client):
    """Whether the next command is refused, or finds the connection closed."""
    try:
        return client.noop()[0] != "OK"
    except (imaplib.IMAP4.abort, OSError):
        return True


def log_ins(server, alice, bob, value):
    assert server.call("POST", "/auth/login", {"email": alice, "password": value})[0] == 401
    assert refused_at_imap(server, bob, value) and swaks(server, bob, value, alice) == 28
    for typed in (value, value.upper().replace("-", " "), value.replace("-", "")):
        with imaplib.IMAP4(*server.imap) as client:
            client.login(alice, typed)
            ok(client.select("INBOX"))
        assert swaks(server, alice, typed, bob) == 0
    assert [message["subject"] for message in server.messages(bob)] == ["by swaks"] * 3


def revocation(server, alice, bob, path, number, value):
    kept = server.call("POST", path, {"name": "kept"})[1]["password"]
    reading, other = imaplib.IMAP4(*server.imap), imaplib.IMAP4(*server.imap)
    reading.login(alice, value)
    other.login(alice, kept)
    ok(reading.select("INBOX"))
    sending = smtplib.SMTP(*server.submission)
    sending.login(alice, value)
    assert server.call("DELETE", f"{path}/{number}")[0] == 200
    assert ended(reading)
    code, _ = sending.mail(alice)
    assert code == 421, code
    assert refused_at_imap(server, alice, value) and swaks(server, alice, value, bob) == 28
    ok(other.noop())
    other.logout()


def command_line(server, alice):
    value = server.run("user", "app-password", "add", alice, "--name", "tablet").strip()
    with imaplib.IMAP4(*server.imap) as client:
        client.login(alice, value)
    listed = lambda: server.run("user", "app-password", "list", alice)
    number = next(line.split()[0] for line in listed().splitlines() if "tablet" in line)
    until(lambda: any("tablet" in line and not line.endswith("-") for line in listed().splitlines()), "no last use")
    server.run("user", "app-password", "remove", alice, number)
    until(lambda: refused_at_imap(server, alice, value), "the server did not notice the command")


def story(server):
    alice, bob = server.create_people("alice", "bob")
    path = f"/users/{alice}/app-passwords"
    status, answer = server.call("POST", path, {"name": "phone"})
    assert status == 201, answer
    value, number = answer["password"], answer["app_password"]["id"]
    log_ins(server, alice, bob, value)
    used = lambda: any(entry["last_used_at"] for entry in server.get(path)["app_passwords"])
    until(used, "the last use was not stored")
    revocation(server, alice, bob, path, number, value)
    command_line(server, alice)
    with open(server.log, encoding="utf-8") as log:
        text = log.read()
    assert value not in text and value.replace("-", "") not in text, "the log shows an app password"


def required(server):
    """The main password opens the API alone."""
    alice, bob = server.create_people("alice", "bob")
    value = server.call("POST", f"/users/{alice}/app-passwords", {"name": "phone"})[1]["password"]
    assert refused_at_imap(server, alice, PASSWORD) and swaks(server, alice, PASSWORD, bob) == 28
    assert server.call("POST", "/auth/login", {"email": alice, "password": PASSWORD})[0] == 200
    with imaplib.IMAP4(*server.imap) as client:
        client.login(alice, value)
    assert swaks(server, alice, value, bob) == 0


if __name__ == "__main__":
    needs("swaks")
    with running() as ordinary:
        story(ordinary)
    with running({"AUTH__REQUIRE_APP_PASSWORDS": "true"}) as strict:
        required(strict)
