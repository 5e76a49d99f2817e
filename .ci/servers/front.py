"""Takes mail by SMTP and gives it to a program like sendmail in a root directory, as a filter or a list server does.

    front.py ROOT PROGRAM...

The program gets the sender and the recipients as its last words, after -f.
"""
import subprocess, sys

from network import SERVER, Session, Sessions

SECONDS = 120


class Front(Session):
    def taken(self, _):
        return ("250 2.1.5 Fine",)

    def finished(self, content):
        command = ["chroot", sys.argv[1], *sys.argv[2:], "-f", self.sender, *self.recipients]
        done = subprocess.run(command, input=content.replace(b"\r\n", b"\n"), timeout=SECONDS)
        return ("250 2.0.0 Taken",) if done.returncode == 0 else (f"451 4.3.0 It ended with {done.returncode}",)


if __name__ == "__main__":
    Sessions((SERVER, 25), Front).serve_forever()
