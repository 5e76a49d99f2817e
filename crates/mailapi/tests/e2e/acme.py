"""The certificate comes from a certificate authority (Pebble), and is renewed under load without a failed request."""

import contextlib
import os
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request

from harness import needs, running, until
from tls import fingerprint, requests_without_pause

NAMES = ("mx.example.org", "api.example.org")
# Seconds; a renewal follows after two thirds.
LIFETIME = 30


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def authority(directory, http_port, tls_port):
    """Pebble, with DNS in which every name is this machine. Its directory, and a function that returns its root."""
    path = lambda name: os.path.join(directory, name)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", path("key.pem"), "-out", path("cert.pem")],
        check=True, capture_output=True,
    )  # fmt: skip
    names, control, management, port = (free_port() for _ in range(4))
    with open(path("config.json"), "w", encoding="ascii") as file:
        file.write(
            f'{{"pebble": {{"listenAddress": "127.0.0.1:{port}", "managementListenAddress": "127.0.0.1:{management}",'
            f'"certificate": "{path("cert.pem")}", "privateKey": "{path("key.pem")}", "httpPort": {http_port},'
            f'"tlsPort": {tls_port}, "certificateValidityPeriod": {LIFETIME}}}}}'
        )
    resolver = ["pebble-challtestsrv", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", "", "-http01", "", "-https01", "",
                "-tlsalpn01", "", "-dns01", f"127.0.0.1:{names}", "-management", f"127.0.0.1:{control}"]  # fmt: skip
    pebble = ["pebble", "-config", path("config.json"), "-dnsserver", f"127.0.0.1:{names}"]
    context = ssl.create_default_context(cafile=path("cert.pem"))

    def root():
        with urllib.request.urlopen(f"https://localhost:{management}/roots/0", context=context, timeout=30) as answer:
            return answer.read().decode()

    def answers():
        with contextlib.suppress(OSError):
            return root()

    log = open(path("log"), "w", encoding="utf-8")
    # Of many nonces that it rejects, three in a row would end an attempt.
    options = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "1"}
    processes = [
        subprocess.Popen(command, stdout=log, stderr=log, env=options)
        for command in (resolver, pebble)
    ]
    try:
        until(answers, "the authority answers")
        yield f"https://localhost:{port}/dir", root
    except BaseException:
        with open(path("log"), encoding="utf-8") as shown:
            sys.stderr.write("".join(shown.readlines()[-60:]))
        raise
    finally:
        for process in processes:
            process.kill()
            process.wait()
        log.close()


def verified(address, name, context):
    """Whether the certificate at this address is for the name, and from the authority."""
    try:
        with socket.create_connection(address, timeout=30) as plain, context.wrap_socket(plain, server_hostname=name):
            return True
    except ssl.SSLError:
        return False


def only_the_owner_reads(directory):
    for path, _, files in os.walk(directory):
        for name in files:
            mode = stat.S_IMODE(os.stat(os.path.join(path, name)).st_mode)
            assert mode == 0o600, (name, oct(mode))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700, path


def story(server, doors, root):
    context = ssl.create_default_context(cadata=root())
    for name in NAMES:
        until(lambda: verified(doors["imaps"], name, context), f"a certificate for {name}")
        assert verified(doors["https"], name, context)
    only_the_owner_reads(os.path.join(server.data, "acme"))
    with requests_without_pause(server, doors) as done:
        seen = {fingerprint(doors["https"])}
        deadline = time.monotonic() + 4 * LIFETIME
        while len(seen) < 3:
            assert time.monotonic() < deadline, "the certificate is renewed twice"
            seen.add(fingerprint(doors["https"]))
            assert verified(doors["imaps"], NAMES[0], context), "the certificate expired"
    print(f"{len(done)} requests, {len(seen)} certificates")
    report = subprocess.run(
        [os.environ["MAILAPI_BINARY"], "doctor"],
        env=server.environment(), cwd=server.directory, capture_output=True, text=True, check=False,
    )  # fmt: skip
    # A certificate of half a minute always expires soon.
    assert "note   certificate: expires at" in report.stdout, report.stdout


def starts_again_with_the_certificate(server, doors, root):
    context = ssl.create_default_context(cadata=root())
    server.stop()
    server.start()
    assert verified(doors["imaps"], NAMES[0], context), "the stored certificate is used from the beginning"


def settings_for(directory_url, http_port, tls_port, imaps_port):
    return {
        "HTTP__LISTEN": f"127.0.0.1:{http_port}",
        "HTTP__TLS_LISTEN": f"127.0.0.1:{tls_port}",
        "HTTP__PUBLIC_URL": f"https://{NAMES[1]}",
        "MAIL__EMBEDDED__HOSTNAME": NAMES[0],
        "MAIL__EMBEDDED__IMAPS_LISTEN": f"127.0.0.1:{imaps_port}",
        "TLS__MODE": "acme",
        "TLS__ACME_DIRECTORY": directory_url,
    }


if __name__ == "__main__":
    needs("pebble", "pebble-challtestsrv", "openssl")
    http_port, tls_port, imaps_port = (free_port() for _ in range(3))
    with (
        tempfile.TemporaryDirectory(prefix="mailapi-authority-") as directory,
        authority(directory, http_port, tls_port) as (directory_url, root),
    ):
        # The authority's own certificate is not in the system's store.
        os.environ["SSL_CERT_FILE"] = os.path.join(directory, "cert.pem")
        with running(settings_for(directory_url, http_port, tls_port, imaps_port)) as server:
            # The public URL is for clients on other machines.
            server.api_url = f"http://127.0.0.1:{http_port}/api/v1"
            doors = {"https": ("127.0.0.1", tls_port), "imaps": ("127.0.0.1", imaps_port)}
            story(server, doors, root)
            starts_again_with_the_certificate(server, doors, root)
