"""Hostile mail in the console: nothing of it runs, no request leaves, and the page stays usable."""

import smtplib
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import SMTP

from browser import Browser, chromium, root_of
from harness import needs, tell, until

ELSEWHERE = "http://127.0.0.1:9"
HOSTILE = [
    "<script>alert(1)</script>",
    f"<img src='{ELSEWHERE}/pixel.gif' onerror=alert(1)>",
    f"<img srcset='{ELSEWHERE}/2x.gif 2x'><picture><source srcset='{ELSEWHERE}/s'><img></picture>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror=alert(1)&gt;'>",
    f"<style>@import '{ELSEWHERE}/a.css'; body {{ background: url({ELSEWHERE}/b) }}</style>",
    f"<div style='background: url({ELSEWHERE}/c)'>styled</div>",
    f"<link rel=stylesheet href='{ELSEWHERE}/d.css'><link rel=dns-prefetch href='//evil.example'>",
    f"<meta http-equiv=refresh content='0;url={ELSEWHERE}/e'>",
    f"<base href='{ELSEWHERE}/'><a href='f' id=go>relative</a>",
    f"<iframe src='{ELSEWHERE}/g'></iframe><iframe srcdoc='<script>alert(1)</script>'></iframe>",
    f"<object data='{ELSEWHERE}/h'></object><embed src='{ELSEWHERE}/i'>",
    f"<video src='{ELSEWHERE}/j' poster='{ELSEWHERE}/k' autoplay></video><audio src='{ELSEWHERE}/l' autoplay></audio>",
    f"<form action='{ELSEWHERE}/m' id=f><input name=p autofocus onfocus=alert(1)><button>Log in</button></form>",
    "<a href='javascript:alert(1)'>click</a><details open ontoggle=alert(1)>x</details>",
    "<body onload=alert(1)><marquee onstart=alert(1)>x</marquee>",
    "<table>" * 200 + "deep" + "</table>" * 200,
    "<div>" * 10_000 + "deeper",
    "<p>" + "large " * 800_000,
    "<b>" * 5_000 + "<!-- </b> -->" * 5_000,
]


def deliver(server, to, html, number):
    mail = MIMEMultipart("alternative")
    mail["From"], mail["To"], mail["Subject"] = "eve@evil.example", to, f"Hostile {number}"
    mail.attach(MIMEText(html, "html", "utf-8"))
    with smtplib.SMTP(*server.smtp, timeout=60) as client:
        client.sendmail("eve@evil.example", [to], mail.as_bytes(policy=SMTP))


def inbox(server, mailbox):
    """Every message, in whichever folder it arrived."""
    folders = [folder["name"] for folder in server.get(f"/mailbox/{mailbox}/folders")["folders"]]
    return [(folder, mail["uid"]) for folder in folders for mail in server.messages(mailbox, folder)]


def story(server):
    (bob,) = server.create_people("bob")
    for number, html in enumerate(HOSTILE):
        deliver(server, bob, html, number)
    until(lambda: len(inbox(server, bob)) == len(HOSTILE), "the mail arrives")
    with chromium() as program:
        browser = Browser(program, root_of(server))
        browser.log_in(bob)
        for folder, uid in inbox(server, bob):
            path = f"/console/mail/{bob}/{uid}"
            browser.open(f"{path}?folder={folder}")
            browser.page.wait_for_load_state("load")
            browser.check_faults(f"message {uid}")
            if browser.page.locator("iframe.mail").count():
                # The same outside of its frame, where the policy of its own address protects.
                browser.open(f"{path}/html?folder={folder}")
                browser.check_faults(f"message {uid} alone")
                browser.page.go_back()
            assert browser.page.get_by_role("heading", level=1).inner_text().startswith("Hostile")


needs("chromium")
tell(story)
