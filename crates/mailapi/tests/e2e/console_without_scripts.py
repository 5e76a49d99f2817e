"""A browser without JavaScript: every change works by forms and links alone."""

from browser import Browser, chromium, root_of
from harness import DOMAIN, PASSWORD, needs, tell


def administers(page, browser, token):
    browser.open("/console/aliases")
    page.get_by_label("Address *@").fill(f"team@{DOMAIN}")
    page.get_by_label("Members one").fill(f"ann@{DOMAIN}\nbob@{DOMAIN}")
    page.get_by_role("button", name="Add the alias").click()
    assert page.get_by_text("The alias is created.").is_visible()
    browser.open("/console/permissions")
    page.locator("#email").fill(f"ann@{DOMAIN}")
    page.locator("#domain").fill(DOMAIN)
    page.get_by_label("manage_users").check()
    page.get_by_label("Your API token").fill(token)
    page.get_by_role("button", name="Grant", exact=True).click()
    page.get_by_role("button", name="Revoke manage_users").click()
    assert page.get_by_text("No permissions are delegated.").is_visible()
    browser.open(f"/console/users/bob@{DOMAIN}")
    page.locator("summary", has_text="Generate a new password").click()
    page.locator("#proof-reset").fill(token)
    page.get_by_role("button", name="Generate a new password").click()
    return page.locator("#secret").inner_text()


def owns(page, browser):
    browser.open("/console/account")
    page.get_by_label("Name of the mail program").fill("Phone")
    page.get_by_label("Your password").fill(PASSWORD)
    page.get_by_role("button", name="Create an app password").click()
    assert len(page.locator("#secret").inner_text()) == 23
    page.get_by_role("link", name="Continue").click()
    page.get_by_role("button", name="Revoke Phone").click()
    assert page.get_by_text("The app password is revoked.").is_visible()
    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password").fill("another good password")
    page.get_by_role("button", name="Change the password").click()
    assert page.get_by_text("The password is changed").is_visible()


def rules(page, browser):
    browser.open("/console/rules")
    page.get_by_role("link", name="Add a rule").click()
    page.locator("#name").fill("Lists")
    page.locator("#test-0").select_option("header contains")
    page.locator("#header-0").fill("List-Id")
    page.locator("#value-0").fill("news")
    page.get_by_role("button", name="More conditions").click()
    assert page.locator("#value-0").input_value() == "news" and page.locator("#test-2").is_visible()
    page.get_by_label("File it in the folder").fill("Lists")
    page.get_by_role("button", name="Save the rule").click()
    assert page.get_by_text("List-Id contains “news”").is_visible()
    page.get_by_role("button", name="Turn off Lists").click()
    page.get_by_role("button", name="Delete Lists").click()
    assert page.get_by_text("No rules yet.").is_visible()


def story(server):
    server.create_people("ann", "bob")
    with chromium() as program:
        admin = Browser(program, root_of(server), java_script_enabled=False)
        admin.log_in_with(server.token)
        password = administers(admin.page, admin, server.token)
        bob = Browser(program, root_of(server), java_script_enabled=False)
        bob.log_in(f"bob@{DOMAIN}", password)
        ann = Browser(program, root_of(server), java_script_enabled=False)
        ann.log_in(f"ann@{DOMAIN}")
        owns(ann.page, ann)
        rules(ann.page, ann)
        for browser in (admin, bob, ann):
            browser.check_faults("without scripts")


needs("chromium")
tell(story)
