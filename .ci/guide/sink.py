"""The mail server of all other domains: accepts mail at 127.0.0.2:2525 and appends it to /run/sink.jsonl."""
import json, socketserver


class Session(socketserver.StreamRequestHandler):
    def reply(self, text):
        self.wfile.write(text.encode() + b"\r\n")

    def handle(self):
        self.reply("220 far.example ESMTP")
        sender, recipients = "", []
        while line := self.rfile.readline().decode("utf-8", "replace").strip():
            verb = line.upper()
            if verb.startswith(("EHLO", "HELO")):
                self.reply("250 far.example")
            elif verb.startswith("MAIL"):
                sender, recipients = line.split("<", 1)[1].split(">", 1)[0], []
                self.reply("250 sender")
            elif verb.startswith("RCPT"):
                recipients.append(line.split("<", 1)[1].split(">", 1)[0])
                self.reply("250 recipient")
            elif verb == "DATA":
                self.reply("354 go on")
                text = b""
                while (part := self.rfile.readline()) not in (b".\r\n", b""):
                    text += part
                with open("/run/sink.jsonl", "a") as file:
                    file.write(json.dumps([sender, recipients, text.decode("utf-8", "replace")]) + "\n")
                self.reply("250 stored")
            elif verb == "QUIT":
                self.reply("221 bye")
                return
            else:
                self.reply("250 ok")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True


Server(("127.0.0.2", 2525), Session).serve_forever()
