//! The spam filter, which is asked last: about messages that the other checks accept.

use std::net::IpAddr;
use std::time::Duration;

use mailapi_backend::{InboundAction, InboundMail, Judgement};
use mailapi_metrics::SpamCheck;
use mailapi_rspamd::{Action, CheckedMail, Rspamd, RspamdError, Verdict};

use super::lookups::Lookups;
use crate::Service;

/// Fields with the verdict. Rules and mail programs believe them, so those that arrive are removed.
const OWN_FIELDS: &[&str] = &["X-Spam", "X-Spam-Status"];
/// Maximum number of look-ups for the client's name, and their time limit.
const LOOKUPS: usize = 11;
const LOOKUP_TIME: Duration = Duration::from_secs(5);
/// Largest score that is shown.
const MAX_SCORE: f64 = 9_999.0;

impl Service {
    /// Adds what the spam filter finds to a judgement. Without an answer the message passes: mail must not wait for the
    /// filter's repair.
    pub(super) async fn filtered(&self, mut judgement: Judgement, client: IpAddr, mail: &InboundMail<'_>) -> Judgement {
        let Some(rspamd) = self.0.rspamd.as_ref() else { return judgement };
        judgement.own_fields.extend(OWN_FIELDS);
        match self.verdict(rspamd, client, mail).await {
            Ok(verdict) => {
                tracing::info!(queue_id = %mail.queue_id, action = ?verdict.action, score = verdict.score, "spam check");
                self.0.metrics.count_spam_check(label_of(verdict.action));
                apply(&mut judgement, verdict);
            }
            Err(error) => {
                tracing::warn!(queue_id = %mail.queue_id, %error, "spam filter failed; the message passes");
                self.0.metrics.count_spam_check(SpamCheck::Failed);
            }
        }
        judgement
    }

    async fn verdict(&self, rspamd: &Rspamd, client: IpAddr, mail: &InboundMail<'_>) -> Result<Verdict, RspamdError> {
        let lookups = Lookups::new(self.0.dns.as_ref(), LOOKUPS, LOOKUP_TIME);
        let names = lookups.confirmed_names(client).await;
        let checked = CheckedMail {
            hostname: mail.hostname,
            client,
            client_host: names.first().map(String::as_str),
            client_name: mail.client_name,
            sender: mail.sender,
            recipients: mail.recipients,
            queue_id: mail.queue_id,
            message: mail.message.clone(),
        };
        rspamd.check(&checked).await
    }

    /// Checks that the spam filter answers; `None` if there is none.
    pub async fn check_spam_filter(&self) -> Option<Result<(), RspamdError>> {
        match &self.0.rspamd {
            Some(rspamd) => Some(rspamd.ping().await),
            None => None,
        }
    }
}

const fn label_of(action: Action) -> SpamCheck {
    match action {
        Action::Accept => SpamCheck::Passed,
        Action::Mark => SpamCheck::Marked,
        Action::Defer => SpamCheck::Deferred,
        Action::Reject => SpamCheck::Rejected,
    }
}

/// Never makes a judgement milder.
fn apply(judgement: &mut Judgement, verdict: Verdict) {
    let text = |fallback: &str| verdict.text.clone().unwrap_or_else(|| fallback.to_owned());
    match verdict.action {
        Action::Accept => {}
        Action::Mark => judgement.action = InboundAction::Junk,
        Action::Defer => judgement.action = InboundAction::Defer(text("Try again later")),
        Action::Reject => judgement.action = InboundAction::Refuse(text("The message was rejected as spam")),
    }
    judgement.fields.push_str(&fields(&verdict));
}

/// Returns the fields with the verdict.
fn fields(verdict: &Verdict) -> String {
    let [score, required] = [verdict.score, verdict.required].map(|score| score.clamp(-MAX_SCORE, MAX_SCORE));
    let (mark, is_spam) = if verdict.action == Action::Accept { ("", "No") } else { ("X-Spam: Yes\r\n", "Yes") };
    format!("{mark}X-Spam-Status: {is_spam}, score={score:.2} required={required:.2}\r\n")
}
