"""mutt opens the mailbox, reads a message, flags it, and deletes another."""

import os
import pty
import select
import smtplib
import subprocess
import termios

from harness import PASSWORD, needs, tell

CONFIGURATION = """
set folder="{directory}"
set imap_user="{user}"
set imap_pass="{password}"
set ssl_starttls=no
set ssl_force_tls=no
set imap_authenticators="plain:login"
set delete=yes
set quit=yes
set wait_key=no
set pipe_decode=yes
set header_cache=""
unset mark_old
push "<first-entry><pipe-message>cat > {output}<enter><display-message><exit><flag-message><next-entry><delete-message><sync-mailbox><quit>"
"""


def run_on_a_terminal(command, environment, seconds):
    """mutt refuses to work without a terminal, so it gets a pseudoterminal."""
    ours, theirs = pty.openpty()
    # ncurses 6.5, as in Debian 13, opens no terminal without a size.
    termios.tcsetwinsize(theirs, (24, 80))
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], seconds)[0]:
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    else:
        process.kill()
    os.close(ours)
    assert process.wait(timeout=120) == 0, shown[-2000:]


def story(server):
    (bob,) = server.create_people("bob")
    with smtplib.SMTP(*server.smtp) as smtp:
        for subject in ("first", "second"):
            message = f"From: eve@outside.test\r\nSubject: {subject}\r\n\r\nThe {subject} text.\r\n"
            smtp.sendmail("eve@outside.test", [bob], message)
    output = os.path.join(server.directory, "piped")
    configuration = os.path.join(server.directory, "muttrc")
    with open(configuration, "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(user=bob, password=PASSWORD, output=output,
                                        directory=server.directory))  # fmt: skip
    host, port = server.imap
    environment = {**os.environ, "TERM": "xterm", "HOME": server.directory, "LANG": "C.UTF-8"}
    run_on_a_terminal(["mutt", "-n", "-F", configuration, "-f", f"imap://{host}:{port}/INBOX"], environment, 60)

    with open(output, encoding="utf-8") as file:
        assert "The first text." in file.read()
    (left,) = server.messages(bob)
    assert left["subject"] == "first" and {"\\Seen", "\\Flagged"} <= set(left["flags"]), left


if __name__ == "__main__":
    needs("mutt")
    tell(story)
