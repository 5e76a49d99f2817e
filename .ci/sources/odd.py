"""Folders, messages, flags and dates of unusual form, which .ci/imported puts into mailboxes."""
import base64, re
from collections import Counter

# `/` is between levels.
FOLDERS = ["Archive/2024", "Archive/2025/Q1", "many/a/b/c/d", "Grüße", "Проекты/日本語", "Entwürfe & mehr", "R&D", "50% off",
           "star*name", "%", "*", "With space", " leading", "trailing ", "two  blanks", 'quo"te', "back\\slash", "~tilde",
           "#hash", "(round) {curly} [square]", "comma,semi;colon:", "!bang", "^caret", "question?", "$dollar", "plus+minus-",
           "'apostrophe'", "\N{OPEN MAILBOX WITH RAISED FLAG} post", "e\N{COMBINING ACUTE ACCENT}",
           "\N{LATIN SMALL LETTER E WITH ACUTE}", "Case", "case", "INBOX/below", "Inboxes", "Sent Items", "Drafts", "Trash",
           "Junk", "cur", "new/in", "dovecot-x", "ends.", "-dash", "x" * 100, "ü" * 60, "NIL", "Empty"]
# Here, a dot or a slash is a character of the name wherever it does not separate levels.
LITERAL = ["dot.ted", "v1.2.3", "slash/in", "a.b/c"]
USUAL_KEYWORDS = ["$Forwarded", "$MDNSent", "$Label1", "NonJunk", "work", "holiday-2026", "x_1"]
# Not all servers accept them.
ODD_KEYWORDS = ["[x]", "WORK", "with.dot", "slash/in", "a+b", "#1", "$", "~x", "colon:", "comma,x", "equal=", "q?", "<x>",
                "@home", "&x", "'x'", "`x`", "ends]", "^x", "|", "7", "k" * 90, "l" * 101, "NIL"]
MANY_KEYWORDS = [f"many{number}" for number in range(40)]
SYSTEM_FLAGS = ["\\Seen", "\\Answered", "\\Flagged", "\\Draft", "\\Deleted"]
DATES = ["20-Nov-2026 11:00:00 +0100", " 1-Jan-1970 00:00:00 +0000", "01-Jan-1970 00:00:01 +0000",
         "31-Dec-1969 23:59:58 +0000", "01-Jan-1904 12:00:00 +0000", "29-Feb-2024 23:59:59 -1200",
         "19-Jan-2038 03:14:08 +0000", "07-Feb-2106 06:28:17 +0000", "01-Jan-2200 00:00:00 +0000",
         "10-Oct-2020 10:10:10 +1400", "10-Oct-2020 10:10:10 -0330", "31-Dec-1999 23:59:60 +0000"]
# Files of a Maildir: the directory, the end of the name, the content and the date.
FILES = [("new", "", b"Subject: new\n\nx\n", 1_000_000_000), ("cur", "", b"Subject: without flags\n\nx\n", 1_000_000_001),
         ("cur", ":2,F", b"Subject: NUL\n\na\0b\n", 1_000_000_002), ("cur", ":2,FS", b"", 1_000_000_003),
         ("cur", ":2,S", b"Subject: CRLF\r\n\r\nx\r\n", 1_000_000_004), ("cur", ":2,S", b"Subject: 1969\n\nx\n", -1),
         ("cur", ":2,S", b"Subject: 2038\n\nx\n", 2**31 + 1), ("cur", ":2,S", b"Subject: 2242\n\nx\n", 2**33),
         ("cur", ":2,FSX", b"Subject: unknown letter\n\nx\n", 1_000_000_005),
         ("cur", ":2,RS,x=1", b"Subject: more fields\n\nx\n", 1_000_000_006)]
# Letters in them that have no meaning.
UNKNOWN_LETTERS = 1
# As other programs may name them: bytes, UTF-8, and other forms of modified UTF-7.
DIRECTORIES = ["Gr\u00fcn".encode("latin-1"), "Blau \u00fc".encode(), b"&AGE-lias", b"R&D open", b"v1&AC4-2", b"a&AC8-b"]
MAILDIR_DIRECTORIES = [b"." + name for name in DIRECTORIES] + [b".a..b", b".last.", b"..first"]
# Courier lists nothing if a name is no UTF-8, and its names are not encoded.
COURIER_DIRECTORIES = [b".Blau \xc3\xbc", b".&AGE-lias", b".R&D open", b".a..b", b".last.", b"..first"]
# In each of these directories.
SOLE_FILE = b"Subject: odd\n\nx\n"
WORDS = "the of a harbour letter morning invoice and to we find tomorrow tea blue Grüße Привет 手紙 café".split()
PARTS = (b"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\n%s--b\n"
         b"Content-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n\n%s\n--b--\n")


class Messages:
    """Makes messages, of unusual form in one case of five."""

    # With the part of each kind.
    KINDS = {"text": 80, "crlf": 3, "8-bit header": 2, "latin-1": 2, "binary": 2, "long lines": 1, "only line feeds": 0.3,
             "empty": 0.3, "no body": 1, "no end of line": 1, "mixed line ends": 1, "large": 0.05, "equal": 1, "multipart": 5}
    # Their headers and lines have a meaning in mbox files, which they have nowhere else.
    MEANING = {"state": b"Status: RO\nX-Status: A\nX-Keywords: other\nX-UID: 7\nX-IMAPbase: 1 2\nContent-Length: 3\n"
                        b"X-Mozilla-Status: 0001\n",
               "from line": b"From eve@elsewhere.example Sat Jan  3 10:00:00 2026\n", "quoted from line": b">From eve\n"}

    def __init__(self, draw, user):
        self.random, self.user, self.kinds = draw, user, Counter()

    def header(self, number):
        return (f"From: Eve <eve{number % 97}@elsewhere.example>\nTo: {self.user}\nSubject: message {number}\n"
                f"Date: Sat, 3 Jan 2026 10:00:{number % 60:02} +0000\nMessage-ID: <{number}@elsewhere.example>\n").encode()

    def text(self, lines):
        return "".join(" ".join(self.random.choices(WORDS, k=12)) + "\n" for _ in range(lines))

    def content(self, number):
        """Returns a message of any kind."""
        kind = self.random.choices(list(self.KINDS), list(self.KINDS.values()))[0]
        return self.of_kind(kind, number)

    def of_kind(self, kind, number):
        head, draw = self.header(number), self.random
        self.kinds[kind] += 1
        body = self.text(draw.randrange(1, 40)).encode()
        return {
            "text": lambda: head + b"Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n" + body,
            "crlf": lambda: (head + b"\n" + body).replace(b"\n", b"\r\n"),
            "8-bit header": lambda: head + "X-Grüße: ä\n".encode("latin-1") + b"\n" + body,
            "latin-1": lambda: head + b"\n" + body.decode().encode("latin-1", "replace"),
            "binary": lambda: head + b"\n" + bytes(draw.choices(range(1, 256), k=draw.randrange(5000))),
            "long lines": lambda: head + b"\n" + b"x" * draw.randrange(1000, 200_000) + b"\n" + body,
            "only line feeds": lambda: b"\n" * draw.randrange(1, 20),
            "empty": lambda: b"",
            "no body": lambda: head,
            "no end of line": lambda: head + b"\n" + body + b"the end",
            "mixed line ends": lambda: head + b"\r\n" + body.replace(b"\n", b"\r\n", 3) + b"\rone\r\rtwo\n\r\n",
            "large": lambda: head + b"\n" + b"0123456789 and more of it\n" * draw.randrange(20_000, 150_000),
            "equal": lambda: b"Subject: one of many equal ones\n\ntext\n",
            "multipart": lambda: head + PARTS % (body, b"QUJD" * 300),
            "state": lambda: head + self.MEANING[kind] + b"\n" + body,
            "from line": lambda: self.MEANING[kind] + head + b"\n" + self.MEANING[kind] + b"\n" + self.MEANING[kind] + body,
            "quoted from line": lambda: head + b"\n" + self.MEANING[kind] * 2 + b">" + self.MEANING[kind] + body,
            "no colon": lambda: head + b"a line without a colon\n\n" + body,
            "long header": lambda: head + b"X-Long: " + b"y" * 70_000 + b"\n\n" + body,
            "dots": lambda: head + b"\n.\n..\n. x\n" + body,
        }[kind]()


# All kinds, but for large messages and those that IMAP cannot carry.
KINDS = [*(kind for kind in Messages.KINDS if kind != "large"), "state", "from line", "quoted from line", "no colon", "long header",
         "dots"]


def decoded(wire):
    """Decodes the name of a folder (RFC 3501 section 5.1.3); `None` if it has another form."""
    def shifted(found):
        text = found[1]
        return base64.b64decode(text + "=" * (-len(text) % 4), b"+,").decode("utf-16-be") if text else "&"

    try:
        return re.sub(r"&([A-Za-z0-9+,]*)-", shifted, wire)
    except ValueError:
        return None
