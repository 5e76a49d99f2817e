"""TLS at every listener with foreign clients, and a certificate that is renewed while they use it."""

import contextlib
import http.client
import imaplib
import json
import os
import re
import signal
import smtplib
import ssl
import subprocess
import threading

from harness import PASSWORD, needs, ok, running, split_address, until

HOST = "mx.story.test"


def make_certificate(directory, key="key.pem"):
    """Writes a certificate for HOST and its key, one after the other as a renewal does."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
         "-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-addext", "basicConstraints=critical,CA:FALSE",
         "-keyout", os.path.join(directory, key), "-out", os.path.join(directory, "cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip


def s_client(address, *options):
    host, port = address
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-servername", HOST, "-verify_hostname", HOST]
    return subprocess.run([*command, *options], input="", capture_output=True, text=True, timeout=60, check=False)


def fingerprint(address):
    pem = ssl.get_server_certificate(address)
    shown = subprocess.run(["openssl", "x509", "-fingerprint", "-noout"], input=pem, capture_output=True, text=True)
    return shown.stdout


def every_listener_verifies(doors, certificate):
    for name, options in [
        ("https", ["-alpn", "h2"]), ("submissions", []), ("imaps", []),
        ("smtp", ["-starttls", "smtp"]), ("submission", ["-starttls", "smtp"]), ("imap", ["-starttls", "imap"]),
    ]:  # fmt: skip
        for version in ("-tls1_2", "-tls1_3"):
            shown = s_client(doors[name], "-CAfile", certificate, version, *options).stdout
            assert "Verification: OK" in shown, (name, version, shown)
        # OpenSSL itself offers old versions at its lowest level of security only.
        old = s_client(doors[name], "-tls1_1", "-cipher", "ALL:@SECLEVEL=0", *options)
        assert "Cipher is (NONE)" in old.stdout, (name, old.stdout)
    assert "ALPN protocol: h2" in s_client(doors["https"], "-alpn", "h2", "-tls1_3").stdout


def curl_uses_http_2(server, doors, certificate):
    port = doors["https"][1]
    command = ["curl", "-sS", "--http2", "--cacert", certificate, "--resolve", f"{HOST}:{port}:127.0.0.1",
               "-H", f"X-MAILAPI-TOKEN: {server.token}", "-w", "\n%{http_version} %{http_code}"]  # fmt: skip
    url = f"https://{HOST}:{port}/api/v1"

    def curl(*arguments):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done
        return done.stdout.rsplit("\n", 1)

    body, protocol = curl(f"{url}/tokens/me")
    assert protocol == "2 200" and json.loads(body)["token_type"] == "admin", (protocol, body)
    _, protocol = curl("--http1.1", f"{url}/tokens/me")
    assert protocol == "1.1 200", protocol
    large = json.dumps({"from": "alice@story.test", "to": ["bob@story.test"], "subject": "large",
                        "body": {"text": "x" * 5_000_000}})  # fmt: skip
    with open(os.path.join(server.directory, "large.json"), "w", encoding="ascii") as file:
        file.write(large)
    answer, protocol = curl("-H", "Content-Type: application/json", "--data-binary", f"@{file.name}", f"{url}/mail/send")
    assert protocol == "2 202", (protocol, answer)
    uid = until(lambda: server.messages("bob@story.test"), "the message arrives")[0]["uid"]
    text, protocol = curl(f"{url}/mailbox/bob@story.test/messages/{uid}")
    assert protocol == "2 200" and len(json.loads(text)["body"]["text"]) >= 5_000_000, protocol


def mail_programs_use_it(doors, context):
    host, port = doors["submissions"]
    subprocess.run(
        ["swaks", "--server", host, "--port", str(port), "--tlsc", "--auth", "PLAIN", "--auth-user",
         "alice@story.test", "--auth-password", PASSWORD, "--from", "alice@story.test", "--to", "bob@story.test",
         "--header", "Subject: over TLS", "--hide-all"],
        check=True,
    )  # fmt: skip
    with smtplib.SMTP(*doors["submission"]) as smtp:
        smtp._host = HOST  # The name that STARTTLS verifies.
        smtp.starttls(context=context)
        smtp.login("alice@story.test", PASSWORD)
    client = imap_over_tls(doors, context)
    ok(client.select("INBOX"))
    assert len(ok(client.search(None, "SUBJECT", '"over TLS"'))[0].split()) == 1
    client.logout()


class NamedImap(imaplib.IMAP4_SSL):
    """Connects to the loopback address, and verifies the name."""

    def _create_socket(self, timeout=None):
        plain = imaplib.IMAP4._create_socket(self, timeout)
        return self.ssl_context.wrap_socket(plain, server_hostname=HOST)


def imap_over_tls(doors, context):
    client = NamedImap(*doors["imaps"], ssl_context=context)
    client.login("bob@story.test", PASSWORD)
    return client


def logged(server, message):
    def is_there():
        with open(server.log, encoding="utf-8") as log:
            return any(message in line for line in log)

    until(is_there, message)


@contextlib.contextmanager
def requests_without_pause(server, doors):
    """Requests over new connections all the time, none of which may fail."""
    stop, failed, done = threading.Event(), [], []
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def request():
        while not stop.is_set():
            try:
                connection = http.client.HTTPSConnection(*doors["https"], context=context, timeout=30)
                connection.request("GET", "/api/v1/tokens/me", headers={"X-MAILAPI-TOKEN": server.token})
                done.append(connection.getresponse().status)
                connection.close()
            except OSError as error:
                failed.append(error)

    threads = [threading.Thread(target=request) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed and set(done) == {200}, (failed, set(done))


def a_renewal_is_used_at_once(server, doors, context):
    before = fingerprint(doors["imaps"])
    client = imap_over_tls(doors, context)
    ok(client.select("INBOX"))
    # The new certificate is there, its key not yet.
    make_certificate(server.directory, key="new-key.pem")
    server.process.send_signal(signal.SIGHUP)
    logged(server, "a file cannot be used; its previous content stays in use")
    assert fingerprint(doors["imaps"]) == before
    with requests_without_pause(server, doors) as done:
        os.replace(os.path.join(server.directory, "new-key.pem"), os.path.join(server.directory, "key.pem"))
        server.process.send_signal(signal.SIGHUP)
        after = until(lambda: (new := fingerprint(doors["imaps"])) != before and new, "the new certificate is shown")
        assert {fingerprint(doors[name]) for name in ("https", "submissions", "imaps")} == {after}
        at = len(done)
        until(lambda: len(done) > at + 20, "requests go on")
    ok(client.noop())
    ok(client.search(None, "ALL"))
    client.logout()


def story(server, doors):
    certificate = os.path.join(server.directory, "cert.pem")
    server.create_people("alice", "bob")
    context = ssl.create_default_context(cafile=certificate)
    every_listener_verifies(doors, certificate)
    curl_uses_http_2(server, doors, certificate)
    mail_programs_use_it(doors, context)
    a_renewal_is_used_at_once(server, doors, context)
    report = server.run("doctor")
    assert re.search(rf"\nok     certificate: for {HOST}, valid until 20", report), report


def begin(server):
    make_certificate(server.directory)
    server.start()


if __name__ == "__main__":
    needs("openssl", "curl", "swaks")
    listeners = ["HTTP__TLS_LISTEN", "MAIL__EMBEDDED__SUBMISSIONS_LISTEN", "MAIL__EMBEDDED__IMAPS_LISTEN"]
    settings = {name: "127.0.0.1:0" for name in listeners}
    settings |= {"MAIL__EMBEDDED__HOSTNAME": HOST, "TLS__CERT": "cert.pem", "TLS__KEY": "key.pem"}
    with running(settings, begin) as server:
        names = ("https", "smtp", "submission", "submissions", "imap", "imaps")
        story(server, {name: split_address(server.running[name]) for name in names})
