"""A user's mail program submits mail: only with the password, and only as the user."""

import smtplib
from email.message import EmailMessage

from harness import PASSWORD, ok, tell


def message_from(sender, recipient):
    message = EmailMessage()
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = "handed in"
    message.set_content("text\n")
    return message


def refused(action, *codes):
    try:
        action()
    except smtplib.SMTPResponseException as error:
        assert error.smtp_code in codes, (error.smtp_code, error.smtp_error)
    except smtplib.SMTPRecipientsRefused as error:
        assert all(code in codes for code, _ in error.recipients.values()), error.recipients
    else:
        raise AssertionError("the server did not reject it")


def story(server):
    alice, bob = server.create_people("alice", "bob")
    with smtplib.SMTP(*server.submission) as smtp:
        refused(lambda: smtp.sendmail(alice, [bob], "Subject: x\r\n\r\nx"), 530)
        refused(lambda: smtp.login(alice, "wrong password"), 535)
        refused(lambda: smtp.login("nobody@story.test", PASSWORD), 535)
        smtp.login(alice, PASSWORD)
        refused(lambda: smtp.send_message(message_from(bob, bob), from_addr=bob, to_addrs=[bob]), 550, 553)
        refused(lambda: smtp.send_message(message_from(alice, bob), to_addrs=["nobody@story.test"]), 550)
    with smtplib.SMTP(*server.submission) as smtp:
        smtp.login(alice, PASSWORD)
        smtp.send_message(message_from(alice, bob), from_addr=alice, to_addrs=[bob])
    assert [message["subject"] for message in server.messages(bob)] == ["handed in"]
    with server.logged_in(bob) as client:
        ok(client.select("INBOX"))
        assert len(ok(client.search(None, "FROM", "alice"))[0].split()) == 1


if __name__ == "__main__":
    tell(story)
