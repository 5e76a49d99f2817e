"""The servers and layouts that .ci/imported imports, each with a mailbox of unusual form."""
import imaplib, os, random, re, subprocess, sys, time
from pathlib import Path

import odd
import proof
from proof import PASSWORD, Dovecot, modified_utf7, ok, quoted

HERE = Path(__file__).resolve().parent
SERVERS = HERE.parent / "servers"
OTHER = "bob"


class Layout:
    """A server with a mailbox. The import leaves out the prefix of the user's folders."""

    user, separator, prefix, more_prefixes = "ann", "/", "", ()
    # Patterns that list all folders.
    patterns = ('"*"',)
    # Folders that get another name, and folders that are left out with the reason.
    renamed, left = {}, {}
    # Messages that the server itself damages.
    left_kinds = ()

    def __init__(self, directory, roots=None):
        self.directory, self.roots = Path(directory), roots

    def wire(self, name, levels=True):
        return modified_utf7(self.prefix + (name.replace("/", self.separator) if levels else name))

    def shown(self, wire):
        """Returns the name with `/` between levels; `None` if the server's is no modified UTF-7."""
        name = odd.decoded(wire)
        return name and name.replace(self.separator, "/")

    def here(self, wire, by_files=False):
        """Returns the name that the folder gets here."""
        own = shown = self.shown(wire)
        for prefix in (self.prefix, *self.more_prefixes):
            prefix = prefix.replace(self.separator, "/")
            if shown and prefix and shown.upper().startswith(prefix.upper()) and shown != prefix:
                own = shown[len(prefix):]
        return own if by_files else self.renamed.get(own, own)

    def folders(self, client):
        return sorted({name for pattern in self.patterns for name in proof.folders(client, pattern)})

    def logged_in(self, user=None):
        client = imaplib.IMAP4("127.0.0.1", self.port, timeout=proof.COMMAND_SECONDS)
        client.login(user or self.user, PASSWORD)
        return client

    def by_files(self):
        """Returns the imports of the files of the mailbox, of which all together are equal to that by IMAP."""
        return []

    def file_of(self, wire):
        """Returns the file or directory of a folder."""

    def prepare(self):
        """Adds what IMAP cannot."""


class Maildir:
    """A layout of Maildirs."""

    odd_directories = ()

    def by_files(self):
        return [["maildir", self.maildir()]]

    def file_of(self, wire):
        own = wire if wire.upper() == "INBOX" else wire[len(self.prefix):]
        return self.maildir() if own.upper() == "INBOX" else self.maildir() / self.directory_name(own)

    def directory_name(self, own):
        return "." + own

    def prepare(self):
        """Adds what no client makes."""
        for at, (part, end, content, date) in enumerate(odd.FILES):
            odd_file(self.maildir() / part / f"{1_700_000_000 + at}.odd{at}.proof{end}", content, date)
        for name in self.odd_directories:
            directory = os.fsencode(self.maildir()) + b"/" + name
            for part in (b"", b"/cur", b"/new", b"/tmp"):
                os.mkdir(directory + part)
                os.chown(directory + part, Dovecot.OWNER, Dovecot.OWNER)
            odd_file(directory + b"/cur/1700000000.odd.proof:2,S", odd.SOLE_FILE, 1_700_000_000)
        super().prepare()


def odd_file(path, content, date):
    with open(path, "wb") as file:
        file.write(content)
    os.utime(path, (date, date))
    os.chown(path, Dovecot.OWNER, Dovecot.OWNER)


class Private(Layout):
    """A private Dovecot."""

    location, more, inbox = "sdbox:~/box", "", "inbox = yes\n  separator = /"
    namespaces = ""

    def __enter__(self):
        self.server = Dovecot(self.directory, self.location, self.more.format(here=self.directory),
                              f"namespace inbox {{\n  {self.inbox}\n}}\n{self.namespaces.format(here=self.directory)}")
        self.server.serve()
        self.port, self.home = self.server.port, self.server.home(self.user)
        return self

    def __exit__(self, *_):
        self.server.stop()

    def version(self):
        return subprocess.run(["dovecot", "--version"], capture_output=True, text=True, check=True).stdout.split()[0]


class DovecotMaildir(Maildir, Private):
    """The usual layout, with a prefix."""

    location, separator, prefix = "maildir:~/Maildir", ".", "INBOX."
    inbox = 'inbox = yes\n  separator = .\n  prefix = INBOX.\n  mailbox "Sent Items" {\n    special_use = \\Sent\n  }'
    renamed = {"Sent Items": "Sent"}
    odd_directories = odd.MAILDIR_DIRECTORIES

    def maildir(self):
        return self.home / "Maildir"


class DovecotFs(Maildir, Private):
    """One directory in another."""

    location = "maildir:~/Maildir:LAYOUT=fs"
    odd_directories = odd.DIRECTORIES

    def maildir(self):
        return self.home / "Maildir"

    def directory_name(self, own):
        return own


class DovecotSdbox(Private):
    location = "sdbox:~/box"


class DovecotMdbox(Private):
    """With folders that show messages of others, and with those of another user."""

    more_prefixes = ("Virtual/",)
    location = "mdbox:~/box"
    more = """mail_plugins = virtual acl
protocol imap {{
  mail_plugins = virtual acl imap_acl
}}
plugin {{
  acl = vfile
  acl_shared_dict = file:{here}/dovecot/mail/shared
}}"""
    namespaces = """namespace virtual {{
  prefix = Virtual/
  separator = /
  location = virtual:{here}/virtual:INDEX=~/virtual
  mailbox All {{
    special_use = \\All
  }}
  mailbox Starred {{
    special_use = \\Flagged
  }}
}}
namespace others {{
  type = shared
  prefix = Others/%%u/
  separator = /
  location = mdbox:%%h/box
  subscriptions = no
  list = children
}}
"""
    left = {"All": "messages of other folders", "Starred": "messages of other folders",
            f"Others/{OTHER}/Of others": "other users"}

    def __enter__(self):
        for name, search in (("All", "all"), ("Starred", "flagged"), ("Unnamed", "unseen")):
            place = self.directory / "virtual" / name
            place.mkdir(parents=True)
            (place / "dovecot-virtual").write_text(f"*\n-Virtual\n-Virtual/*\n-Others\n-Others/*\n  {search}\n")
        for place, _, files in os.walk(self.directory / "virtual"):
            for name in [place, *(Path(place) / file for file in files)]:
                os.chown(name, Dovecot.OWNER, Dovecot.OWNER)
        return super().__enter__()

    def prepare(self):
        share(self.logged_in(OTHER), "Of others", self.user)


class DovecotMbox(Private):
    location = "mbox:~/mail:INBOX=~/spool"
    # It mixes their headers with those that it adds, and writes over the end of a body that begins with a separator.
    left_kinds = ("state", "long header", "from line")

    def by_files(self):
        return [["mbox", self.home / "mail"], ["mbox", self.home / "spool"]]

    def file_of(self, wire):
        return self.home / "spool" if wire.upper() == "INBOX" else self.home / "mail" / wire


class Installed(Layout):
    """A server in a root directory of its own, with the network of this process."""

    setup, port = None, 143

    def __enter__(self):
        self.place = self.directory / "machine"
        self.place.mkdir()
        root, layer = self.roots
        command = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", SERVERS / "machine", f"{layer}:{root}",
                   self.place, SERVERS / "imap" / self.setup, "lo"]
        self.log = open(self.directory / "server.log", "wb")
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        end = time.monotonic() + proof.START_SECONDS
        while not self.greets():
            if time.monotonic() > end or self.process.poll() is not None:
                sys.exit(f"{self.setup} did not start:\n{(self.directory / 'server.log').read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)
        return self

    def greets(self):
        try:
            imaplib.IMAP4("127.0.0.1", self.port, timeout=5).logout()
        except (OSError, imaplib.IMAP4.error):
            return False
        return True

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(proof.STOP_SECONDS)
        self.log.close()

    def version(self):
        return (self.place / "upper/servers/version").read_text().strip()


class Courier(Maildir, Installed):
    setup, separator, prefix = "courier-imap", ".", "INBOX."
    left = {f"#shared/{OTHER}/Of others": "other users"}
    # It lists the folders of other users only if they are named.
    patterns = ('"*"', '"#shared.*"')

    odd_directories = odd.COURIER_DIRECTORIES

    def maildir(self):
        return self.place / "mail" / self.user / "Maildir"

    def prepare(self):
        share(self.logged_in(OTHER), "INBOX.Of others", self.user)
        super().prepare()


class Cyrus(Installed):
    """Cyrus as Debian configures it."""

    setup, separator, prefix = "cyrus", ".", "INBOX."
    others, public = "user.", "public"
    left = {f"user/{OTHER}/Of others": "other users", "public": "other users"}

    def __enter__(self):
        super().__enter__()
        admin = self.logged_in("cyrus")
        for user in (self.user, OTHER):
            ok(admin.create(f"user{self.separator}{user}"))
        ok(admin.create("public"))
        ok(admin.setacl("public", "anyone", "lrs"))
        admin.logout()
        return self

    def prepare(self):
        share(self.logged_in(OTHER), f"{self.prefix}Of others", self.user)


class CyrusSlashes(Cyrus):
    """Cyrus with slashes between levels, and without a prefix (altnamespace)."""

    separator, prefix, port = "/", "", 1143
    left = {f"Other Users/{OTHER}/Of others": "other users", "Shared Folders/public": "other users"}


LAYOUTS = {"courier": Courier, "cyrus": Cyrus, "cyrus-slashes": CyrusSlashes, "dovecot-maildir": DovecotMaildir,
           "dovecot-fs": DovecotFs, "dovecot-sdbox": DovecotSdbox, "dovecot-mdbox": DovecotMdbox, "dovecot-mbox": DovecotMbox}


def share(client, name, user):
    """Lets another user read a folder with a message."""
    ok(client.create(quoted(name)))
    ok(client.append(quoted(name), None, None, b"Subject: of others\r\n\r\nx\r\n"))
    ok(client.setacl(quoted(name), user, "lr"))
    client.logout()


class Filling:
    """Fills a mailbox by IMAP."""

    def __init__(self, layout, seed):
        self.layout, self.client, self.random = layout, layout.logged_in(), random.Random(seed)
        self.messages, self.number = odd.Messages(self.random, proof.USER), 0
        self.kinds = [kind for kind in odd.KINDS if kind not in layout.left_kinds]
        # What the server itself does not take.
        self.refused = []

    def fill(self):
        self.folder("INBOX", self.kinds * 2)
        for name in odd.FOLDERS:
            self.create(name, self.layout.wire(name))
        for name in odd.LITERAL:
            self.create(name, self.layout.wire(name, levels=False))
        self.keywords("INBOX", odd.USUAL_KEYWORDS + odd.ODD_KEYWORDS)
        self.keywords(self.layout.wire("many/a/b/c/d"), odd.MANY_KEYWORDS)
        self.layout.prepare()
        self.open_all()
        self.client.logout()

    def open_all(self):
        """Opens each folder as mail programs do. Before, Courier gives its messages other numbers at each look."""
        for wire in self.layout.folders(self.client):
            if self.layout.here(wire) not in self.layout.left:
                self.client.select(quoted(wire))
        self.client.close()

    def create(self, name, wire):
        is_new = self.takes(f"folder {name}", lambda: self.client.create(quoted(wire)))
        # It may have created it itself, or it is another one by case only.
        if not is_new and wire.upper() not in [one.upper() for one in proof.folders(self.client)]:
            return
        self.client.subscribe(quoted(wire))
        if name != "Empty":
            self.folder(wire, self.random.choices(self.kinds, k=3))

    def takes(self, what, command):
        """Runs a command. Returns whether the server accepts it."""
        try:
            status, said = command()
        except imaplib.IMAP4.abort as error:
            self.client = self.layout.logged_in()
            status, said = "BYE", [str(error).encode()]
        except imaplib.IMAP4.error as error:
            status, said = "BAD", [str(error).encode()]
        if status != "OK":
            self.refused.append(f"{what}: {said[0].decode(errors='replace')[:100]}")
        return status == "OK"

    def folder(self, wire, kinds):
        for kind in kinds:
            self.number += 1
            content = self.messages.of_kind(kind, self.number)
            content = re.sub(rb"\r?\n", b"\r\n", content) if kind not in ("mixed line ends", "binary") else content
            flags = [flag for flag in odd.SYSTEM_FLAGS if self.random.random() < 0.3]
            flags += self.random.sample(odd.USUAL_KEYWORDS, self.random.choice((0, 0, 1, 3)))
            date = odd.DATES[self.number % len(odd.DATES)]
            if not self.append(wire, kind, flags, date, content):
                self.append(wire, kind, flags, odd.DATES[0], content)

    def append(self, wire, kind, flags, date, content):
        return self.takes(f"message {kind} of {date}",
                          lambda: self.client.append(quoted(wire), f"({' '.join(flags)})", f'"{date}"', content))

    def keywords(self, wire, keywords):
        ok(self.client.select(quoted(wire)))
        uids = ok(self.client.uid("SEARCH", "ALL"))[0].decode().split()
        for at, keyword in enumerate(keywords):
            store = ("STORE", uids[at % len(uids)], "+FLAGS", f"({keyword})")
            if not self.takes(f"keyword {keyword}", lambda: self.client.uid(*store)):
                self.client.select(quoted(wire))
        self.client.close()
