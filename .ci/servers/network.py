"""The names and the next hops that .ci/bouncing gives to a mail server."""
import smtplib, socketserver, struct, threading, time

MAILAPI, SERVER, HOPS, DEAD = "192.0.2.1", "192.0.2.2", "192.0.2.10", "192.0.2.14"
# Exim sends one copy to all domains of a host, so the one that refuses contents is another.
STRICT = "192.0.2.11"
# mailapi and the server under test ask different name servers: for mailapi, the server takes the mail of all domains.
NAMES_OF_MAILAPI, NAMES_OF_SERVER = "192.0.2.3", "192.0.2.4"
SLOW_SECONDS = 9
TYPES = {"A": 1, "PTR": 12, "MX": 15}
SERVFAIL, NXDOMAIN = 2, 3

COMMON = {
    "example.org": {"MX": ["mx.example.org"]},
    "mx.example.org": {"A": [MAILAPI]},
    "server.example": {"MX": ["mx.server.example"]},
    "late.server.example": {"MX": ["mx.server.example"]},
    "mx.server.example": {"A": [SERVER]},
    "mx.hops.example": {"A": [HOPS]},
    "mx.strict.example": {"A": [STRICT]},
    "mx.dead.example": {"A": [DEAD]},
    "1.2.0.192.in-addr.arpa": {"PTR": ["mx.example.org"]},
    "2.2.0.192.in-addr.arpa": {"PTR": ["mx.server.example"]},
    "10.2.0.192.in-addr.arpa": {"PTR": ["mx.hops.example"]},
}
HOPPING = ("fine.example", "refusing.example", "full.example")
BROKEN = "broken.example"
REAL = {**COMMON, **{name: {"MX": ["mx.hops.example"]} for name in HOPPING},
        "content.example": {"MX": ["mx.strict.example"]}, "dead.example": {"MX": ["mx.dead.example"]},
        "null.example": {"MX": [""]}, BROKEN: None}
SEEN_BY_MAILAPI = {**COMMON, **{name: {"MX": ["mx.server.example"]} for name in (
    *HOPPING, "content.example", "dead.example", "null.example", "absent.example", BROKEN)}}


# ---------------------------------------------------------------------------------------------------------------- names

def wire(name):
    labels = [label.encode() for label in name.split(".") if label]
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\0"


def record(kind, value):
    """Returns the data of a record (RFC 1035 section 3.3). An MX without a name is the null MX of RFC 7505."""
    if kind == "A":
        return bytes(map(int, value.split(".")))
    return (struct.pack("!H", 10 if value else 0) if kind == "MX" else b"") + wire(value)


def answer(query, zone):
    end = query.index(b"\0", 12)
    labels, at = [], 12
    while at < end:
        labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    name, kind = ".".join(labels), struct.unpack("!H", query[end + 1:end + 3])[0]
    known = any(one == name or one.endswith("." + name) for one in zone)
    code = SERVFAIL if name in zone and zone[name] is None else 0 if known else NXDOMAIN
    found = [(kind, record(word, value)) for word, number in TYPES.items() if number == kind
             for value in (zone.get(name) or {}).get(word, [])]
    head = query[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(found), 0, 0)
    records = [b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data for kind, data in found]
    return head + query[12:end + 5] + b"".join(records)


def serve_names(address, zone):
    class Udp(socketserver.BaseRequestHandler):
        def handle(self):
            data, sock = self.request
            sock.sendto(answer(data, zone), self.client_address)

    server = socketserver.ThreadingUDPServer((address, 53), Udp)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()


# ------------------------------------------------------------------------------------------------------------ next hops

class Session(socketserver.StreamRequestHandler):
    """An SMTP session that asks `taken` after each recipient and at the end of the message."""

    def reply(self, *lines):
        last = len(lines) - 1
        for at, line in enumerate(lines):
            # The separator stands after the code.
            self.wfile.write((line if at == last else line[:3] + "-" + line[4:]).encode() + b"\r\n")

    def handle(self):
        self.sender, self.recipients = "", []
        self.reply("220 mx.hops.example ESMTP")
        while line := self.rfile.readline():
            word, _, rest = line.decode(errors="replace").strip().partition(" ")
            word = word.upper()
            if word == "QUIT":
                return self.reply("221 2.0.0 Bye")
            getattr(self, f"on_{word.lower()}", self.on_other)(rest)

    def on_other(self, _):
        self.reply("250 2.0.0 Fine")

    def on_ehlo(self, _):
        self.reply("250 mx.hops.example", "250 8BITMIME", "250 ENHANCEDSTATUSCODES")

    def on_mail(self, rest):
        self.sender, self.recipients = address(rest), []
        self.reply("250 2.1.0 Fine")

    def on_rcpt(self, rest):
        recipient = address(rest)
        lines = self.taken(recipient)
        if lines[0].startswith("2"):
            self.recipients.append(recipient)
        self.reply(*lines)

    def on_data(self, _):
        if not self.recipients:
            return self.reply("554 5.5.1 No recipients")
        self.reply("354 Go on")
        content = b""
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            content += line[1:] if line.startswith(b".") else line
        self.reply(*self.finished(content))


def address(rest):
    return rest.partition("<")[2].partition(">")[0]


class Hop(Session):
    """The servers behind the server under test. The domain and the local part choose what one does."""

    first_seen = {}

    def taken(self, recipient):
        local, _, domain = recipient.lower().partition("@")
        if domain == "refusing.example" and local == "lost":
            return ("551 5.1.6 The box has moved",)
        if domain == "refusing.example" and local.startswith("gone"):
            return "550 5.1.1 There is no such box,", "550 5.1.1 and there was none last year"
        if domain == "full.example":
            return ("452 4.2.2 The box is full",)
        now = time.monotonic()
        if local.startswith("slow") and now - self.first_seen.setdefault(recipient, now) < SLOW_SECONDS:
            return ("451 4.7.1 Come back soon",)
        return ("250 2.1.5 Fine",)

    def finished(self, content):
        if any(one.endswith("@content.example") for one in self.recipients):
            return ("554 5.7.1 The content is not wanted",)
        returned = [one for one in self.recipients if one.endswith("@example.org")]
        if returned:
            # A smart host also takes the notices of its clients. mailapi may be starting again.
            try:
                with smtplib.SMTP(MAILAPI, 25, timeout=60) as client:
                    client.sendmail(self.sender, returned, content)
            except ConnectionError:
                return ("451 4.4.1 Come back soon",)
        return ("250 2.0.0 Taken",)


class Sessions(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True


def serve_hops():
    for host in (HOPS, STRICT):
        threading.Thread(target=Sessions((host, 25), Hop).serve_forever, daemon=True).start()
