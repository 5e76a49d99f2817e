"""Three stories by keyboard alone: to send a mail, to write a rule and end a session, and to delete a user."""

from browser import Browser, chromium, root_of
from harness import DOMAIN, PASSWORD, needs, tell, until


def reach(page, selector):
    """Moves on with Tab until the focus is there, and visible."""
    for _ in range(300):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none", f"{selector}: the focus is not seen"
            return
    raise AssertionError(f"the keyboard does not reach {selector}")


def press(page, selector, key="Enter"):
    reach(page, selector)
    page.keyboard.press(key)


def fill(page, selector, text):
    reach(page, selector)
    page.keyboard.type(text)


def log_in(browser, email):
    page = browser.page
    browser.open("/console/login")
    fill(page, "#email", email)
    fill(page, "#password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/console?*")


def sends(page):
    press(page, "nav a[href='/console/write']")
    page.wait_for_url("**/console/write")
    fill(page, "#to", f"bob@{DOMAIN}")
    fill(page, "#subject", "By keyboard")
    fill(page, "#text", "No mouse here.")
    press(page, "main form button")
    page.wait_for_url("**/console/messages/*")
    page.get_by_text("The mail server has the message.").wait_for()


def writes_a_rule(page):
    press(page, "nav a[href='/console/rules']")
    page.wait_for_url("**/console/rules")
    press(page, "a[href$='/new']")
    page.wait_for_url("**/new")
    fill(page, "#name", "Keyboard")
    reach(page, "#test-0")
    page.keyboard.type("Subject is")
    fill(page, "#value-0", "By keyboard")
    fill(page, "#folder", "Keyboard")
    press(page, "button[value='save']")
    page.wait_for_url("**done=rule-created")
    page.get_by_text("subject is “By keyboard”").wait_for()


def ends_a_session(page, other):
    press(page, "nav a[href='/console/account']")
    page.wait_for_url("**/console/account")
    press(page, "button[value='end-session']")
    page.wait_for_url("**done=session-ended")
    other.page.goto(other.root + "/console")
    assert "/console/login" in other.page.url


def deletes(page):
    press(page, "nav a[href='/console/users']")
    page.wait_for_url("**/console/users")
    press(page, f"a[href='/console/users/carl@{DOMAIN}']")
    page.wait_for_url("**/carl@*")
    page.evaluate("document.querySelector('#content').focus()")
    press(page, "details:has(#confirm) > summary")
    fill(page, "#confirm", f"carl@{DOMAIN}")
    fill(page, "#proof-delete", PASSWORD)
    press(page, "button[value='delete']")
    page.wait_for_url("**done=user-deleted")


def story(server):
    ann, bob, _ = server.create_people("ann", "bob", "carl")
    server.call("POST", "/permissions", {"email": ann, "permission": "manage_users", "domain": DOMAIN})
    with chromium() as program:
        browser = Browser(program, root_of(server))
        log_in(browser, bob)
        writes_a_rule(browser.page)
        other = Browser(program, root_of(server))
        other.log_in(bob)
        ends_a_session(browser.page, other)
        writer = Browser(program, root_of(server))
        log_in(writer, ann)
        sends(writer.page)
        until(lambda: len(server.messages(bob, "Keyboard")) == 1, "the rule files the mail")
        deletes(writer.page)
        status, _ = server.call("GET", f"/users/carl@{DOMAIN}")
        assert status == 404, status
        for window in (browser, other, writer):
            window.check_faults("by keyboard")


needs("chromium")
tell(story)
