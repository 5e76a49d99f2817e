"""Checks of a machine that was set up as the guide says, between its steps: check.py NAME [ARGUMENT...]."""
import http.client, imaplib, json, os, pathlib, smtplib, ssl, subprocess, sys, time, urllib.parse

PATIENCE = 90
# A token has a limit of requests per minute.
PAUSE = 0.7
PASSWORD = "correct horse"
ANN, BOB = "ann@example.org", "bob@example.org"
TOKEN = pathlib.Path("/var/lib/mailapi/data/admin-token")


def until(what, look):
    """Waits until `look` returns something true, and returns it."""
    end = time.monotonic() + PATIENCE
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            sys.exit(f"not in time: {what}")
        time.sleep(PAUSE)


def expect(is_so, what):
    if not is_so:
        sys.exit(f"wrong: {what}")


def request(method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=60)
    headers = {"X-MAILAPI-TOKEN": TOKEN.read_text().strip(), "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    answer = connection.getresponse()
    text = answer.read()
    return answer.status, json.loads(text) if text else {}


def api(method, path, body=None):
    status, answer = request(method, "/api/v1" + path, body)
    expect(status < 300, f"{method} {path}: {status} {answer}")
    return answer


def serving():
    """Waits until mailapi answers."""
    def look():
        try:
            return request("GET", "/health")[0] == 200
        except OSError:
            return False
    until("mailapi answers", look)


def subjects(mailbox, folder="INBOX"):
    path = f"/mailbox/{urllib.parse.quote(mailbox)}/messages?limit=100&folder={urllib.parse.quote(folder)}"
    status, answer = request("GET", "/api/v1" + path)
    # The folder is created with its first message.
    expect(status in (200, 400, 404), f"GET {path}: {status} {answer}")
    return [message["subject"] for message in answer.get("messages", [])]


def arrives(mailbox, subject, folder="INBOX", count=1):
    until(f"{count} of {subject!r} in {folder} of {mailbox}", lambda: subjects(mailbox, folder).count(subject) == count)


def send(recipients, subject, sender=ANN, text="It works."):
    return api("POST", "/mail/send", {"from": sender, "to": recipients, "subject": subject, "body": {"text": text}})[
        "message_id"]


def becomes(message, status):
    seen = []
    def look():
        seen[:] = [api("GET", f"/mail/{message}/status")]
        return seen[0]["status"] == status
    until_or(f"status {status}", look, seen)


def until_or(what, look, seen):
    end = time.monotonic() + PATIENCE
    while not look():
        if time.monotonic() > end:
            sys.exit(f"not in time: {what}: {seen}")
        time.sleep(PAUSE)


def from_outside(recipient, subject, sender="zoe@far.example", text="Hello."):
    with smtplib.SMTP("127.0.0.1", 25) as server:
        message = f"From: <{sender}>\r\nTo: <{recipient}>\r\nSubject: {subject}\r\n\r\n{text}\r\n"
        server.sendmail(sender, [recipient], message)


def submit(user, password, recipient, subject):
    with smtplib.SMTP("127.0.0.1", 587) as server:
        server.starttls(context=ssl._create_unverified_context())
        server.login(user, password)
        server.sendmail(user, [recipient], f"From: <{user}>\r\nTo: <{recipient}>\r\nSubject: {subject}\r\n\r\nHello.\r\n")


def imap_count(user, password):
    # Without a certificate of its own, Dovecot listens on this machine only, and takes passwords from it.
    server = imaplib.IMAP4("127.0.0.1", 143)
    try:
        server.login(user, password)
        return int(server.select("INBOX")[1][0])
    except imaplib.IMAP4.error as error:
        return str(error)
    finally:
        server.logout()


def sink(recipient):
    try:
        lines = open("/run/sink.jsonl").read().splitlines()
    except FileNotFoundError:
        return []
    return [mail for mail in map(json.loads, lines) if recipient in mail[1]]


def installed():
    """After section 8: the test message, and mailboxes with and without rules."""
    serving()
    arrives(ANN, "Hello")
    api("POST", "/users", {"email": BOB, "password": PASSWORD})
    api("PUT", f"/users/{BOB}/rules", {"rules": [{
        "match": {"all": [{"field": "subject", "op": "contains", "value": "news"}]},
        "actions": [{"type": "folder", "folder": "News"}]}]})
    for mailbox in (ANN, BOB):
        from_outside(mailbox, "From outside")
        arrives(mailbox, "From outside")
    from_outside(BOB, "The news")
    arrives(BOB, "The news", "News")
    message = send([ANN, BOB, "tim@far.example"], "To three")
    becomes(message, "sent")
    for mailbox in (ANN, BOB):
        arrives(mailbox, "To three")
    until("the message elsewhere", lambda: sink("tim@far.example"))


def rules(label="first"):
    """Rules change, are switched off, and disappear."""
    rule = {"match": {"all": []}, "actions": [{"type": "folder", "folder": "All"}]}
    path = f"/users/{ANN}/rules"
    for number, (enabled, folder) in enumerate([(True, "All"), (False, "INBOX"), (True, "All"), (None, "INBOX")]):
        api("PUT", path, {"rules": [] if enabled is None else [{**rule, "enabled": enabled}]})
        from_outside(ANN, f"rules {label} {number}")
        arrives(ANN, f"rules {label} {number}", folder)


def aliases():
    api("POST", "/aliases", {"address": "team@example.org", "members": [ANN, BOB]})
    from_outside("team@example.org", "To the team")
    from_outside("ann+tag@example.org", "Tagged")
    for mailbox in (ANN, BOB):
        arrives(mailbox, "To the team")
    arrives(ANN, "Tagged")


def app_passwords():
    made = api("POST", f"/users/{ANN}/app-passwords", {"name": "phone"})
    for number, password in enumerate((PASSWORD, made["password"])):
        expect(isinstance(imap_count(ANN, password), int), f"IMAP with password {number}: {imap_count(ANN, password)}")
        submit(ANN, password, BOB, f"Submitted {number}")
        arrives(BOB, f"Submitted {number}")
    api("DELETE", f"/users/{ANN}/app-passwords/{made['app_password']['id']}")
    expect("AUTHENTICATIONFAILED" in str(imap_count(ANN, made["password"])), "a revoked app password")


def quota():
    full = "full@example.org"
    api("POST", "/users", {"email": full, "password": PASSWORD, "quota_bytes": 1_000_000})
    from_outside(full, "Small")
    arrives(full, "Small")
    becomes(send([full], "Large", text="1234567890\n" * 200_000), "bounced")
    expect(subjects(full) == ["Small"], subjects(full))
    expect(api("GET", f"/users/{full}")["user"]["quota_used_bytes"] > 0, "use of the quota")


def purge():
    api("DELETE", f"/users/{BOB}/purge")
    expect(subjects(BOB) == [], subjects(BOB))
    from_outside(BOB, "After the purge")
    arrives(BOB, "After the purge")
    api("POST", f"/users/{BOB}/disable")
    from_outside(BOB, "While disabled")
    arrives(BOB, "While disabled")
    api("POST", f"/users/{BOB}/enable")
    for _ in range(2):
        api("POST", "/users", {"email": "gone@example.org", "password": PASSWORD})
        from_outside("gone@example.org", "To be deleted")
        arrives("gone@example.org", "To be deleted")
        api("DELETE", "/users/gone@example.org")


def late_bounce():
    """A notice that arrives after the next server has accepted the message."""
    serving()
    message = send(["late@far.example"], "Bounces later")
    becomes(message, "sent")
    sender = until("the message elsewhere", lambda: sink("late@far.example"))[0][0]
    expect(sender.startswith("bounces+"), sender)
    report = (f"From: <mailer-daemon@far.example>\r\nTo: <{sender}>\r\nSubject: Undelivered\r\nMIME-Version: 1.0\r\n"
              "Content-Type: multipart/report; report-type=delivery-status; boundary=b\r\n\r\n--b\r\n\r\nFailed.\r\n--b\r\n"
              "Content-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; far.example\r\n\r\n"
              "Final-Recipient: rfc822; late@far.example\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n--b--\r\n")
    with smtplib.SMTP("127.0.0.1", 25) as server:
        server.sendmail("", [sender], report)
    becomes(message, "bounced")


def works(label):
    """Mail still arrives in both mailboxes, mailapi reads the log, and the doctor finds nothing wrong."""
    serving()
    message = send([ANN, BOB], f"After {label}")
    becomes(message, "sent")
    for mailbox in (ANN, BOB):
        arrives(mailbox, f"After {label}")
    health = request("GET", "/health")[1]
    expect(health["checks"]["log"] == "ok", f"{label}: {health}")
    doctor("ok     log: ")


def doctor(*lines):
    """The doctor ends with success, and its output has these parts."""
    found = subprocess.run(["mailapi", "doctor"], env={**os.environ, "MAILAPI_CONFIG": "/etc/mailapi/mailapi.toml"},
                           capture_output=True, text=True)
    expect(found.returncode == 0, f"doctor: {found.stdout}{found.stderr}")
    for line in lines:
        expect(line in found.stdout, f"no {line!r} in {found.stdout}")


def doctor_complains(*lines):
    """The doctor's output has these parts, whatever it ends with."""
    found = subprocess.run(["mailapi", "doctor"], env={**os.environ, "MAILAPI_CONFIG": "/etc/mailapi/mailapi.toml"},
                           capture_output=True, text=True)
    for line in lines:
        expect(line in found.stdout, f"no {line!r} in {found.stdout}")


def marks(label):
    """Something that a backup contains."""
    api("POST", "/users", {"email": f"{label}@example.org", "password": PASSWORD})
    from_outside(f"{label}@example.org", "Before the backup")
    arrives(f"{label}@example.org", "Before the backup")


def absent(label):
    """Was created after the backup."""
    status, _ = request("GET", f"/api/v1/users/{label}@example.org")
    expect(status == 404, f"{label} after the restoration: {status}")


def restored(label):
    serving()
    arrives(f"{label}@example.org", "Before the backup")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
