"""Another implementation reads the zone file, serves it, and mailapi then finds every record."""

import glob
import json
import os
import socket
import sys
import threading

from harness import running

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += glob.glob(os.path.join(HERE, "../../../../target/schemathesis/lib/python*/site-packages"))

import dns.message  # noqa: E402 (./test installs it there)
import dns.name  # noqa: E402
import dns.rcode  # noqa: E402
import dns.zone  # noqa: E402

HOST = "mx.grün.test".encode("idna").decode()
# What the operator has already: the zone itself, and the address of the mail server.
OWN = "@ 3600 IN SOA ns hostmaster 1 2 3 4 5\n@ 3600 IN NS ns\nns 3600 IN A 192.0.2.1\nmx 3600 IN A 192.0.2.17\n"
POINTERS = "@ 3600 IN SOA ns.test. a.test. 1 2 3 4 5\n@ 3600 IN NS ns.test.\n17 3600 IN PTR " + HOST + ".\n"


class NameServer:
    """Answers queries by UDP from zones of dnspython; without zones, it does not answer."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.zones = []
        threading.Thread(target=self._serve, daemon=True).start()

    def address(self):
        host, port = self.socket.getsockname()
        return f"{host}:{port}"

    def _serve(self):
        while True:
            query, client = self.socket.recvfrom(4096)
            if self.zones:
                self.socket.sendto(self.answer(dns.message.from_wire(query)).to_wire(), client)

    def answer(self, query):
        response = dns.message.make_response(query, recursion_available=True)
        (question,) = query.question
        zone = next((zone for zone in self.zones if question.name.is_subdomain(zone.origin)), None)
        node = zone and zone.get_node(question.name)
        if node is None:
            response.set_rcode(dns.rcode.NXDOMAIN)
        elif found := node.get_rdataset(question.rdclass, question.rdtype):
            rrset = response.find_rrset(response.answer, question.name, question.rdclass, question.rdtype, create=True)
            rrset.update(found)
        return response


def zone(text, origin):
    return dns.zone.from_text(text, origin=origin, relativize=False)


def published(setup, served):
    """Whether the zone has the record with its whole value, in strings that fit."""
    for record in setup["records"]:
        if record["type"] == "PTR":
            continue
        rdatas = served.find_rdataset(dns.name.from_text(record["name"]), record["type"])
        assert rdatas.ttl == record["ttl"], record
        if record["type"] == "TXT":
            values = [b"".join(rdata.strings).decode() for rdata in rdatas]
        else:
            values = [rdata.to_text() for rdata in rdatas]
        assert values == [record["value"]], (values, record)


def statuses(setup):
    return {record["purpose"]: record["status"] for record in setup["records"]}


def story(server, name_server):
    domain = "grün.test"
    status, answer = server.call("POST", "/domains", {"domain": domain})
    assert status == 201, answer
    origin = domain.encode("idna").decode()
    path = f"/domains/{origin}/dns"
    silent = server.get(path)
    assert set(statuses(silent).values()) == {"unknown"}, silent

    name_server.zones = [zone(OWN, origin), zone(POINTERS, "2.0.192.in-addr.arpa")]
    empty = server.get(path)
    assert statuses(empty) == {**dict.fromkeys(("MX", "SPF", "DKIM", "DMARC"), "missing"), "PTR": "found"}, empty

    pasted = zone(OWN + empty["zone_file"], origin)
    published(empty, pasted)
    name_server.zones[0] = pasted
    full = server.get(path)
    assert set(statuses(full).values()) == {"found"}, full
    verified = server.get(f"/domains/{origin}/verify")
    assert verified["verified"], verified

    # A listener that mail programs on other machines can use. The command line listens nowhere itself.
    server.settings |= {
        "MAIL__EMBEDDED__SUBMISSION_LISTEN": "0.0.0.0:587",
        "TLS__CERT": "a.pem",
        "TLS__KEY": "a.key",
    }
    shown = json.loads(server.run("domain", "dns", origin, "--json"))
    assert statuses(shown)["SUBMISSION"] == "missing", shown
    pasted = zone(OWN + server.run("domain", "dns", origin, "--zone"), origin)
    published(shown, pasted)
    name_server.zones[0] = pasted
    table = server.run("domain", "dns", origin)
    found = [line.split()[:4] for line in table.splitlines()]
    assert ["SUBMISSION", "found", "no", "SRV"] in found and ["SPF", "found", "yes", "TXT"] in found, table


if __name__ == "__main__":
    name_server = NameServer()
    with running({"DNS__SERVERS": name_server.address(), "MAIL__EMBEDDED__HOSTNAME": HOST}) as server:
        story(server, name_server)
