"""Every page of the console follows the rules of accessibility: dark and light, on a phone and on a desk."""

from browser import Browser, chromium, root_of
from harness import DOMAIN, needs, tell, until

SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
HTML = "<h1>Minutes</h1><p>See <a href='https://example.org/minutes'>the minutes</a> of <b>Friday</b>.</p>"


def prepare(server):
    """Something to see on every page; the paths of the pages."""
    ann, bob = server.create_people("ann", "bob")
    mails = [
        {"from": ann, "to": [bob], "subject": "The minutes", "body": {"text": "See the minutes.", "html": HTML}},
        {"from": ann, "to": [bob], "subject": "Lunch on Friday?", "body": {"text": "At noon?"}},
        {"from": bob, "to": [ann], "subject": "Lunch", "body": {"text": "Yes."}},
        {"from": ann, "to": ["carl@invalid.test"], "subject": "Offer", "body": {"text": "Ours."}},
    ]
    sent = [server.call("POST", "/mail/send", mail)[1]["message_id"] for mail in mails]
    until(lambda: len(server.messages(bob)) == 2, "the mail arrives")
    server.call("POST", "/aliases", {"address": f"team@{DOMAIN}", "members": [ann, bob]})
    server.call("POST", "/permissions", {"email": ann, "permission": "view_stats", "domain": DOMAIN})
    server.call("POST", f"/users/{ann}/app-passwords", {"name": "Phone"})
    match = {"all": [{"field": "header", "name": "List-Id", "op": "contains", "value": "news"}]}
    away = {"type": "vacation", "text": "I am back on Monday.", "days": 7}
    news = {"name": "Newsletters", "match": match, "actions": [{"type": "folder", "folder": "News"}, {"type": "stop"}]}
    server.call("PUT", f"/users/{bob}/rules", {"rules": [news, {"name": "Holiday", "actions": [away]}]})
    for _ in range(5):
        server.call("POST", "/auth/login", {"email": f"carl@{DOMAIN}", "password": "wrong"})
    hook = {"url": "http://127.0.0.1:9/hook", "types": ["message.*"], "description": "Billing"}
    server.call("POST", "/webhooks", hook)
    file = {"filename": "menu.txt", "content": "U291cA=="}
    draft = {"to": [ann], "bcc": [bob], "subject": "Dinner", "body": {"html": "<p>At eight?</p>"}, "attachments": [file]}
    saved = server.call("POST", f"/mailbox/{bob}/drafts", draft)[1]
    uid = next(mail["uid"] for mail in server.messages(bob) if mail["subject"] == "The minutes")
    return {
        "overview": "/console",
        "messages": "/console/messages",
        "message": f"/console/messages/{sent[0]}",
        "deferred": f"/console/messages/{sent[3]}",
        "statistics": "/console/statistics?period=month",
        "hours": "/console/statistics?period=day",
        "queue": "/console/queue",
        "rules": f"/console/rules/{bob}",
        "rule": f"/console/rules/{bob}/0",
        "lockouts": "/console/lockouts",
        "domains": "/console/domains",
        "domain": f"/console/domains/{DOMAIN}",
        "users": "/console/users",
        "user": f"/console/users/{ann}",
        "aliases": "/console/aliases",
        "permissions": "/console/permissions",
        "tokens": "/console/tokens",
        "webhooks": "/console/webhooks",
        "webhook": "/console/webhooks/1",
        "events": "/console/events",
        "system": "/console/system",
        "mailbox": f"/console/mail/{bob}",
        "mail": f"/console/mail/{bob}/{uid}",
        "write": "/console/write",
        "drafts": f"/console/mail/{bob}?folder={saved['folder']}",
        "draft": f"/console/write?draft={saved['uid']}&mailbox={bob}",
    }


def visit(browser, pages, look):
    for name, path in pages.items():
        browser.open(path)
        for summary in browser.page.locator("main details > summary").all():
            if summary.is_visible():
                summary.click()
        browser.check(f"{name}, {look}")
        width = browser.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert width <= 0, f"{name}, {look}: {width} pixels too wide"
        browser.open(path)
        browser.picture(f"{name}-{look}")


def keyboard(browser):
    """The keyboard reaches the content, and a filter."""
    page = browser.page
    browser.open("/console/messages")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "status"
    page.keyboard.type("sent")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**status=sent*")


def story(server):
    pages = prepare(server)
    with chromium() as program:
        for size, viewport in SIZES.items():
            for scheme in ("light", "dark"):
                browser = Browser(program, root_of(server), viewport=viewport, color_scheme=scheme)
                browser.open("/console/login")
                browser.check(f"login, {size} {scheme}")
                browser.picture(f"login-{size}-{scheme}")
                browser.log_in_with(server.token)
                visit(browser, pages, f"{size}-{scheme}")
        owner = Browser(program, root_of(server))
        owner.log_in(f"ann@{DOMAIN}")
        visit(owner, {"account": "/console/account", "own-overview": "/console"}, "desk-light")
        keyboard(owner)


needs("chromium")
tell(story)
