"""An internet of its own for one story: addresses, a signed DNS root, a certificate authority, and a real Postfix.

The story runs in namespaces of its own, so that each mail server has port 25 at an address of its own. These are not
loopback addresses: mailapi would take a server there for itself, and would not check mail from there.
"""

import base64
import contextlib
import glob
import grp
import hashlib
import os
import pwd
import re
import shutil
import signal
import smtplib
import subprocess
import sys

from harness import until

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += glob.glob(os.path.join(HERE, "../../../../target/schemathesis/lib/python*/site-packages"))

import dns.message  # noqa: E402 (./test installs it there)
import dns.query  # noqa: E402

NAME_SERVER = "192.0.2.53"
RESOLVER = "192.0.2.54"
NAMESPACES = ["--net", "--mount", "--pid", "--fork"]


def run(*command, directory=None):
    """Runs a program; its standard output."""
    done = subprocess.run(command, cwd=directory, capture_output=True, check=False)
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def move_into_own_namespaces():
    """Runs the script again where ports, addresses, mounts and processes are its own, and end with it."""
    if sys.argv[1:] == ["inside"]:
        # The first process of a namespace ignores signals without a handler.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
        return
    if os.geteuid() != 0:
        sys.exit("this story needs root: Postfix runs as several users, and the story makes a network for it")
    tried = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        sys.exit(f"this story needs namespaces for network, mounts and processes (CAP_SYS_ADMIN): {tried.stderr}")
    inside = [sys.executable, "-B", os.path.abspath(sys.argv[0]), "inside"]
    os.execvp("unshare", ["unshare", *NAMESPACES, "--kill-child", *inside])


def make_network(peers):
    """Gives this machine the addresses. `peers` has, for each host, the source of connections to it.

    Otherwise the kernel uses the address of the host itself, and SPF sees the receiver as the client.
    """
    run("ip", "link", "set", "lo", "up")
    for address in [*peers, NAME_SERVER, RESOLVER]:
        run("ip", "address", "add", f"{address}/32", "dev", "lo")
    for address, source in peers.items():
        run("ip", "route", "replace", "local", address, "dev", "lo", "table", "local", "src", source)


class NameServer:
    """BIND: at NAME_SERVER with a signed root and signed zones, at RESOLVER for programs that let it verify them."""

    def __init__(self, directory):
        self.directory = os.path.join(directory, "named")
        os.mkdir(self.directory)
        self.serials = {}
        self.process = None
        self.root_keys = os.path.join(self.directory, "root.key")

    def start(self, root, zones):
        """Serves records of the root, and zones below it."""
        for zone in [*zones, "."]:
            key = run("dnssec-keygen", "-q", "-a", "ECDSAP256SHA256", "-f", "KSK", zone, directory=self.directory)
            name = key.decode().strip()
        # The last key is that of the root.
        shutil.copy(os.path.join(self.directory, f"{name}.key"), self.root_keys)
        for zone, records in zones.items():
            self._sign(zone, records)
            with open(os.path.join(self.directory, f"dsset-{zone}."), encoding="ascii") as delegation:
                root += f"{zone}. IN NS ns.\n{delegation.read()}"
        self._sign(".", f"ns. IN A {NAME_SERVER}\n{root}")
        self._write("named.conf", self._configuration(zones))
        self._write("hints", f". 3600 IN NS ns.\nns. 3600 IN A {NAME_SERVER}\n")
        # AppArmor would keep the installed program out of this directory.
        program = shutil.copy("/usr/sbin/named", os.path.join(self.directory, "named"))
        command = [program, "-f", "-4", "-c", os.path.join(self.directory, "named.conf")]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: self._serves("."), "the name server starts")

    def publish(self, zone, records):
        """Replaces the records of a zone; waits until they are served."""
        self._sign(zone, records)
        self.process.send_signal(signal.SIGHUP)
        until(lambda: self._serves(zone), f"the new records of {zone} are served")

    def texts(self, name):
        """The TXT records of a name."""
        answer = dns.query.udp(dns.message.make_query(name, "TXT"), NAME_SERVER, timeout=10).answer
        return [b"".join(record.strings) for records in answer for record in records]

    def _serves(self, zone):
        assert self.process.poll() is None, "named has ended"
        try:
            answer = dns.query.udp(dns.message.make_query(zone, "SOA"), NAME_SERVER, timeout=1).answer
        except (OSError, dns.exception.Timeout):
            return False
        return answer and answer[0][0].serial == self.serials[zone]

    def _sign(self, zone, records):
        # Answers are never cached: the story changes records, and does not wait until old ones are forgotten.
        self.serials[zone] = serial = self.serials.get(zone, 0) + 1
        head = f"$TTL 0\n@ IN SOA ns. hostmaster. {serial} 3600 600 86400 0\n@ IN NS ns.\n"
        self._write(f"zone-{zone}", head + records)
        run("dnssec-signzone", "-q", "-z", "-S", "-o", zone, "-f", f"signed-{zone}", f"zone-{zone}",
            directory=self.directory)  # fmt: skip

    def _write(self, name, text):
        with open(os.path.join(self.directory, name), "w", encoding="ascii") as file:
            file.write(text)

    def _configuration(self, zones):
        with open(self.root_keys, encoding="ascii") as file:
            key = re.search(r"DNSKEY (\d+ \d+ \d+) (.+)", file.read())
        served = "".join(f'zone "{zone}" {{ type primary; file "signed-{zone}"; }};\n' for zone in [".", *zones])
        return f"""options {{
    directory "{self.directory}"; listen-on {{ {NAME_SERVER}; {RESOLVER}; }}; listen-on-v6 {{ none; }};
    pid-file none; session-keyfile none; notify no; empty-zones-enable no;
}};
controls {{ }};
view authority {{
    match-destinations {{ {NAME_SERVER}; }}; recursion no; dnssec-validation no;
    {served}
}};
view resolver {{
    match-destinations {{ {RESOLVER}; }}; recursion yes; allow-recursion {{ any; }}; dnssec-validation yes;
    trust-anchors {{ . static-key {key[1]} "{key[2].replace(' ', '')}"; }};
    zone "." {{ type hint; file "hints"; }};
}};
"""


def use_own_files(directory):
    """Lets programs that read the settings of the system use RESOLVER. Memory that programs share ends with the story,
    because libfaketime leaves files there."""
    path = os.path.join(directory, "resolv.conf")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"nameserver {RESOLVER}\noptions trust-ad edns0\n")
    run("mount", "--bind", path, "/etc/resolv.conf")
    run("mount", "-t", "tmpfs", "tmpfs", "/dev/shm")


def certificate(directory, name, hosts, issuer=None):
    """Writes NAME.pem and NAME.key. A certificate for hosts is signed by the issuer (directory and name) or by itself;
    one without hosts is that of an authority."""
    path = os.path.join(directory, name)
    signer = issuer and os.path.join(*issuer)
    signers = ["-CA", f"{signer}.pem", "-CAkey", f"{signer}.key"] if signer else []
    extensions = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign"]
    if hosts:
        names = ",".join(f"DNS:{host}" for host in hosts)
        extensions = ["basicConstraints=critical,CA:FALSE", f"subjectAltName={names}"]
    added = [word for extension in extensions for word in ("-addext", extension)]
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
        "-subj", f"/CN={hosts[0] if hosts else name}", *added, *signers, "-keyout", f"{path}.key",
        "-out", f"{path}.pem")  # fmt: skip
    return f"{path}.pem"


def tlsa(pem):
    """The data of a TLSA record for the key of a certificate, whoever issued it: 3 1 1 of RFC 7671."""
    key = run("openssl", "x509", "-in", pem, "-pubkey", "-noout").decode()
    der = base64.b64decode("".join(key.strip().split("\n")[1:-1]))
    return f"3 1 1 {hashlib.sha256(der).hexdigest()}"


DAEMONS = """
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
error unix - - n - - error
retry unix - - n - - error
virtual unix - n n - - virtual
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""
QUEUE = {name: 0o700 for name in ("active", "bounce", "corrupt", "defer", "deferred", "flush", "hold", "incoming",
                                  "private", "saved", "trace")}  # fmt: skip
QUEUE |= {"maildrop": 0o730, "pid": 0o755, "public": 0o710}
MAIL_OWNER = 5000


class Postfix:
    """A private Postfix at port 25 of an address, with maildirs, its certificate, and DANE for mail that it sends."""

    def __init__(self, directory, address, domain, people):
        self.directory = os.path.join(directory, "postfix")
        self.address, self.domain, self.people = address, domain, people
        self.process = None

    def path(self, *names):
        return os.path.join(self.directory, *names)

    def lay_out(self, pem, further):
        """Writes its files; `further` are lines of main.cf."""
        user, group = pwd.getpwnam("postfix").pw_uid, grp.getgrnam("postdrop").gr_gid
        for name in ("", "etc", "log", "queue", "data", "mail"):
            os.makedirs(self.path(name), mode=0o755)
        os.chmod(os.path.dirname(self.directory), 0o755)
        os.chown(self.path("data"), user, -1)
        os.chown(self.path("mail"), MAIL_OWNER, MAIL_OWNER)
        for name, mode in QUEUE.items():
            os.mkdir(self.path("queue", name))
            owner, shared = 0 if name == "pid" else user, name in ("maildrop", "public")
            os.chown(self.path("queue", name), owner, group if shared else 0)
            os.chmod(self.path("queue", name), mode)
        with open(self.path("etc", "master.cf"), "w", encoding="ascii") as file:
            file.write(f"{self.address}:25 inet n - n - - smtpd{DAEMONS}")
        maildirs = ", ".join(f"{{ {person}@{self.domain} = {person}/ }}" for person in self.people)
        with open(self.path("etc", "main.cf"), "w", encoding="ascii") as file:
            file.write(f"""compatibility_level = 3.6
queue_directory = {self.path("queue")}
data_directory = {self.path("data")}
maillog_file = {self.path("log", "mail.log")}
maillog_file_prefixes = {self.directory}
myhostname = mx.{self.domain}
myorigin = {self.domain}
mydestination =
alias_maps =
alias_database =
notify_classes =
mynetworks = {self.address}/32
inet_interfaces = {self.address}
inet_protocols = ipv4
smtpd_peername_lookup = no
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
smtpd_tls_security_level = may
smtpd_tls_chain_files = {pem.removesuffix(".pem")}.key, {pem}
smtpd_tls_received_header = yes
smtp_dns_support_level = dnssec
smtp_tls_security_level = dane
smtp_tls_loglevel = 1
virtual_mailbox_domains = {self.domain}
virtual_mailbox_maps = inline:{{ {maildirs} }}
virtual_mailbox_base = {self.path("mail")}
virtual_transport = virtual
virtual_minimum_uid = 1
virtual_uid_maps = static:{MAIL_OWNER}
virtual_gid_maps = static:{MAIL_OWNER}
{further}
""")

    def start(self):
        master = os.path.join(run("postconf", "-dh", "daemon_directory").decode().strip(), "master")
        with open(self.path("log", "start.log"), "ab") as output:
            self.process = subprocess.Popen([master, "-c", self.path("etc"), "-d"], stdout=output, stderr=output)
        until(self._greets, f"Postfix starts: {self.log()}")

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)

    def _greets(self):
        assert self.process.poll() is None, self.log()
        with contextlib.suppress(OSError, smtplib.SMTPException), self._connected() as smtp:
            return smtp.noop()[0] == 250
        return False

    def _connected(self):
        return smtplib.SMTP(self.address, timeout=30, source_address=(self.address, 0))

    def log(self):
        """What it has logged."""
        lines = ""
        for name in ("start.log", "mail.log"):
            with contextlib.suppress(OSError), open(self.path("log", name), encoding="utf-8") as file:
                lines += file.read()
        return lines

    def send(self, person, recipient, text):
        """Sends a message as a user of this machine does."""
        sender = f"{person}@{self.domain}"
        message = f"From: {sender}\r\nTo: {recipient}\r\nSubject: {text}\r\n\r\n{text}\r\n"
        with self._connected() as smtp:
            smtp.sendmail(sender, [recipient], message)

    def messages(self, person):
        """The messages in a mailbox."""
        found = []
        for path in sorted(glob.glob(self.path("mail", person, "new", "*"))):
            with open(path, "rb") as file:
                found.append(file.read())
        return found
