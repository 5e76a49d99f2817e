"""Starts a server with the users Alice and Bob, and runs the command given as arguments against it."""

import os
import subprocess
import sys

from harness import running

with running() as server:
    server.create_people("alice", "bob", domain="example.test")
    place = {"MAILAPI_URL": server.api_url.removesuffix("/api/v1"), "MAILAPI_TOKEN": server.token}
    subprocess.run(sys.argv[1:], env={**os.environ, **place}, timeout=180, check=True)
