"""On a terminal a password is asked for twice and never shown, and a removal is confirmed."""

import os
import pty
import termios

from harness import DOMAIN, PASSWORD, tell, until


def type_on_a_terminal(server, arguments, answers, hidden=True):
    """Runs a command on its own terminal, and answers each question. Returns the exit code and the output."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(server.directory)
        os.execvpe(os.environ["MAILAPI_BINARY"], ["mailapi", *arguments], server.environment())
    shown = b""
    answers = list(answers)
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux fails the read after the other side has closed
            break
        if not piece:
            break
        shown += piece
        if shown.endswith(b": ") and answers:
            # The question appears before the echo is off, and a test types faster than a person.
            until(lambda: not hidden or not termios.tcgetattr(terminal)[3] & termios.ECHO, "the terminal still echoes")
            os.write(terminal, answers.pop(0).encode() + b"\n")
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), shown.decode()


def story(server):
    server.create_people("bob")
    ann = f"ann@{DOMAIN}"
    code, shown = type_on_a_terminal(server, ["user", "add", ann], [PASSWORD, "something else"])
    assert code == 1 and "the two passwords differ" in shown, (code, shown)
    code, shown = type_on_a_terminal(server, ["user", "add", ann], ["short", "short"])
    assert code == 1 and "at least 8 characters" in shown, (code, shown)
    code, shown = type_on_a_terminal(server, ["user", "add", ann], [PASSWORD, PASSWORD])
    assert code == 0 and PASSWORD not in shown and "New password: " in shown, (code, shown)
    with server.logged_in(ann):
        pass
    # The address is checked before the password is requested.
    for wrong in (ann, "ann@nowhere.test"):
        code, shown = type_on_a_terminal(server, ["user", "add", wrong], [])
        assert code == 1 and "password" not in shown, (code, shown)
    code, shown = type_on_a_terminal(server, ["user", "remove", ann], ["no"], hidden=False)
    assert code == 1 and "nothing was removed" in shown, (code, shown)
    code, shown = type_on_a_terminal(server, ["domain", "remove", DOMAIN, "--force"], ["y"], hidden=False)
    assert code == 1 and "2 users" in shown, (code, shown)
    with server.logged_in(ann):
        pass
    code, shown = type_on_a_terminal(server, ["user", "remove", ann], ["yes"], hidden=False)
    assert code == 0, (code, shown)
    code, shown = type_on_a_terminal(server, ["domain", "remove", DOMAIN, "--force", "--yes"], [])
    assert (code, shown) == (0, ""), (code, shown)


if __name__ == "__main__":
    tell(story)
