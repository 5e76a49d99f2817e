"""Debian's Chromium, driven by Playwright. It fails the story on every console error, and on every request elsewhere."""

import contextlib
import glob
import os
import sys

from harness import PASSWORD
from receivers.process import LIBRARIES

sys.path += glob.glob(os.path.join(LIBRARIES, "lib/python*/site-packages"))

from playwright.sync_api import sync_playwright  # noqa: E402 (./test installs it there)

AXE = os.path.join(LIBRARIES, "node/node_modules/axe-core/axe.min.js")
# With this directory, stories leave pictures of the pages there.
PICTURES = os.environ.get("MAILAPI_PICTURES")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


class Browser:
    """One window: a context of its own, with its cookies."""

    def __init__(self, chromium, root, **settings):
        self.root = root
        self.faults = []
        self.context = chromium.new_context(**settings)
        self.context.set_default_timeout(30_000)
        self.page = self.context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: (self.faults.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.context.on("request", self._requested)

    def _heard(self, message):
        # A status of 400 or more is what some stories want to see.
        if message.type in ("error", "warning") and "the server responded with a status of 4" not in message.text:
            self.faults.append(f"console: {message.text}")

    def _requested(self, request):
        if not request.url.startswith((self.root + "/", "data:", "about:")):
            self.faults.append(f"foreign request: {request.url}")

    def open(self, path):
        """Opens a page of the console, which must be there."""
        response = self.page.goto(self.root + path)
        assert response.status == 200, (path, response.status)

    def log_in(self, email, password=PASSWORD):
        self.open("/console/login")
        self.page.get_by_label("Mail address").fill(email)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in", exact=True).click()
        self.page.wait_for_url("**/console?*")

    def log_in_with(self, token):
        self.open("/console/login")
        self.page.get_by_text("Use an API token").click()
        self.page.get_by_label("API token").fill(token)
        self.page.get_by_role("button", name="Log in with the token").click()
        self.page.wait_for_url("**/console?*")

    def check(self, what):
        """No rule of accessibility is broken, and nothing was wrong since the last check."""
        with open(AXE, encoding="utf-8") as file:
            self.page.evaluate(file.read())
        found = self.page.evaluate("rules => axe.run(document, {runOnly: rules, iframes: false})", RULES)
        broken = [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found["violations"]]
        assert not broken, (what, broken)
        self.check_faults(what)

    def check_faults(self, what):
        assert not self.faults, (what, self.faults)

    def picture(self, name):
        if PICTURES:
            self.page.screenshot(path=os.path.join(PICTURES, f"{name}.png"), full_page=True)


@contextlib.contextmanager
def chromium():
    """The browser, as root and without a screen."""
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        try:
            yield program
        finally:
            program.close()


def root_of(server):
    return server.api_url.removesuffix("/api/v1")
