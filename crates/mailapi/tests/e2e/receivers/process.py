"""Receivers of webhooks as processes of their own."""

import json
import os
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARIES = os.path.join(HERE, "../../../../../target/schemathesis")
PYTHON = [os.path.join(LIBRARIES, "bin/python"), "-B", os.path.join(HERE, "library.py")]
NODE = ["node", os.path.join(HERE, "library.cjs")]


class Receiver:
    """A running receiver; `url` is its address for a webhook."""

    def __init__(self, directory, name, command, secret, failing=None, port=0):
        self.journal = os.path.join(directory, f"{name}.journal")
        environment = {
            "PATH": os.environ["PATH"],
            "WEBHOOK_SECRET": secret,
            "JOURNAL": self.journal,
            "LIBRARIES": os.path.join(LIBRARIES, "node/package.json"),
            "PORT": str(port),
        }
        if failing is not None:
            environment["FAILING"] = str(failing)
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, f"{name} does not start"
        self.url = f"http://127.0.0.1:{int(line)}/"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def entries(self):
        """The journal without a line that is being written."""
        if not os.path.exists(self.journal):
            return []
        with open(self.journal, encoding="utf-8") as journal:
            return [json.loads(line) for line in journal if line.endswith("\n")]

    def arrivals(self):
        """The verified messages, in the order of their arrival."""
        return [entry for entry in self.entries() if "refused" not in entry]

    def refusals(self):
        return [entry["refused"] for entry in self.entries() if "refused" in entry]
