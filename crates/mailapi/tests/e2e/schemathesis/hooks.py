"""Rules that a schema cannot express: between two members, and for the records that the run needs."""

import functools
import itertools
import json
import os
import urllib.request
from datetime import date, datetime, timedelta, timezone

import schemathesis
from hypothesis import strategies as st

TOKEN_HEADER = "X-MAILAPI-TOKEN"
ROOT = os.environ["GUARD_EMAIL"]
# Wrong current passwords lock the mailbox whose session changes its password.
LOCKED = "carol@guard.test"
# Records that the run must not lose, each with a replacement that does not exist.
GUARDED = {
    "email": ([ROOT, "alice@example.test"], "nobody@guard.test"),
    "domain": (["guard.test", "example.test"], "absent.test"),
    "id": ([os.environ["GUARD_TOKEN_ID"]], "999999999"),
}
calls = itertools.count()

WORD = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)
ADDRESS = st.builds("{}@{}.test".format, WORD, WORD)
TIME = st.sampled_from(["00:00:00", "10:15:30", "10:15:30.123", "23:59:59.999999"])
OFFSET = st.sampled_from(["Z", "+02:00", "-11:30"])
# RFC 5322 section 3.4, as far as it is common.
schemathesis.openapi.format("mailbox", ADDRESS | st.builds("{} <{}>".format, WORD, ADDRESS))
schemathesis.openapi.format("address-or-domain", ADDRESS | st.builds("{}.test".format, WORD))
DATE = st.dates(date(2000, 1, 1), date(2100, 1, 1)).map(date.isoformat)
schemathesis.openapi.format("date-or-time", DATE | st.builds("{}T{}{}".format, DATE, TIME, OFFSET))


@schemathesis.hook
def before_call(context, case, kwargs):
    spare_the_run(case)
    if case.path.endswith("/events") and str((case.query or {}).get("wait")).isdigit():
        # The run does not wait for events that no one causes.
        case.query["wait"] = 0
    if case.path.endswith(("/auth/logout", "/auth/refresh")):
        show_a_session(case, lambda: fresh_session(ROOT))
    if case.path.endswith("/auth/password"):
        show_a_session(case, session_to_lock)
    if case.meta is not None and case.meta.generation.mode.is_positive:
        keep_rules_between_members(case)
        if next(calls) % 2 == 0:
            ask_for_what_exists(case)


def spare_the_run(case):
    """Keeps the accounts and tokens that the run needs."""
    takes_away = case.method in ("PUT", "DELETE") or case.path.endswith(("/disable", "/reset-password"))
    for name, (guarded, other) in GUARDED.items():
        value = (case.path_parameters or {}).get(name)
        if takes_away and value is not None and str(value).lower().replace("%40", "@") in guarded:
            case.path_parameters[name] = other
    body = case.body if isinstance(case.body, dict) else {}
    if case.path.endswith(("/permissions", "/permissions/bulk", "/auth/login")) and body.get("email") == ROOT:
        # An admin is granted nothing, and wrong passwords would lock the admin out.
        body["email"] = "nobody@guard.test"


def show_a_session(case, session):
    """Replaces the run's own token, which must stay. A call with another token, or without one, keeps it."""
    if (case.headers or {}).get(TOKEN_HEADER) == os.environ["GUARD_TOKEN"]:
        case.headers[TOKEN_HEADER] = session()


@functools.cache
def session_to_lock():
    return fresh_session(LOCKED)


def fresh_session(email):
    body = json.dumps({"email": email, "password": os.environ["GUARD_PASSWORD"]}).encode()
    request = urllib.request.Request(os.environ["GUARD_LOGIN"], data=body, method="POST")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["token"]


def ask_for_what_exists(case):
    """Every second call uses values that exist, which dictionaries and arbitrary values cannot provide."""
    body = case.body if isinstance(case.body, dict) else {}
    if case.path.endswith("/mail/send") and "from" in body:
        body["from"] = "Alice <alice@example.test>"
    if case.path.endswith("/auth/login") and "email" in body:
        body.update(email="alice@example.test", password=os.environ["GUARD_PASSWORD"])
    if case.path.endswith(("/status", "/timeline")):
        case.path_parameters["message_id"] = os.environ["GUARD_MESSAGE_ID"]
    if case.path.endswith("/events/{id}"):
        case.path_parameters["id"] = os.environ["GUARD_EVENT_ID"]


def keep_rules_between_members(case):
    body = case.body if isinstance(case.body, dict) else {}
    if case.path.endswith("/auth/signup") and {"email", "domain"} <= body.keys():
        # The first user's address is in the new domain.
        body["email"] = f"{body['email'].rsplit('@', 1)[0]}@{body['domain']}"
    if case.path.endswith("/mail/send") and isinstance(said := body.get("body"), dict):
        # A message has a text in at least one of two forms.
        if said.get("text") is None and said.get("html") is None:
            said["text"] = "See attached."
    if case.path.endswith("/tokens") and body.get("token_type") == "admin":
        # An admin token is bound to no mailbox.
        body.pop("email", None)
    if "/tokens" in case.path and isinstance(body.get("expires_at"), str):
        # A token ends in the future.
        body["expires_at"] = "2099-01-01" + body["expires_at"][len("2099-01-01"):]
    if "/stats/" in case.path and case.query:
        # A period ends after its beginning, and is not longer than some years.
        now = datetime.now(timezone.utc)
        for name, moment in [("start_date", now - timedelta(days=3)), ("end_date", now)]:
            text = case.query.get(name)
            if isinstance(text, str) and len(text) >= len("2099-01-01"):
                case.query[name] = moment.date().isoformat() + text[len("2099-01-01"):]
