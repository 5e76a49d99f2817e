//! Parses the meaning of a single line, independently of other lines.

use std::net::IpAddr;
use std::time::Duration;

use mailapi_model::{EmailAddress, EnhancedCode, Outcome, Reply, ReversePath};

use super::line::Line;

/// The queue id in lines about mail that never received one.
pub(super) const NO_QUEUE: &str = "NOQUEUE";

/// The meaning of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Fact<'a> {
    /// A listener opened a queue file: a message begins.
    Begins {
        /// Whether the client was authenticated.
        authenticated: bool,
        /// Whether the client is on this machine.
        loopback: bool,
    },
    /// A message came from sendmail(1) or was requeued: a message begins.
    PickedUp {
        /// Its queue id before it was requeued.
        former: Option<&'a str>,
    },
    /// The Message-ID header.
    MessageId(&'a str),
    /// The message is in the queue; logged again at each attempt.
    Queued {
        /// The reverse-path, if it can be parsed.
        sender: Option<ReversePath>,
        /// The number of recipients after alias expansion.
        recipients: Option<u64>,
    },
    /// A delivery attempt for one recipient ended.
    Delivery(Delivery<'a>),
    /// The recipients that still wait are given up.
    Expired,
    /// The message left the queue.
    Removed,
    /// The operator deleted the message from the queue.
    Deleted,
    /// The queue manager ended an attempt, and the queue file was gone: deleted, requeued or put on hold meanwhile.
    FileGone,
    /// A delivery agent could not open the queue file, so it tried no recipient.
    Unopened,
    /// The listener refused a recipient, the sender or the message.
    Rejected(Rejection),
    /// The message was accepted from its sender and then discarded by a rule.
    Discarded {
        /// The reverse-path, if it can be parsed.
        sender: Option<ReversePath>,
        /// The rule, and the operator's text for it.
        response: String,
    },
    /// The message is on hold until the operator releases it.
    Held,
    /// A header marks the message as spam.
    MarkedAsSpam,
}

/// The end of one delivery attempt for one recipient.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Delivery<'a> {
    /// The address that Postfix delivered to, as in the line.
    pub(super) to: &'a str,
    /// The recipient before alias expansion, as in the line.
    pub(super) orig_to: Option<&'a str>,
    /// The next hop; `None` for `none`.
    pub(super) relay: Option<&'a str>,
    /// Time since the message arrived.
    pub(super) delay: Duration,
    /// The enhanced status code.
    pub(super) dsn: Option<EnhancedCode>,
    /// The outcome.
    pub(super) outcome: Outcome,
    /// The reason.
    pub(super) response: &'a str,
}

impl<'a> Delivery<'a> {
    /// Returns the queue id in the next hop's acceptance. Only local(8) writes its response itself. Any other
    /// response is text from the next hop, and proves nothing about the message with that id.
    pub(super) fn requeued_as(&self, daemon: &str) -> Option<&'a str> {
        if self.outcome != Outcome::Sent {
            return None;
        }
        let mark = if daemon == "local" { "forwarded as " } else { "queued as " };
        let (_, after) = self.response.rsplit_once(mark)?;
        let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
        (end > 0).then(|| &after[..end])
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    /// Whether it concerns one recipient; otherwise the message.
    pub(super) of_recipient: bool,
    /// The reverse-path, if it can be parsed.
    pub(super) sender: Option<ReversePath>,
    /// The recipient, if it can be parsed.
    pub(super) recipient: Option<EmailAddress>,
    /// The reply.
    pub(super) reply: Reply,
    /// The address of the client, if it can be parsed.
    pub(super) client: Option<IpAddr>,
}

/// Returns the queue id and the meaning of a line; `None` for lines that change no message.
pub(super) fn fact<'a>(line: &Line<'a>) -> Option<(&'a str, Fact<'a>)> {
    if let Some(warning) = line.text.strip_prefix("warning: ") {
        return missing_file(line.daemon, warning).or_else(|| without_recipients(line.daemon, warning));
    }
    let (id, text) = line.text.split_once(": ")?;
    if !is_queue_id(id) {
        return None;
    }
    let fact = match line.daemon {
        "smtpd" => of_listener(text),
        "postscreen" => rejected(text),
        "pickup" => picked_up(text),
        "cleanup" => of_cleanup(text),
        "qmgr" | "nqmgr" | "oqmgr" => of_queue_manager(text),
        "postsuper" => match text {
            "removed" => Some(Fact::Deleted),
            "placed on hold" => Some(Fact::Held),
            _ => None,
        },
        _ => None,
    };
    let fact = fact.or_else(|| delivery(text).map(Fact::Delivery))?;
    let needs_queue_id = !matches!(fact, Fact::Rejected(_));
    (id != NO_QUEUE || !needs_queue_id).then_some((id, fact))
}

/// Parses `qmgr_active_done_3_generic: remove ID from active: No such file or directory` of the queue manager, and
/// `open active ID: No such file or directory` of a delivery agent.
fn missing_file<'a>(daemon: &str, warning: &'a str) -> Option<(&'a str, Fact<'a>)> {
    let what = warning.strip_suffix(": No such file or directory")?;
    let (id, fact) = if matches!(daemon, "qmgr" | "nqmgr" | "oqmgr") {
        let removed = what.strip_prefix("qmgr_active_done_3_generic: remove ");
        let moved = || what.strip_prefix("qmgr_active_defer: rename ");
        (removed.or_else(moved)?.split_once(" from active")?.0, Fact::FileGone)
    } else {
        (what.strip_prefix("open active ")?, Fact::Unopened)
    };
    is_queue_id(id).then_some((id, fact))
}

/// Parses `maildrop/FORMER: error writing ID: no recipients specified` of pickup(8). All recipients of a requeued message
/// were delivered before it was picked up, so it does not enter the queue again.
fn without_recipients<'a>(daemon: &str, warning: &'a str) -> Option<(&'a str, Fact<'a>)> {
    let what = warning.strip_suffix(": no recipients specified").filter(|_| daemon == "pickup")?;
    let (_, id) = what.strip_prefix("maildrop/")?.split_once(": error writing ")?;
    is_queue_id(id).then_some((id, Fact::Removed))
}

/// Short ids are hexadecimal, long ones alphanumeric without vowels; both grow with inode numbers. Words such as
/// `warning` pass here and fail in the rest of the line.
fn is_queue_id(text: &str) -> bool {
    (5..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn of_listener(text: &str) -> Option<Fact<'_>> {
    match text.strip_prefix("client=") {
        Some(client) => {
            let address = client.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(address, _)| address);
            let loopback = address.is_some_and(|address| address.starts_with("127.") || address == "::1");
            // The client chooses the name before the address; Postfix writes what follows.
            let parameters = client.split_once(']').map_or("", |(_, parameters)| parameters);
            Some(Fact::Begins { authenticated: parameters.contains(", sasl_username="), loopback })
        }
        None => rejected(text),
    }
}

fn picked_up(text: &str) -> Option<Fact<'_>> {
    let rest = text.strip_prefix("uid=")?;
    let (_, rest) = rest.split_once(" from=")?;
    let rest = angle(rest).map_or(rest, |(_, rest)| rest);
    Some(Fact::PickedUp { former: rest.trim_start().strip_prefix("orig_id=") })
}

fn of_cleanup(text: &str) -> Option<Fact<'_>> {
    if let Some(header) = text.strip_prefix("message-id=") {
        return Some(Fact::MessageId(header));
    }
    if let Some(discarded) = discarded(text) {
        return Some(discarded);
    }
    if let Some(Fact::Rejected(rejection)) = rejected(text) {
        return Some(Fact::Rejected(Rejection { of_recipient: false, ..rejection }));
    }
    if is_marked_as_spam(text) {
        return Some(Fact::MarkedAsSpam);
    }
    (text.starts_with("hold: ") || text.starts_with("milter-hold: ")).then_some(Fact::Held)
}

/// Whether the line reports a spam header. header_checks and milter_header_checks log the headers that they match. An
/// operator configures WARN for the header of the spam filter.
fn is_marked_as_spam(text: &str) -> bool {
    let Some((action, rest)) = text.split_once(": ") else { return false };
    let is_report = matches!(action, "warning" | "info" | "prepend" | "hold" | "redirect" | "filter" | "replace")
        || action.starts_with("milter-header-");
    let header = rest.strip_prefix("header ").unwrap_or(rest);
    let header = header.rsplit_once(" from ").map_or(header, |(header, _)| header);
    let Some((name, value)) = header.split_once(':') else { return false };
    let is_mark = ["x-spam", "x-spam-flag", "x-spam-status"].contains(&name.to_ascii_lowercase().as_str());
    is_report && is_mark && value.trim_start().get(..3).is_some_and(|start| start.eq_ignore_ascii_case("yes"))
}

fn of_queue_manager(text: &str) -> Option<Fact<'_>> {
    if text == "removed" {
        return Some(Fact::Removed);
    }
    let (sender, rest) = angle(text.strip_prefix("from=")?)?;
    if rest.starts_with(", size=") {
        let recipients = rest.split_once(", nrcpt=").and_then(|(_, rest)| rest.split_once(' ')?.0.parse().ok());
        return Some(Fact::Queued { sender: reverse_path(sender), recipients });
    }
    let status = rest.strip_prefix(", status=")?;
    (status.starts_with("expired,") || status.starts_with("force-expired,")).then_some(Fact::Expired)
}

fn delivery(text: &str) -> Option<Delivery<'_>> {
    let (to, mut rest) = angle(text.strip_prefix("to=")?)?;
    let (mut orig_to, mut relay, mut delay, mut dsn) = (None, None, Duration::ZERO, None);
    loop {
        rest = rest.strip_prefix(", ")?;
        let (key, after) = rest.split_once('=')?;
        if key == "status" {
            let (status, reason) = after.split_once(' ')?;
            let response = reason.strip_prefix('(')?;
            // A truncated line has no closing parenthesis.
            let response = response.strip_suffix(')').unwrap_or(response);
            return Some(Delivery { to, orig_to, relay, delay, dsn, outcome: outcome(status)?, response });
        }
        if key == "orig_to" {
            let (address, after) = angle(after)?;
            (orig_to, rest) = (Some(address), after);
            continue;
        }
        // Unlike addresses, no other value before the status contains a comma.
        let end = after.find(", ")?;
        let value = &after[..end];
        rest = &after[end..];
        match key {
            "relay" => relay = (value != "none").then_some(value),
            "delay" => delay = seconds(value),
            "dsn" => dsn = value.parse().ok(),
            _ => {}
        }
    }
}

/// `deliverable` and `undeliverable` are results of address verification, not deliveries.
fn outcome(status: &str) -> Option<Outcome> {
    match status {
        "SOFTBOUNCE" => Some(Outcome::Deferred),
        _ => status.parse().ok(),
    }
}

fn seconds(text: &str) -> Duration {
    let seconds = text.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0);
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// Parses `reject: RCPT from client[address]: 550 5.1.1 text; from=<…> to=<…> proto=…`, and the forms of milters and
/// postscreen.
fn rejected(text: &str) -> Option<Fact<'_>> {
    let rest = text.strip_prefix("reject: ").or_else(|| text.strip_prefix("milter-reject: "))?;
    let (stage, rest) = rest.split_once(' ')?;
    // Header and body checks log the matched line first and the reply last.
    let is_content = matches!(stage, "header" | "body");
    let (said, envelope, client) = if is_content {
        let (said, envelope) = rest.rsplit_once("; from=").unwrap_or((rest, ""));
        (said, envelope, said.strip_suffix(']'))
    } else {
        let (client, after) = rest.split_once(']')?;
        let (said, envelope) = envelope_behind(after.split_once(": ")?.1);
        (said, envelope, Some(client))
    };
    let client = client.and_then(|client| client.rsplit_once('[')?.1.parse().ok());
    let (sender, rest) = angle(envelope).map_or((None, ""), |(sender, rest)| (reverse_path(sender), rest));
    let to = rest.trim_start_matches([',', ' ']).strip_prefix("to=").and_then(angle);
    let reply = if is_content {
        let after = to.map_or(rest, |(_, rest)| rest);
        after.rsplit_once(">: ").map_or(after, |(_, reply)| reply)
    } else {
        said
    };
    Some(Fact::Rejected(Rejection {
        of_recipient: stage == "RCPT",
        sender,
        recipient: to.and_then(|(to, _)| address(to)),
        reply: reply_of(reply),
        client,
    }))
}

/// Splits the text into the reply and the envelope. The client chooses the address at the start of the reply and the
/// name at the end of the envelope. Both may imitate an envelope.
fn envelope_behind(text: &str) -> (&str, &str) {
    let codes = text.find(|c: char| !matches!(c, '0'..='9' | '.' | ' ')).unwrap_or(text.len());
    let after = angle(&text[codes..]).map_or(text, |(_, after)| after);
    match after.split_once("; from=") {
        Some((said, envelope)) => (&text[..text.len() - after.len() + said.len()], envelope),
        None => (text, ""),
    }
}

/// Parses `discard: header Subject: … from client[address]; from=<…> to=<…> proto=… helo=<…>: text`, and the form of
/// milters. The response omits the envelope: reverse-paths may be secret except to recipients.
fn discarded(text: &str) -> Option<Fact<'static>> {
    let what = text.strip_prefix("milter-").unwrap_or(text);
    what.strip_prefix("discard: ")?;
    // A header may imitate the envelope; the real one comes last.
    let (said, envelope) = text.rsplit_once("; from=").unwrap_or((text, ""));
    let (sender, rest) = angle(envelope).map_or((None, ""), |(sender, rest)| (reverse_path(sender), rest));
    let response = match rest.rsplit_once(">: ") {
        Some((_, reason)) => format!("{said}: {reason}"),
        None => said.to_owned(),
    };
    Some(Fact::Discarded { sender, response })
}

/// Parses a logged reply: with both codes, or from a milter or check with the enhanced code alone.
fn reply_of(text: &str) -> Reply {
    let (code, rest) = match text.split_once(' ') {
        Some((code, rest)) if code.len() == 3 => (code.parse().ok(), rest),
        _ => (None, text),
    };
    let (enhanced, said) = match rest.split_once(' ') {
        Some((first, said)) => match first.parse::<EnhancedCode>() {
            Ok(enhanced) => (Some(enhanced), said),
            Err(_) => (None, rest),
        },
        None => (None, rest),
    };
    let class = enhanced.map_or(5, |enhanced| u16::from(enhanced.class));
    Reply { code: code.unwrap_or(class * 100 + 50), enhanced, text: said.to_owned() }
}

/// Splits `<text>rest`. A quoted local part may contain brackets.
fn angle(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('<')?;
    let mut end_of_quoted = 0;
    if inner.starts_with('"') {
        let mut escaped = false;
        let closing = inner.char_indices().skip(1).find(|(_, c)| {
            let is_closing = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            is_closing
        });
        end_of_quoted = closing?.0;
    }
    let end = end_of_quoted + inner[end_of_quoted..].find('>')?;
    Some((&inner[..end], &inner[end + 1..]))
}

/// Parses an address of a line. Postfix before 3.5 logged quoted local parts without their quotes.
pub(super) fn address(text: &str) -> Option<EmailAddress> {
    EmailAddress::as_given(text).ok().or_else(|| {
        let (local, domain) = text.rsplit_once('@')?;
        let quoted = local.replace('\\', "\\\\").replace('"', "\\\"");
        EmailAddress::as_given(&format!("\"{quoted}\"@{domain}")).ok()
    })
}

fn reverse_path(text: &str) -> Option<ReversePath> {
    if text.is_empty() { Some(None) } else { address(text).map(Some) }
}

#[cfg(test)]
mod tests {
    use mailapi_model::Timestamp;
    use proptest::prelude::*;

    use super::*;

    fn said<'a>(daemon: &'a str, text: &'a str) -> Option<(&'a str, Fact<'a>)> {
        let at = Timestamp::from_seconds(0);
        fact(&Line { at, instance: "postfix", service: None, daemon, pid: 1, text })
    }

    #[test]
    fn what_moves_no_message_is_no_fact() {
        for (daemon, text) in [
            ("smtpd", "connect from unknown[127.0.0.1]"),
            ("smtpd", "warning: unknown[127.0.0.1]: SASL PLAIN authentication failed: x, sasl_username=a"),
            ("cleanup", "warning: DC4A69F82F3: queue file size limit exceeded"),
            ("qmgr", "4F2: removed"),
            ("smtp", "A75229F81F1: removed"),
            ("smtp", "A75229F81F1: to=<a@x.org>, relay=none, delay=1, dsn=4.4.1, status=deferr"),
            ("smtp", "A75229F81F1: to=<a@x.org>, relay=none, delay=1, dsn=2.1.5, status=deliverable (250 OK)"),
            ("smtp", "A75229F81F1: host mx said: 450 try later, to=<a@x.org>, status=sent (x)"),
            ("postsuper", "Deleted: 1 message"),
            ("smtpd", "NOQUEUE: client=unknown[192.0.2.1]"),
        ] {
            assert_eq!(said(daemon, text), None, "{text}");
        }
    }

    #[test]
    fn an_address_cannot_forge_an_outcome() {
        let text = r#"A75229F81F1: to=<"x>, relay=none, delay=1, dsn=2.0.0, status=sent (a"@x.org>, relay=none, delay=1, delays=1/0/0/0, dsn=5.1.1, status=bounced (status=sent (x), dsn=2.0.0 "y" said (z))"#;
        let (_, Fact::Delivery(delivery)) = said("smtp", text).unwrap() else { panic!("no delivery") };
        assert_eq!(delivery.outcome, Outcome::Bounced);
        assert_eq!(delivery.dsn, "5.1.1".parse().ok());
        assert_eq!(delivery.response, r#"status=sent (x), dsn=2.0.0 "y" said (z)"#);
    }

    #[test]
    fn a_delivery_is_taken_apart_also_when_it_was_cut() {
        let text = "4jWknv2f33z1WnNS: to=<Carol@Example.com>, orig_to=<team@example.org>, relay=mx[/run/lmtp], \
                    conn_use=2, delay=1.1, delays=1.1/0/0/0, dsn=4.2.0, status=deferred (host said: 450 4.2.0 <caro";
        let (id, Fact::Delivery(delivery)) = said("lmtp", text).unwrap() else { panic!("no delivery") };
        assert_eq!(id, "4jWknv2f33z1WnNS");
        assert_eq!((delivery.to, delivery.orig_to), ("Carol@Example.com", Some("team@example.org")));
        assert_eq!((delivery.relay, delivery.delay), (Some("mx[/run/lmtp]"), Duration::from_millis(1100)));
        assert_eq!(delivery.response, "host said: 450 4.2.0 <caro");
    }

    #[test]
    fn a_hand_over_names_the_next_queue_id() {
        for (response, id) in [
            ("250 2.0.0 Ok: queued as C91219F88D8", Some("C91219F88D8")),
            ("250 2.0.0 from MTA(smtp:[127.0.0.1]:10025): 250 2.0.0 Ok: queued as 4jWknv", Some("4jWknv")),
            ("forwarded as 9F81A4", Some("9F81A4")),
            ("250 2.0.0 <bob@example.org> 9JCrBxpM Saved", None),
        ] {
            let text = format!("A75229F81F1: to=<a@x.org>, relay=none, delay=0, dsn=2.0.0, status=sent ({response})");
            let daemon = if response.starts_with("forwarded") { "local" } else { "smtp" };
            let (_, Fact::Delivery(delivery)) = said(daemon, &text).unwrap() else { panic!("no delivery") };
            assert_eq!(delivery.requeued_as(daemon), id);
        }
    }

    #[test]
    fn refusals_keep_their_reply_and_recipient() {
        let text = "NOQUEUE: reject: RCPT from unknown[127.0.0.1]: 554 5.7.1 <bob@@example.org>: Relay access denied; \
                    from=<ann@example.org> to=<\"bob@\"@example.org> proto=ESMTP helo=<client.example.org>";
        let (id, Fact::Rejected(rejection)) = said("smtpd", text).unwrap() else { panic!("no refusal") };
        assert_eq!((id, rejection.of_recipient), (NO_QUEUE, true));
        assert_eq!(rejection.recipient, "\"bob@\"@example.org".parse().ok());
        assert_eq!(rejection.reply.to_string(), "554 5.7.1 <bob@@example.org>: Relay access denied");
        assert_eq!(rejection.client, "127.0.0.1".parse().ok());
        let text = "NOQUEUE: reject: RCPT from [192.0.2.7]:4711: 550 5.7.1 Service unavailable; client blocked; \
                    from=<>, to=<bob@example.org>, proto=ESMTP, helo=<x>";
        let (_, Fact::Rejected(rejection)) = said("postscreen", text).unwrap() else { panic!("no refusal") };
        assert_eq!((rejection.sender, rejection.reply.code), (Some(None), 550));
        let text = "58B369F8272: reject: header Subject: x [h-reject] from unknown[127.0.0.1]; from=<ann@example.org> \
                    to=<bob@example.org> proto=ESMTP helo=<client.example.org>: 5.7.1 no thanks";
        let (_, Fact::Rejected(rejection)) = said("cleanup", text).unwrap() else { panic!("no refusal") };
        assert!(!rejection.of_recipient);
        assert_eq!(rejection.client, "127.0.0.1".parse().ok());
        assert_eq!(rejection.reply.to_string(), "550 5.7.1 no thanks");
        let text = "8651D9F81AF: milter-reject: END-OF-MESSAGE from unknown[127.0.0.1]: 4.7.1 try again later; \
                    from=<ann@example.org> to=<bob@example.org> proto=ESMTP helo=<client.example.org>";
        let (_, Fact::Rejected(rejection)) = said("cleanup", text).unwrap() else { panic!("no refusal") };
        assert_eq!(rejection.reply.to_string(), "450 4.7.1 try again later");
    }

    #[test]
    fn neither_an_address_nor_a_name_forges_an_envelope() {
        let forged = "; from=<forged@example.net> to=<forged@example.org> proto=ESMTP helo=<x";
        for (subject, helo) in
            [("<bob@example.org>", format!("y>{forged}")), ("<\"forged\"@example.org>", forged.to_owned())]
        {
            let to = subject.replace("forged", forged);
            let text = format!(
                "NOQUEUE: reject: RCPT from unknown[192.0.2.1]: 550 5.1.1 {to}: unknown; from=<ann@example.org> to={to} \
                 proto=ESMTP helo=<{helo}>"
            );
            let (_, Fact::Rejected(rejection)) = said("smtpd", &text).unwrap() else { panic!("no refusal") };
            assert_eq!(rejection.sender, Some("ann@example.org".parse().ok()), "{text}");
            assert_eq!(rejection.recipient, to[1..to.len() - 1].parse().ok(), "{text}");
            assert_eq!(rejection.reply.text, format!("{to}: unknown"));
        }
    }

    #[test]
    fn a_discarded_message_is_reported_with_its_rule_only() {
        let text = "595DF9F8272: discard: header Subject: x; from=<forged@example.net> from unknown[127.0.0.1]; \
                    from=<ann@example.org> to=<bob@example.org> proto=ESMTP helo=<client.example.org>: silently";
        let (_, Fact::Discarded { sender, response }) = said("cleanup", text).unwrap() else { panic!("no discard") };
        assert_eq!(sender, Some("ann@example.org".parse().ok()));
        assert_eq!(response, "discard: header Subject: x; from=<forged@example.net> from unknown[127.0.0.1]: silently");
        let text = "870D29F81AF: milter-discard: END-OF-MESSAGE from unknown[127.0.0.1]: milter triggers DISCARD action; \
                    from=<> to=<bob@example.org> proto=ESMTP helo=<client.example.org>";
        let (_, Fact::Discarded { sender, response }) = said("cleanup", text).unwrap() else { panic!("no discard") };
        assert_eq!(sender, Some(None));
        let rule = "milter-discard: END-OF-MESSAGE from unknown[127.0.0.1]: milter triggers DISCARD action";
        assert_eq!(response, rule);
    }

    #[test]
    fn marks_of_spam_are_seen_where_postfix_reports_headers() {
        let marked = |text| matches!(said("cleanup", text), Some((_, Fact::MarkedAsSpam)));
        assert!(marked(
            "55D2A9F8242: warning: header X-Spam-Flag: YES from mx[192.0.2.1]; from=<a@b.org> to=<c@d.org>"
        ));
        assert!(marked(
            "55D2A9F8242: milter-header-warning: header X-Spam: yes from mx[192.0.2.1]; from=<> to=<c@d.org>"
        ));
        assert!(!marked("55D2A9F8242: warning: header X-Spam-Flag: NO from mx[192.0.2.1]; from=<> to=<c@d.org>"));
        assert!(!marked("55D2A9F8242: warning: header Subject: X-Spam-Flag: YES from mx[192.0.2.1]; from=<>"));
    }

    #[test]
    fn addresses_of_old_versions_lack_their_quotes() {
        assert_eq!(address("john doe@example.org").unwrap().as_str(), "\"john doe\"@example.org");
        assert_eq!(address("no"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(
            daemon in "smtpd|cleanup|qmgr|smtp|pickup|postscreen|postsuper",
            text in "\\PC{0,120}|A75229F81F1: (to=|from=|reject: |discard: |client=|uid=|message-id=|warning: )[<>\",=a-z@.\\[\\]; :é\\\\(]{0,80}",
        ) {
            let _ = said(&daemon, &text);
        }
    }
}
