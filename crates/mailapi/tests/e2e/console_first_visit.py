"""A new server: from the admin token to the first mail in five steps, in a browser, then a mail to read and to answer."""

from browser import Browser, chromium, root_of
from harness import PASSWORD, needs, tell


def first_steps(browser, server):
    """Domain, mailbox and mail, by the links of the overview."""
    page = browser.page
    browser.log_in_with(server.token)
    page.get_by_role("link", name="Create a mail domain").click()
    page.get_by_label("Domain such as").fill("first.test")
    page.get_by_role("button", name="Add the domain").click()
    page.get_by_text("Publish its DNS records next.").wait_for()
    page.get_by_text("Zone file", exact=True).click()
    assert "v=DKIM1" in page.locator("#zone").inner_text()
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="Create a mailbox").click()
    page.get_by_label("Mail address").fill("ann@first.test")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Add the user").click()
    page.wait_for_url("**done=*")
    page.get_by_role("link", name="Overview").click()
    page.get_by_role("link", name="Send a mail").click()
    write(page, "ann@first.test", "The first mail", sender="ann@first.test")
    page.get_by_role("link", name="Overview").click()
    assert page.get_by_role("heading", name="First steps").count() == 0


def write(page, to, subject, sender=None):
    if sender:
        page.get_by_label("From", exact=True).fill(sender)
    page.get_by_label("To separate").fill(to)
    page.get_by_label("Subject").fill(subject)
    page.get_by_label("Text", exact=True).fill("Dear Ann,\n\nwelcome.\n")
    files = [{"name": "plan.txt", "mimeType": "text/plain", "buffer": b"the plan"}]
    page.get_by_label("Attachments").set_input_files(files)
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/console/messages/*")
    page.get_by_text("The mail server has the message.").wait_for()


def reads(browser, server):
    """The owner finds the mail, downloads its file, and answers."""
    page = browser.page
    browser.log_in("ann@first.test")
    page.get_by_role("link", name="Mail", exact=True).click()
    page.get_by_label("Search in INBOX").fill("welcome")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="The first mail").click()
    assert "welcome." in page.locator("pre.text").inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="plan.txt").click()
    with open(download.value.path(), "rb") as file:
        assert file.read() == b"the plan"
    page.get_by_role("link", name="Reply").click()
    assert page.get_by_label("Subject").input_value() == "Re: The first mail"
    page.get_by_role("button", name="Send").click()
    page.wait_for_url("**/console/messages/*")
    page.get_by_role("button", name="Log out").click()
    page.get_by_text("You are logged out.").wait_for()
    browser.check("login page")


def story(server):
    with chromium() as program:
        admin = Browser(program, root_of(server))
        first_steps(admin, server)
        admin.check_faults("first steps")
        reads(Browser(program, root_of(server)), server)


needs("chromium")
tell(story)
