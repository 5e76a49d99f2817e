"""An SMTP server with STARTTLS and weak settings, as old machines have. Arguments: certificate, key, newest TLS version.

Prints its port, then for each message how its connection was protected.
"""

import socket
import ssl
import sys

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.set_ciphers("DEFAULT:@SECLEVEL=0")
context.load_cert_chain(sys.argv[1], sys.argv[2])
# Without an old version that it allows, OpenSSL sends its alert before it has read anything.
context.minimum_version = ssl.TLSVersion.TLSv1
context.maximum_version = ssl.TLSVersion[sys.argv[3]]


def serve(connection):
    protection = "plain"
    reader = connection.makefile("rb")
    connection.sendall(b"220 odd.example ESMTP\r\n")
    while line := reader.readline():
        verb = line.strip().upper().split(b" ")[0]
        if verb == b"EHLO":
            connection.sendall(b"250-odd.example\r\n250 STARTTLS\r\n")
        elif verb == b"STARTTLS":
            connection.sendall(b"220 Go ahead\r\n")
            connection = context.wrap_socket(connection, server_side=True)
            protection, reader = connection.version(), connection.makefile("rb")
        elif verb == b"DATA":
            connection.sendall(b"354 Go ahead\r\n")
            while reader.readline() not in (b".\r\n", b""):
                pass
            print(protection, flush=True)
            connection.sendall(b"250 Ok\r\n")
        elif verb == b"QUIT":
            connection.sendall(b"221 Bye\r\n")
            return
        else:
            connection.sendall(b"250 Ok\r\n")


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    connection.settimeout(20)
    try:
        serve(connection)
    except OSError:
        # A failed handshake, as the caller sees it too.
        pass
    connection.close()
