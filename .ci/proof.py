"""What the scripts beside this file share: private mail servers on free ports of the loopback, and reading of mailboxes."""
import base64, hashlib, imaplib, json, os, re, shutil, signal, socket, subprocess, sys, time, urllib.request
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
USER, PASSWORD = "ann@example.org", "correct-horse-battery"
DOMAIN = USER.partition("@")[2]
START_SECONDS = 60
STOP_SECONDS = 60
COMMAND_SECONDS = 120
LISTENERS = {"http": "HTTP__LISTEN", "smtp": "MAIL__EMBEDDED__SMTP_LISTEN", "imap": "MAIL__EMBEDDED__IMAP_LISTEN",
             "imaps": "MAIL__EMBEDDED__IMAPS_LISTEN", "submission": "MAIL__EMBEDDED__SUBMISSION_LISTEN"}
# Without this, a script that is told to end would leave its servers.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
# imaplib limits the length of a line, and a list of folders or UIDs can be longer.
imaplib._MAXLINE = 100_000_000


def needed(*missing, dovecot=False, programs=()):
    """Returns the binary, or ends with what is missing."""
    missing = list(missing)
    binary = os.environ.get("MAILAPI_BINARY", str(ROOT / "target/debug/mailapi"))
    missing += [f"{name}: install the package {package}" for name, package in programs if not shutil.which(name)]
    if dovecot and not all(os.access(file, os.X_OK) for file in ("/usr/sbin/dovecot", "/usr/lib/dovecot/imap")):
        missing.append("Dovecot: install the package dovecot-imapd")
    if dovecot and os.geteuid() != 0:
        missing.append("root: Dovecot starts only as root")
    if not os.access(binary, os.X_OK):
        missing.append("mailapi: run cargo build, or set MAILAPI_BINARY")
    if missing:
        sys.exit("missing:\n  " + "\n  ".join(missing))
    return str(Path(binary).absolute())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A mail server in a directory of its own."""

    def __init__(self, name, directory, listens=("imap",)):
        self.name, self.directory, self.ports = name, Path(directory) / name, {kind: free_port() for kind in listens}
        self.directory.mkdir(mode=0o755)
        self.port = self.ports.get("imap")

    def start(self, command, **options):
        """Returns when all ports accept connections."""
        self.log = open(self.directory / "log", "wb")
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, start_new_session=True, **options)
        try:
            end = time.monotonic() + START_SECONDS
            for port in self.ports.values():
                while not self.accepts(port):
                    if time.monotonic() > end or self.process.poll() is not None:
                        sys.exit(f"{self.name} did not start:\n{(self.directory / 'log').read_text()}")
                    time.sleep(0.05)
        except BaseException:
            self.stop()
            raise
        return self

    @staticmethod
    def accepts(port):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            return False
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Ends the process and those that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_SECONDS)
        self.log.close()


class Mailapi(Server):
    """mailapi with one mailbox. `settings` has names of environment variables without MAILAPI_."""

    def __init__(self, binary, directory, listens=("imap",), settings={}, hosts={}):
        super().__init__("mailapi", directory, ("http", *listens))
        self.binary = binary
        addresses = {name: f"{hosts.get(kind, '127.0.0.1')}:{self.ports[kind]}" if kind in self.ports else ""
                     for kind, name in LISTENERS.items()}
        settings = {"DATA_DIR": self.directory / "data", "ADVANCED__AUTH__PASSWORD_ROUNDS": 1000,
                    "LIMITS__REQUESTS_PER_MINUTE": 0, "LIMITS__REQUESTS_PER_HOUR": 0, **addresses, **settings}
        ours = {"MAILAPI_" + name: str(value) for name, value in settings.items()}
        self.environment = {**{key: value for key, value in os.environ.items() if not key.startswith("MAILAPI_")}, **ours}
        self.run("domain", "add", DOMAIN, "--init")
        self.run("user", "add", USER, "--name", "Ann", input=PASSWORD + "\n")
        self.restart({})

    def restart(self, settings):
        """Starts the server, with changed settings if it ran."""
        if hasattr(self, "process"):
            self.stop()
        self.environment.update({"MAILAPI_" + name: str(value) for name, value in settings.items()})
        self.start([self.binary, "serve"], env=self.environment, cwd=self.directory)

    def run(self, *words, **more):
        """Runs a command on the same data."""
        done = subprocess.run([self.binary, *words], env=self.environment, cwd=self.directory, capture_output=True, text=True,
                              timeout=COMMAND_SECONDS, **more)
        if done.returncode:
            sys.exit(f"mailapi {' '.join(words)}: {done.stderr}")
        return done.stdout

    def post(self, path, body):
        """Sends a request to the API as admin."""
        return self.get(path, json.dumps(body).encode())

    def get(self, path, body=None):
        token = (self.directory / "data/admin-token").read_text().strip()
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports['http']}/api/v1{path}", body,
                                         {"X-MAILAPI-TOKEN": token, "Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=COMMAND_SECONDS))

    def resident(self):
        """Returns the resident memory in bytes."""
        return int(re.search(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{self.process.pid}/status").read_text(), re.M)[1]) * 1024


class Dovecot(Server):
    """Dovecot, where each user has the same password. The mail of a user is below `home(user)` and belongs to OWNER."""

    OWNER = 5000

    NAMESPACES = "namespace inbox {\n  inbox = yes\n  separator = /\n}"

    def __init__(self, directory, location="sdbox:~/box", more="", namespaces=NAMESPACES):
        super().__init__("dovecot", directory)
        self.location, self.more, self.namespaces = location, more, namespaces
        os.chmod(directory, 0o755)
        (self.directory / "mail").mkdir()
        os.chown(self.directory / "mail", self.OWNER, self.OWNER)

    def home(self, user):
        return self.directory / "mail" / user

    def serve(self):
        here = self.directory
        (here / "dovecot.conf").write_text(f"""
protocols = imap
listen = 127.0.0.1
base_dir = {here}/run
state_dir = {here}/state
instance_name = proof-{self.port}
log_path = {here}/mail.log
ssl = no
disable_plaintext_auth = no
default_login_user = dovenull
default_internal_user = dovecot
mail_location = {self.location}
mail_home = {here}/mail/%u
mail_uid = {self.OWNER}
mail_gid = {self.OWNER}
first_valid_uid = {self.OWNER}
mail_max_userip_connections = 100
{self.more}
service imap-login {{
  inet_listener imap {{
    port = {self.port}
  }}
  inet_listener imaps {{
    port = 0
  }}
}}
{self.namespaces}
passdb {{
  driver = static
  args = password={PASSWORD}
}}
userdb {{
  driver = static
  args = uid={self.OWNER} gid={self.OWNER} home={here}/mail/%u
}}
""")
        return self.start(["/usr/sbin/dovecot", "-F", "-c", str(here / "dovecot.conf")])


# -------------------------------------------------------------------------------------------------------------- mailboxes

def modified_utf7(name):
    """Encodes the name of a folder (RFC 3501 section 5.1.3)."""
    def shifted(found):
        text = base64.b64encode(found[0].encode("utf-16-be"), b"+,").decode()
        return "&" + text.rstrip("=") + "-"

    return re.sub(r"[^\x20-\x7e]+", shifted, name.replace("&", "&-"))


def logged_in(port, user=USER):
    client = imaplib.IMAP4("127.0.0.1", port, timeout=COMMAND_SECONDS)
    client.login(user, PASSWORD)
    return client


def ok(answer):
    """Returns the data of an answer of imaplib that must be OK."""
    status, data = answer
    if status != "OK":
        sys.exit(f"IMAP: {status} {data}")
    return data


def quoted(name):
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def folders(client, pattern='"*"'):
    """Returns the names of the folders that can be selected, as the protocol shows them."""
    names = []
    for line in ok(client.list('""', pattern)):
        head, name = line if isinstance(line, tuple) else (line, None)
        found = re.match(rb'\(([^)]*)\) (?:NIL|"[^"]*") ("(?:[^"\\]|\\.)*"|[^"]\S*)', head) if line else None
        if found and rb"\noselect" not in found[1].lower() and rb"\nonexistent" not in found[1].lower():
            name = name or re.sub(rb"\\(.)", rb"\1", found[2].strip(b'"'))
            names.append(name.decode(errors="surrogateescape"))
    return sorted(names)


def messages(client, folder, step=200):
    """Yields UID, flags without \\Recent, internal date and bytes of each message of a folder."""
    ok(client.select(quoted(folder), readonly=True))
    uids = ok(client.uid("SEARCH", "ALL"))[0].split()
    for at in range(0, len(uids), step):
        wanted = b",".join(uids[at:at + step]).decode()
        answer, rest = ok(client.uid("FETCH", wanted, "(UID FLAGS INTERNALDATE BODY.PEEK[])")), []
        # A response with a literal is a pair and the end of the line; an empty message may be a quoted string.
        for part in answer:
            rest.append(part)
            if isinstance(part, bytes) and part.endswith(b")"):
                text = b"".join(one[0] if isinstance(one, tuple) else one for one in rest)
                body = b"".join(one[1] for one in rest if isinstance(one, tuple))
                rest = []
                if not (uid := re.search(rb"\bUID (\d+)", text)):
                    continue
                flags = frozenset(re.search(rb"FLAGS \(([^)]*)\)", text)[1].decode().split()) - {"\\Recent"}
                date = re.search(rb'INTERNALDATE "([^"]+)"', text)[1].decode().strip()
                yield int(uid[1]), flags, datetime.strptime(date, "%d-%b-%Y %H:%M:%S %z").timestamp(), body


def digest(content):
    return hashlib.sha256(content).hexdigest()
