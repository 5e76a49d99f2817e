"""Imports the mailbox of a layout, by IMAP and by its files, and compares it with what its server shows."""
import imaplib, re, subprocess
from collections import Counter

import odd
import proof
from layouts import Filling
from proof import PASSWORD, folders, logged_in, messages, ok, quoted

IMPORT_SECONDS = 300
MOST_REPAIRS = 50
# Fewer would mean that the mailbox was not filled.
LEAST_FOLDERS, LEAST_MESSAGES = 45, 120
SOLE_MESSAGE = odd.SOLE_FILE.replace(b"\n", b"\r\n")
# Counted by `Result.named`.
ONLY_IN_FILES = "folders that the server does not show"


class Said:
    """What the commands of one import printed."""

    FOLDER = re.compile(r"(?P<name>.+): \d+ imported, \d+ skipped, \d+ failed(?P<uids>; UIDs kept|; new UIDs, since [^;]+)?"
                        r"(?:; left out: (?P<left>.*))?$")
    TOTAL = re.compile(r"^\S+@\S+: (\d+) imported, (\d+) skipped, (\d+) failed$", re.M)

    def __init__(self, code, text):
        self.code, self.text = code, text
        self.lines, self.renamed, self.left, self.lost = {}, {}, {}, {}
        for line in text.splitlines():
            if found := self.FOLDER.match(line):
                self.lines[found["name"]] = found
                continue
            for word, place in ((": imported as ", self.renamed), (": skipped: ", self.left), (": not imported: ", self.lost)):
                name, found, rest = line.partition(word)
                if found:
                    place[name] = rest
                    break

    def counts(self):
        """Returns the numbers of the last lines: imported, skipped and failed."""
        return tuple(sum(int(line[at]) for line in self.TOTAL.findall(self.text)) for at in range(3))

    def keeps_uids(self, name):
        return name in self.lines and self.lines[name]["uids"] == "; UIDs kept"

    def lost_flags(self, name):
        found = re.search(r"(\d+) unusable flag", name in self.lines and self.lines[name]["left"] or "")
        return int(found[1]) if found else 0

    def lost_uids(self, name):
        places = (place.rsplit(" UID ", 1) for place in self.lost if " UID " in place)
        return {int(uid) for place, uid in places if place == name}


class Result:
    """What is equal, what is named, and what differs."""

    def __init__(self, way):
        self.way, self.wrong, self.folders, self.messages, self.named = way, [], 0, 0, Counter()

    def differs(self, text):
        self.wrong.append(text)

    def line(self):
        named = "".join(f"; {count} {what}" for what, count in sorted(self.named.items()) if count)
        return f"by {self.way}: {self.folders} folders, {self.messages} messages, {len(self.wrong)} differences{named}"


def source_of(layout):
    """Returns the numbers and the messages of all folders by name; `None` for a folder that does not open."""
    found, client = {}, layout.logged_in()
    for wire in layout.folders(client):
        if client.select(quoted(wire), readonly=True)[0] != "OK":
            found[wire] = None
            continue
        for _ in range(MOST_REPAIRS):
            try:
                theirs = {uid: rest for uid, *rest in messages(client, wire)}
                break
            except imaplib.IMAP4.abort:
                # It found its own index wrong, and has repaired it.
                client = layout.logged_in()
        found[wire] = (numbers_of(client, wire), theirs)
    client.logout()
    return found


def numbers_of(client, wire):
    answer = ok(client.status(quoted(wire), "(UIDVALIDITY UIDNEXT)"))[0]
    return [int(re.search(word + rb" (\d+)", answer)[1]) for word in (b"UIDVALIDITY", b"UIDNEXT")]


class Comparison:
    """Compares a mailbox with its source. `by_files` is whether the import read the files of the source."""

    def __init__(self, layout, mailapi, user, said, result, by_files):
        self.layout, self.said, self.result, self.by_files = layout, said, result, by_files
        self.client = logged_in(mailapi.port, user)
        self.ours = {odd.decoded(wire): wire for wire in folders(self.client)}
        self.total = 0

    def compare(self, source):
        expected = {here for wire, opened in sorted(source.items()) if (here := self.folder(wire, opened))}
        for name in set(self.ours) - expected:
            bodies = [body for *_, body in messages(self.client, self.ours[name])]
            if self.by_files and bodies == [SOLE_MESSAGE]:
                self.result.named[ONLY_IN_FILES] += 1
                self.total += 1
            elif bodies:
                self.result.differs(f"{name}: only mailapi has this folder, with {len(bodies)} messages")
        self.client.logout()
        if self.result.folders < LEAST_FOLDERS or self.result.messages < LEAST_MESSAGES:
            self.result.differs(f"only {self.result.folders} folders and {self.result.messages} messages were compared")

    def folder(self, wire, opened):
        """Compares a folder. Returns its name here, if it is here."""
        here, file = self.layout.here(wire, self.by_files), self.layout.file_of(wire) if self.by_files else None
        if here in self.layout.left:
            return self.left_folder(wire, here)
        if self.by_files and not opened:
            return None
        numbers, theirs = opened or (None, {})
        self.total += len(theirs)
        names = {self.layout.shown(wire), here, wire, odd.decoded(wire)} | ({str(file), file.name} if file else set())
        if names & set(self.said.lost):
            self.result.named["folders not imported"] += 1
        elif file and not theirs and self.said.left.get(str(file)) == "is empty":
            self.result.named["empty files"] += 1
        elif here not in self.ours:
            self.result.differs(f"{wire}: mailapi has no folder {here!r}")
        else:
            self.result.folders += 1
            self.messages(here, file, numbers, theirs)
            return here
        return None

    def left_folder(self, wire, here):
        """Checks that a folder of others is named with the reason. Files have none of them."""
        if not self.by_files:
            self.result.named["folders left out"] += 1
            if self.layout.left[here] not in self.said.left.get(here, ""):
                self.result.differs(f"{wire}: not skipped because of {self.layout.left[here]!r}: {self.said.left.get(here)}")

    def messages(self, name, file, numbers, theirs):
        mine = {uid: rest for uid, *rest in messages(self.client, self.ours[name])}
        lost = self.said.lost_uids(name)
        self.result.named["messages not imported"] += len(lost)
        if self.said.keeps_uids(name):
            if (own := numbers_of(self.client, self.ours[name])) != numbers:
                self.result.differs(f"{name}: UIDVALIDITY and UIDNEXT {own}, there {numbers}")
        else:
            self.result.named["folders with new UIDs"] += 1
            mine = dict(enumerate((rest for _, rest in sorted(mine.items())), 1))
            theirs, lost = dict(enumerate((rest for uid, rest in sorted(theirs.items()) if uid not in lost), 1)), set()
        missing = []
        for uid in sorted((set(mine) | set(theirs)) - lost):
            if uid in mine and uid in theirs:
                self.result.messages += 1
                missing += self.message(f"{name} {uid}", mine[uid], theirs[uid])
            else:
                self.result.differs(f"{name} {uid}: only {'mailapi' if uid in mine else 'the server'} has it")
        self.flags(name, file, missing)

    def message(self, place, own, their):
        """Compares a message. Returns the flags that it lacks here."""
        (own_flags, own_date, own_body), (flags, date, body) = own, their
        folded = {flag.lower() for flag in own_flags}
        if more := folded - {flag.lower() for flag in flags}:
            self.result.differs(f"{place}: more flags: {more}")
        # Dovecot shows 32 bits of the date of a file.
        if own_date != date and not (self.by_files and (own_date - date) % 2**32 == 0):
            self.result.differs(f"{place}: internal date {own_date}, there {date}")
        # docs/imap.md: NUL is sent as 0x80. Courier adds CR to CRLF in a file.
        body = body.replace(b"\0", b"\x80")
        if own_body != body and not (self.by_files and own_body == body.replace(b"\r\r\n", b"\r\n")):
            at = next((at for at, (one, other) in enumerate(zip(own_body, body)) if one != other), min(map(len, (own_body, body))))
            self.result.differs(f"{place}: {len(own_body)} bytes, there {len(body)}; at {at}: {own_body[at:at + 40]!r}, there "
                                f"{body[at:at + 40]!r}")
        return [flag for flag in flags if flag.lower() not in folded]

    def flags(self, name, file, missing):
        """Checks that missing flags of a folder are counted."""
        self.result.named["flags left out"] += len(missing)
        if f"{file}: keywords" in self.said.left:
            self.result.named["folders with keywords that its files lack"] += 1
            return
        unknown_letters = odd.UNKNOWN_LETTERS if self.by_files and name == "INBOX" and file.is_dir() else 0
        if (counted := self.said.lost_flags(name)) != len(missing) + unknown_letters:
            self.result.differs(f"{name}: flags {missing} are missing, and {counted} are counted")


def run(mailapi, user, commands):
    """Runs the commands of an import. Returns what they said."""
    done = [subprocess.run([mailapi.binary, "import", user, *map(str, words)], env=mailapi.environment, cwd=mailapi.directory,
                           input=PASSWORD + "\n", capture_output=True, text=True, timeout=IMPORT_SECONDS) for words in commands]
    return Said(max(one.returncode for one in done), "".join(one.stdout + one.stderr for one in done))


def tried(layout, mailapi, seed):
    """Fills the mailbox, and imports it in every way. Returns the source, what its server refused, and the results."""
    filling = Filling(layout, seed)
    filling.fill()
    # Dovecot shows some dates as they are once, and then as its index can have them.
    source_of(layout)
    source = source_of(layout)
    by_imap = ["imap", "127.0.0.1", "--port", layout.port, "--tls", "none", "--user", layout.user]
    results = [imported("IMAP", [by_imap], layout, mailapi, source)]
    if layout.by_files():
        late_changes(layout, source)
        results.append(imported("files", layout.by_files(), layout, mailapi, source))
    return source, filling.refused, results


def imported(way, commands, layout, mailapi, source):
    user, result = f"{way.lower()}@{proof.DOMAIN}", Result(way)
    mailapi.run("user", "add", user, "--name", way, input=PASSWORD + "\n")
    result.said = run(mailapi, user, commands)
    comparison = Comparison(layout, mailapi, user, result.said, result, way == "files")
    comparison.compare(source)
    check_counts(result, comparison.total)
    again = run(mailapi, user, commands)
    first = result.said.counts()
    if again.counts() != (0, first[0], first[2]) or again.code != result.said.code:
        result.differs(f"a second import counts {again.counts()} with exit code {again.code}, the first one {first} with "
                       f"{result.said.code}")
    return result


def late_changes(layout, source):
    """Changes keywords in a folder that the server does not open again before its files are read."""
    wire, client = layout.wire("Case"), layout.logged_in()
    theirs = source[wire][1]
    one, other = sorted(theirs)[:2]
    ok(client.select(quoted(wire)))
    ok(client.uid("STORE", str(one), "+FLAGS", "(late)"))
    ok(client.uid("STORE", str(other), "FLAGS", "(\\Answered later)"))
    client.logout()
    theirs[one][0] |= {"late"}
    theirs[other][0] = frozenset({"\\Answered", "later"})


def check_counts(result, total):
    """Checks the numbers of an import against what is here, and the exit code."""
    (imported, skipped, failed), here = result.said.counts(), result.messages + result.named[ONLY_IN_FILES]
    if imported != here or skipped:
        result.differs(f"{imported} imported, {skipped} skipped; {here} are here, of {total}")
    if imported != total and not failed:
        result.differs(f"{imported} of {total} messages are imported, and none is named")
    if bool(result.said.code) != bool(failed):
        result.differs(f"the exit code is {result.said.code} with {failed} failed: {result.said.text[-500:]}")
    if len(result.said.lost) != failed:
        result.differs(f"{failed} failed, and {len(result.said.lost)} are named")
