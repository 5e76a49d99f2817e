"""A mail program: submits a message, sends one without logging in, counts the messages of a mailbox, or stays until the server ends its session.
Prints the server's last reply.

mail_program.py submit PORT CERTIFICATE tls|plain USER|- PASSWORD SENDER RECIPIENT
mail_program.py send   PORT SENDER RECIPIENT MESSAGE
mail_program.py look   PORT CERTIFICATE USER PASSWORD
mail_program.py stay   PORT CERTIFICATE USER PASSWORD
"""

import imaplib
import smtplib
import ssl
import sys


def trusting(certificate):
    return ssl.create_default_context(cafile=certificate)


def submit(port, certificate, encryption, user, password, sender, recipient):
    with smtplib.SMTP("localhost", int(port), timeout=60) as server:
        server.ehlo()
        if encryption == "tls":
            server.starttls(context=trusting(certificate))
            server.ehlo()
        try:
            if user != "-":
                server.login(user, password)
            text = f"From: {sender}\r\nTo: {recipient}\r\nSubject: From a mail program\r\n\r\nHello\r\n"
            server.sendmail(sender, [recipient], text)
            print("taken")
        except smtplib.SMTPRecipientsRefused as refusal:
            print(*refusal.recipients[recipient])
        except smtplib.SMTPResponseException as refusal:
            print(refusal.smtp_code, refusal.smtp_error)
        except smtplib.SMTPNotSupportedError as refusal:
            print(refusal)


def send(port, sender, recipient, message):
    with smtplib.SMTP("localhost", int(port), timeout=60) as server:
        server.sendmail(sender, [recipient], message)
        print("taken")


def look(port, certificate, user, password):
    with imaplib.IMAP4_SSL("localhost", int(port), ssl_context=trusting(certificate), timeout=60) as server:
        try:
            server.login(user, password)
        except imaplib.IMAP4.error as refusal:
            print(refusal)
            return
        _, (count,) = server.select("INBOX", readonly=True)
        print(count.decode())


def stay(port, certificate, user, password):
    server = imaplib.IMAP4_SSL("localhost", int(port), ssl_context=trusting(certificate), timeout=60)
    server.login(user, password)
    server.select("INBOX")
    server.send(b"A1 IDLE\r\n")
    print("logged in", flush=True)
    # A socket that stays silent for longer is an error.
    while line := server.readline():
        if line.startswith(b"* BYE"):
            break


{"submit": submit, "send": send, "look": look, "stay": stay}[sys.argv[1]](*sys.argv[2:])
