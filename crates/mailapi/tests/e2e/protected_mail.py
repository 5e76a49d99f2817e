"""Two servers and a real Postfix exchange mail over verified TLS, by DANE and by MTA-STS, with a DNS root of their own.

Mail waits while a record, a policy or a certificate is wrong, and then travels. Each side verifies the DKIM signatures
of the other. Mail bounces, is deferred, and expires by a clock that is set forward.
"""

import ipaddress
import os
import re
import signal
import ssl
import tempfile
import urllib.request

from harness import needs, running, until
from internet import (
    NAME_SERVER,
    NameServer,
    Postfix,
    certificate,
    make_network,
    move_into_own_namespaces,
    run,
    tlsa,
    use_own_files,
)

import dkim  # (./test installs it; `internet` finds it)

NEAR, FAR, POST = "192.0.2.1", "192.0.2.2", "192.0.2.3"
DOMAINS = {NEAR: "near.test", FAR: "far.test", POST: "post.test"}
WRONG_TLSA = f"3 1 1 {'0' * 64}"
DEMAND_OF_DANE = "the DANE records of {} demand verified TLS"
# Longer than a message stays in the queue, and shorter than certificates and signatures of zones are valid.
LATER = "+6d"


def settings(address, name_server):
    return {
        "HTTP__TLS_LISTEN": f"{address}:443",
        "MAIL__EMBEDDED__HOSTNAME": f"mx.{DOMAINS[address]}",
        "MAIL__EMBEDDED__SMTP_LISTEN": f"{address}:25",
        "TLS__CERT": "cert.pem",
        "TLS__KEY": "cert.key",
        "DNS__SERVERS": f"{NAME_SERVER}:53",
        "DNS__DNSSEC": name_server.root_keys,
        "METRICS__LISTEN": "127.0.0.1:0",
        "LOG__ACCESS": "off",
        # An attempt follows when the story asks for it.
        "ADVANCED__DELIVERY__RETRY_INTERVALS": "1h",
    }


def addresses(domain):
    """The records that an operator has before there is mail."""
    (address,) = (address for address, name in DOMAINS.items() if name == domain)
    return f"mx IN A {address}\n"


def zone_file(server, domain):
    """The records of `GET /domains/{domain}/dns` as they are pasted, without time in caches."""
    return server.get(f"/domains/{domain}/dns")["zone_file"].replace(" 3600 IN ", " 0 IN ")


def send(server, sender, recipient):
    message = {"from": sender, "to": [recipient], "subject": "over verified TLS", "body": {"text": "Hello."}}
    status, answer = server.call("POST", "/mail/send", message)
    assert status == 202, answer
    return f"/mail/{answer['message_id']}/status"


def ends_as(server, path, status, reply=""):
    """Waits until the only recipient has this status, with this text in the reply."""

    def found():
        (recipient,) = server.get(path)["recipients"]
        is_there = recipient["status"] == status and reply in recipient.get("smtp_response", "")
        return is_there and recipient

    try:
        return until(found, "")
    except AssertionError:
        raise AssertionError(f"not {status} with {reply!r}, but {server.get(path)}") from None


def retry(server, recipient):
    listed = lambda: server.get(f"/queue?recipient={recipient}&state=deferred")["messages"]
    (waiting,) = until(listed, f"nothing waits for {recipient}")
    status, answer = server.call("POST", f"/queue/{waiting['queue_id']}/retry")
    assert status == 200, answer


def raw(server, mailbox):
    """The newest message of a mailbox."""
    newest = until(lambda: server.messages(mailbox), f"nothing arrives for {mailbox}")[0]
    return server.get(f"/mailbox/{mailbox}/messages/{newest['uid']}/raw")


def field(message, name):
    """The first field of this name, unfolded."""
    found = re.search(rf"^{name}:(.*(?:\n[ \t].*)*)", message.decode().replace("\r\n", "\n"), re.MULTILINE)
    return found and " ".join(found[1].split())


def signature_holds(message, name_server, domain):
    texts = lambda name, timeout=5: next(iter(name_server.texts(name.decode())), None)
    assert dkim.verify(message, dnsfunc=texts), message
    assert f"d={domain};" in field(message, "DKIM-Signature"), message
    assert not dkim.verify(message.replace(b"Hello.", b"Goodbye."), dnsfunc=texts), message


def authenticated(message, host, **expected):
    results = field(message, "Authentication-Results")
    assert results.startswith(f"{host};"), results
    found = dict(re.findall(r"; (\w+)=(\w+)", results))
    assert expected.items() <= found.items(), (expected, results)


def arrived_over_tls(message, client, address, host):
    received = field(message, "Received")
    assert received.startswith(f"from {client} ([{address}]) by {host} with ESMTPS id "), received


def arrived_as_signed(message, sender, receiver, name_server):
    """The server at `receiver` has verified all that the server at `sender` promises, and so does another program."""
    host = f"mx.{DOMAINS[receiver]}"
    arrived_over_tls(message, f"mx.{DOMAINS[sender]}", sender, host)
    authenticated(message, host, spf="pass", dkim="pass", dmarc="pass")
    signature_holds(message, name_server, DOMAINS[sender])


def connections(server):
    """How many connections to other servers had which protection, or failed for want of it."""
    with urllib.request.urlopen(f"http://{server.running['metrics']}/metrics", timeout=30) as response:
        text = response.read().decode()
    counts = re.findall(r'mailapi_outbound_tls_total\{result="([^"]+)"\} ([1-9]\d*)', text)
    return {result: int(count) for result, count in counts}


def domains_are_published(servers, name_server):
    """Each domain gets the records that mailapi lists, and mailapi finds them; the records of each domain."""
    zones = {}
    for server, domain in servers:
        zones[domain] = addresses(domain) + zone_file(server, domain)
        if domain == "near.test":
            zones[domain] += f"_25._tcp.mx IN TLSA {tlsa(os.path.join(server.directory, 'cert.pem'))}\n"
        name_server.publish(domain, zones[domain])
        statuses = {record["purpose"]: record["status"] for record in server.get(f"/domains/{domain}/dns")["records"]}
        assert statuses.keys() >= {"MX", "SPF", "DKIM", "DMARC", "MTA-STS", "PTR"}, statuses
        assert set(statuses.values()) == {"found"}, statuses
        # Who prints the zone file again and replaces the zone loses no record.
        assert f"\nmta-sts.{domain}. 0 IN CNAME mx.{domain}.\n" in zone_file(server, domain), zone_file(server, domain)
        with urllib.request.urlopen(f"https://mta-sts.{domain}/.well-known/mta-sts.txt", timeout=30) as response:
            policy = response.read().decode()
        assert "mode: enforce" in policy and f"mx: mx.{domain}\r\n" in policy, policy
    return zones


def records_of_postfix(data):
    return f"""@ IN MX 10 mx
@ IN TXT "v=spf1 mx -all"
_dmarc IN TXT "v=DMARC1; p=reject"
_25._tcp.mx IN TLSA {data}
{addresses(DOMAINS[POST])}"""


def only_the_certificate_in_dns_gets_mail(near, postfix, name_server, pem):
    """DANE: nobody else vouches for Postfix's certificate, which it has signed itself."""
    path = send(near, "alice@near.test", "paula@post.test")
    waiting = ends_as(near, path, "deferred", f"{DEMAND_OF_DANE.format('mx.post.test')}: TLS handshake failed")
    assert waiting["dsn_code"] == "4.7.5" and waiting["attempts"] == 1, waiting
    assert postfix.messages("paula") == [] and "from=<alice@near.test>" not in postfix.log(), postfix.log()
    name_server.publish("post.test", records_of_postfix(tlsa(pem)))
    retry(near, "paula@post.test")
    ends_as(near, path, "sent")
    (message,) = until(lambda: postfix.messages("paula"), "Postfix delivers the message")
    assert re.search(r"from mx\.near\.test .*using TLSv1\.[23] with cipher", field(message, "Received")), message
    signature_holds(message, name_server, "near.test")


def only_the_server_of_the_policy_gets_mail(near, far, name_server, published, authority):
    """MTA-STS: a server that the policy does not name gets no mail, although its certificate has its name. Neither does
    one with a certificate for another name."""
    other = published.replace("MX 10 mx.far.test.", "MX 10 other.far.test.") + f"other IN A {FAR}\n"
    assert other.count("other") == 2, other
    name_server.publish("far.test", other)
    path = send(near, "alice@near.test", "bob@far.test")
    demand = "the MTA-STS policy of far.test demands verified TLS"
    first = ends_as(near, path, "deferred", f"{demand}: it does not allow the server other.far.test")
    assert first["dsn_code"] == "4.7.5" and first["attempts"] == 1, first

    name_server.publish("far.test", published)
    show_certificate(far, ["mta-sts.far.test"], authority)
    retry(near, "bob@far.test")
    ends_as(near, path, "deferred", f"{demand}: TLS handshake failed")
    assert far.messages("bob@far.test") == []

    show_certificate(far, ["mx.far.test", "mta-sts.far.test"], authority)
    retry(near, "bob@far.test")
    ends_as(near, path, "sent")
    arrived_as_signed(raw(far, "bob@far.test"), NEAR, FAR, name_server)


def show_certificate(server, hosts, authority):
    """Replaces the certificate of a running server."""
    pem = certificate(server.directory, "cert", hosts, authority)
    server.process.send_signal(signal.SIGHUP)
    address, _, port = server.settings["HTTP__TLS_LISTEN"].rpartition(":")
    with open(pem, encoding="ascii") as file:
        expected = file.read()
    is_shown = lambda: ssl.get_server_certificate((address, int(port))) == expected
    until(is_shown, f"the certificate for {hosts} is shown")


def postfix_sends_by_dane(near, postfix):
    postfix.send("paula", "alice@near.test", "from Postfix")
    until(lambda: "to=<alice@near.test>, relay=mx.near.test" in postfix.log(), "Postfix sends the message")
    # Postfix has no certificate authorities: only a TLSA record can verify a certificate.
    assert f"Verified TLS connection established to mx.near.test[{NEAR}]:25: TLSv1." in postfix.log(), postfix.log()
    message = raw(near, "alice@near.test")
    arrived_over_tls(message, "mx.post.test", POST, "mx.near.test")
    authenticated(message, "mx.near.test", spf="pass", dkim="none", dmarc="pass")


def a_policy_does_not_replace_dane(near, far, name_server, published):
    """The certificate is what the policy of near.test demands, and still not what its DNS has (RFC 8461 section 2)."""
    (record,) = re.findall("3 1 1 [0-9a-f]{64}", published)
    name_server.publish("near.test", published.replace(record, WRONG_TLSA))
    before = len(near.messages("alice@near.test"))
    path = send(far, "bob@far.test", "alice@near.test")
    ends_as(far, path, "deferred", f"{DEMAND_OF_DANE.format('mx.near.test')}: TLS handshake failed")
    assert len(near.messages("alice@near.test")) == before
    name_server.publish("near.test", published)
    retry(far, "alice@near.test")
    ends_as(far, path, "sent")
    arrived_as_signed(raw(near, "alice@near.test"), FAR, NEAR, name_server)
    assert connections(far) == {"verified": 1, "certificate-not-trusted": 1}, connections(far)


def unknown_recipients_bounce(near, postfix):
    for recipient in ("nobody@post.test", "nobody@far.test"):
        before = len(near.messages("alice@near.test"))
        bounced = ends_as(near, send(near, "alice@near.test", recipient), "bounced", "550")
        assert bounced["dsn_code"].startswith("5.1.1"), bounced
        until(lambda: len(near.messages("alice@near.test")) > before, f"the notice about {recipient} arrives")
        notice = raw(near, "alice@near.test")
        assert b"multipart/report" in notice and f"Final-Recipient: rfc822;{recipient}".encode() in notice, notice
    before = len(postfix.messages("paula"))
    postfix.send("paula", "nobody@near.test", "to nobody")
    until(lambda: len(postfix.messages("paula")) > before, "Postfix returns the message")
    notice = next(message for message in postfix.messages("paula") if b"nobody@near.test" in message)
    assert b"Status: 5.1.1" in notice and b"Diagnostic-Code: smtp; 550 5.1.1" in notice, notice


def mail_waits_for_a_stopped_server(near, postfix):
    before = len(postfix.messages("paula"))
    postfix.stop()
    path = send(near, "alice@near.test", "paula@post.test")
    waiting = ends_as(near, path, "deferred", f"cannot connect to mx.post.test[{POST}]:25")
    assert waiting["attempts"] == 1, waiting
    postfix.start()
    retry(near, "paula@post.test")
    ends_as(near, path, "sent")
    until(lambda: len(postfix.messages("paula")) == before + 1, "Postfix delivers the message")


def mail_expires(near):
    """Postfix defers each attempt. The server starts again on a later day."""
    path = send(near, "alice@near.test", "busy@post.test")
    ends_as(near, path, "deferred", "450 4.2.1")
    before = len(near.messages("alice@near.test"))
    near.stop()
    os.environ |= {"LD_PRELOAD": library_of_clocks(), "FAKETIME": LATER, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    near.start()
    for name in ("LD_PRELOAD", "FAKETIME", "FAKETIME_DONT_FAKE_MONOTONIC"):
        del os.environ[name]
    expired = ends_as(near, path, "bounced", "could not be delivered in time; last reply: 450 4.2.1")
    assert expired["dsn_code"] == "5.4.7", expired
    message_id = near.get(path)["message_id"]
    (event,) = near.get(f"/events?after=start&types=message.bounced&message_id={message_id}")["events"]
    assert event["data"]["bounce"]["class"] == "expired", event
    until(lambda: len(near.messages("alice@near.test")) > before, "the notice arrives")
    notice = raw(near, "alice@near.test")
    assert b"multipart/report" in notice and b"Final-Recipient: rfc822;busy@post.test" in notice, notice


def library_of_clocks():
    """The library that moves the clock of a program."""
    return run("faketime", "-f", "+0", "printenv", "LD_PRELOAD").decode().strip()


def story(near, far, postfix, name_server, pem, authority):
    near.create_people("alice", domain="near.test")
    far.create_people("bob", domain="far.test")
    zones = domains_are_published([(near, "near.test"), (far, "far.test")], name_server)
    only_the_certificate_in_dns_gets_mail(near, postfix, name_server, pem)
    only_the_server_of_the_policy_gets_mail(near, far, name_server, zones["far.test"], authority)
    postfix_sends_by_dane(near, postfix)
    a_policy_does_not_replace_dane(near, far, name_server, zones["near.test"])
    unknown_recipients_bounce(near, postfix)
    mail_waits_for_a_stopped_server(near, postfix)
    counted = connections(near)
    # The failures are those of the wrong TLSA record, of the policy without the server, and of the wrong certificate.
    failures = {"certificate-not-trusted": 1, "validation-failure": 1, "certificate-host-mismatch": 1}
    assert counted.pop("verified") >= 4 and counted == failures, counted
    mail_expires(near)


def begin(authority):
    def start(server):
        domain = server.settings["MAIL__EMBEDDED__HOSTNAME"].removeprefix("mx.")
        certificate(server.directory, "cert", [f"{name}.{domain}" for name in ("mx", "other", "mta-sts")], authority)
        server.start()

    return start


def main(directory):
    # From a server's view, mail comes from the address of the client: Postfix binds its own.
    make_network({NEAR: FAR, FAR: NEAR, POST: NEAR})
    use_own_files(directory)
    authority = (directory, "authority")
    os.environ["SSL_CERT_FILE"] = certificate(directory, "authority", [])
    pem = certificate(directory, "postfix", ["mx.post.test"])
    postfix = Postfix(directory, POST, DOMAINS[POST], ["paula", "busy"])
    postfix.lay_out(pem, "smtpd_recipient_restrictions = check_recipient_access "
                         "inline:{ { busy@post.test = 450 4.2.1 come again later } }")  # fmt: skip
    name_server = NameServer(directory)
    pointers = "".join(
        f"{ipaddress.ip_address(address).reverse_pointer}. IN PTR mx.{domain}.\n" for address, domain in DOMAINS.items()
    )
    zones = {domain: addresses(domain) for domain in DOMAINS.values()} | {"post.test": records_of_postfix(WRONG_TLSA)}
    name_server.start(pointers, zones)
    postfix.start()
    with running(settings(NEAR, name_server), begin(authority)) as near:
        with running(settings(FAR, name_server), begin(authority)) as far:
            story(near, far, postfix, name_server, pem, authority)
    postfix.stop()


if __name__ == "__main__":
    needs("ip", "unshare", "openssl", "/usr/sbin/named", "dnssec-keygen", "/usr/sbin/postfix", "faketime")
    move_into_own_namespaces()
    with tempfile.TemporaryDirectory(prefix="mailapi-story-") as directory:
        main(directory)
