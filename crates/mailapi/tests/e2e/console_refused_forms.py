"""A form that is refused stays on its page, with the reason, what was typed and the files that were chosen."""

from browser import Browser, chromium, root_of
from harness import DOMAIN, PASSWORD, needs, tell, until


def alias_is_mended(browser):
    page = browser.page
    browser.open("/console/aliases")
    page.locator("#address").fill("no address")
    page.locator("#members").fill(f"ann@{DOMAIN}")
    page.get_by_role("button", name="Add the alias").click()
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert "address" in alert.locator("dt").all_inner_texts(), alert.inner_text()
    assert page.locator("#members").input_value() == f"ann@{DOMAIN}"
    browser.check("a refused alias")
    browser.picture("refused-alias")
    page.locator("#address").fill(f"team@{DOMAIN}")
    page.get_by_role("button", name="Add the alias").click()
    page.get_by_role("rowheader", name=f"team@{DOMAIN}").wait_for()
    assert page.get_by_role("alert").count() == 0


def mail_keeps_its_file(server, browser):
    page = browser.page
    browser.open("/console/write")
    page.locator("#to").fill("bob at work")
    page.locator("#subject").fill("Menu")
    page.locator("#attachment").set_input_files({"name": "menu.txt", "mimeType": "text/plain", "buffer": b"Soup"})
    page.get_by_role("button", name="Send", exact=True).click()
    page.get_by_role("alert").wait_for()
    assert page.locator("#attachment").evaluate("input => input.files.length") == 1
    browser.check("a refused mail")
    page.locator("#to").fill(f"bob@{DOMAIN}")
    page.get_by_role("button", name="Send", exact=True).click()
    page.wait_for_url("**/console/messages/*")
    until(lambda: len(server.messages(f"bob@{DOMAIN}")) == 1, "the mail arrives")
    uid = server.messages(f"bob@{DOMAIN}")[0]["uid"]
    mail = server.get(f"/mailbox/bob@{DOMAIN}/messages/{uid}")
    assert [file["filename"] for file in mail["attachments"]] == ["menu.txt"], mail


def two_clicks_are_one(server, browser):
    page = browser.page
    browser.open("/console/write")
    page.locator("#subject").fill("Twice")
    page.get_by_role("button", name="Save as draft").last.dblclick()
    page.wait_for_url("**draft=*")
    with page.expect_navigation():
        page.get_by_role("button", name="Save as draft").last.click()
    until(lambda: len(server.messages(f"ann@{DOMAIN}", "Drafts")) == 1, "one draft")


def secret_is_shown_once(server, browser):
    page = browser.page
    browser.open("/console/account")
    for summary in page.locator("main details > summary").all():
        summary.click()
    page.locator("#app-password-name").fill("Phone")
    page.locator("#proof-app-password").fill("wrong password")
    page.locator("button[value=create-app-password]").click()
    page.get_by_role("heading", name="password is wrong").wait_for()
    browser.check("a wrong password")
    page.locator("#proof").fill(PASSWORD)
    page.get_by_role("button", name="Try again").click()
    page.locator("#secret").wait_for()
    browser.check("a new app password")
    page.reload()
    page.get_by_text("Phone").first.wait_for()
    assert page.locator("#secret").count() == 0
    assert len(server.get(f"/users/ann@{DOMAIN}/app-passwords")["app_passwords"]) == 1


def session_ends_while_writing(server, browser):
    page = browser.page
    browser.open("/console/write")
    page.locator("#subject").fill("Long")
    sessions = f"/users/ann@{DOMAIN}/sessions"
    for session in server.get(sessions)["sessions"]:
        server.call("DELETE", f"{sessions}/{session['id']}")
    page.get_by_role("button", name="Save as draft").last.click()
    page.get_by_role("alert").get_by_text("The session has ended").wait_for()
    browser.check("a form after the end of the session")
    with browser.context.expect_page() as opened:
        page.get_by_role("link", name="log in in another window").click()
    other = opened.value
    other.get_by_label("Mail address").fill(f"ann@{DOMAIN}")
    other.get_by_label("Password").fill(PASSWORD)
    other.get_by_role("button", name="Log in", exact=True).click()
    other.wait_for_url("**/console?*")
    page.get_by_role("button", name="Save as draft").last.click()
    page.wait_for_url("**draft=*")
    assert page.locator("#subject").input_value() == "Long"


def silence_is_no_success(browser):
    page = browser.page
    browser.open("/console/write")
    page.locator("#subject").fill("Lost?")
    browser.context.route("**/console/write", lambda route: route.abort())
    page.get_by_role("button", name="Save as draft").last.click()
    page.get_by_role("alert").get_by_text("The server did not answer.").wait_for()
    assert page.locator("#subject").input_value() == "Lost?"
    # Chromium reports the failure too.
    browser.faults.clear()


def story(server):
    server.create_people("ann", "bob")
    with chromium() as program:
        admin = Browser(program, root_of(server))
        admin.log_in_with(server.token)
        alias_is_mended(admin)
        ann = Browser(program, root_of(server))
        ann.log_in(f"ann@{DOMAIN}")
        mail_keeps_its_file(server, ann)
        two_clicks_are_one(server, ann)
        secret_is_shown_once(server, ann)
        session_ends_while_writing(server, ann)
        silence_is_no_success(ann)


needs("chromium")
tell(story)
