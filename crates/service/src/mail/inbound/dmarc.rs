//! DMARC (RFC 9989), evaluated by mail-auth.

use std::time::Duration;

use futures_util::FutureExt;
use mail_auth::dkim::Signature;
use mail_auth::dmarc::verify::DmarcParameters;
use mail_auth::dmarc::{Dmarc, Policy};
use mail_auth::{AuthenticatedMessage, DkimOutput, DmarcResult, MessageAuthenticator, SpfOutput, SpfResult};
use mailapi_backend::Dns;
use mailapi_model::AuthenticationResult;

use super::answers::Answers;
use super::lookups::{Lookups, Unanswered};
use super::signatures::Signed;
use super::spf::SpfCheck;

/// Maximum number of look-ups: the author's domain, eight names of it, and as many for each aligned candidate, which share
/// most of them.
const MAX_LOOKUPS: usize = 48;

/// Time limit. It starts after the other checks, so that other domains cannot use it up.
const TIME: Duration = Duration::from_secs(10);

/// Possible records at a name of the author's walk that was not answered. Beside the author's own policy, only their effect
/// on the organizational domain matters (RFC 9989 section 4.10.2).
const POSSIBLE_RECORDS: [Option<&str>; 4] =
    [None, Some("v=DMARC1; p=none"), Some("v=DMARC1; p=none; psd=y"), Some("v=DMARC1; p=none; psd=n")];

/// Possible records at all other unanswered names: without one, the most domains align, and with `psd=n` the fewest. The
/// sender chooses how many such names there are.
const POSSIBLE_RECORDS_BELOW: [Option<&str>; 2] = [None, Some("v=DMARC1; p=none; psd=n")];

/// Maximum number of unanswered names of the author's walk for which all combinations are tried.
const MAX_UNANSWERED: usize = 3;

/// Number of labels of the longest parent domain that is looked up (RFC 9989 section 4.10).
const MAX_LABELS: usize = 7;

/// What happens to a message, in increasing strictness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Demand {
    None,
    Quarantine,
    Reject,
}

impl Demand {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Quarantine => "quarantine",
            Self::Reject => "reject",
        }
    }
}

/// The result of the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DmarcCheck {
    pub(super) result: AuthenticationResult,
    /// What the author's domain asks for if the check fails.
    pub(super) policy: Demand,
}

/// Checks a message of one author domain.
pub(super) async fn check(
    dns: &dyn Dns,
    verifier: Option<&MessageAuthenticator>,
    author: &str,
    spf: &SpfCheck,
    signed: &[Signed],
) -> DmarcCheck {
    let lookups = Lookups::new(dns, MAX_LOOKUPS, TIME);
    let mut names = walk(author);
    let temporary = DmarcCheck { result: AuthenticationResult::Temperror, policy: Demand::None };
    let evaluated = |answers: &Answers| {
        verifier.and_then(|verifier| evaluate(verifier, author, spf, signed, answers)).unwrap_or(temporary)
    };
    let related: Vec<&str> = candidates(spf, signed).filter(|domain| may_be_related(domain, author)).collect();
    let mut known = Answers::default();
    // The author's own domain is always aligned, and an unrelated one never (RFC 9989 section 4.4). Then the author's own
    // policy decides alone.
    if related.is_empty() || is_confirmed(author, spf, signed) {
        let own = names.remove(0);
        known = Answers::policies(&lookups, std::slice::from_ref(&own)).await;
        if known.policy(&own).is_some() {
            return evaluated(&known);
        }
    }
    names.extend(related.into_iter().flat_map(walk));
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| !known.contains(name) && seen.insert(name.clone()));
    let mut answers = Answers::policies(&lookups, &names).await.and(known);
    if let Some(result) = in_any_case(&answers, author, evaluated) {
        return result;
    }
    if apply_existence(&lookups, author, &mut answers).await.is_err() {
        return temporary;
    }
    evaluated(&answers)
}

/// Returns the result if names were not answered, and every possible answer gives the same one.
fn in_any_case(answers: &Answers, author: &str, evaluated: impl Fn(&Answers) -> DmarcCheck) -> Option<DmarcCheck> {
    let names = walk(author);
    answers.policy(names.first()?)?;
    let unanswered = answers.unanswered();
    let (above, below): (Vec<String>, Vec<String>) = unanswered.into_iter().partition(|name| names.contains(name));
    if above.len() + below.len() == 0 || above.len() > MAX_UNANSWERED {
        return None;
    }
    let mut possible = POSSIBLE_RECORDS_BELOW.map(|record| answers.supposing(&below, record)).to_vec();
    for name in above.chunks(1) {
        let with_each = |answers: &Answers| POSSIBLE_RECORDS.map(|record| answers.supposing(name, record));
        possible = possible.iter().flat_map(with_each).collect();
    }
    let mut results = possible.iter().map(evaluated);
    let first = results.next()?;
    results.all(|result| result == first).then_some(first)
}

/// Returns whether a check passed for the author's domain itself.
fn is_confirmed(author: &str, spf: &SpfCheck, signed: &[Signed]) -> bool {
    let passed = |result, domain: &str| result == AuthenticationResult::Pass && domain == author;
    passed(spf.result, &spf.domain) || signed.iter().any(|one| passed(one.result, &one.domain))
}

/// Returns the domains that may align: those of checks that passed, or may pass later.
fn candidates<'a>(spf: &'a SpfCheck, signed: &'a [Signed]) -> impl Iterator<Item = &'a str> {
    let may_align = |result| matches!(result, AuthenticationResult::Pass | AuthenticationResult::Temperror);
    let spf = Some(spf.domain.as_str()).filter(|_| may_align(spf.result));
    spf.into_iter().chain(signed.iter().filter(move |one| may_align(one.result)).map(|one| one.domain.as_str()))
}

/// Returns whether two domains share their last two labels, without which they never align.
fn may_be_related(one: &str, other: &str) -> bool {
    let end = |name: &str| name.rsplit('.').take(2).map(str::to_owned).collect::<Vec<_>>();
    end(one) == end(other)
}

/// Returns the names of a tree walk (RFC 9989 section 4.10).
fn walk(domain: &str) -> Vec<String> {
    let labels: Vec<&str> = domain.split('.').collect();
    let whole = std::iter::once(labels.len());
    let parents = (1..labels.len()).rev().filter(|count| *count <= MAX_LABELS);
    whole.chain(parents).map(|count| format!("_dmarc.{}.", labels[labels.len() - count..].join("."))).collect()
}

/// Selects the policy for subdomains that do not exist (RFC 9989 section 4.7, `np`), so that mail-auth has no
/// question about the author's domain.
async fn apply_existence(lookups: &Lookups<'_>, author: &str, answers: &mut Answers) -> Result<(), Unanswered> {
    let names = walk(author);
    let (own, parents) = names.split_first().ok_or(Unanswered)?;
    let differs = |name: &String| answers.policy(name).is_some_and(|policy| policy.np != policy.sp);
    let is_missing = answers.policy(own).is_none() && parents.iter().any(differs) && !lookups.exists(author).await?;
    answers.change_policies(|policy: &mut Dmarc| match is_missing {
        true => policy.sp = policy.np,
        false => policy.np = policy.sp,
    });
    Ok(())
}

fn evaluate(
    verifier: &MessageAuthenticator,
    author: &str,
    spf: &SpfCheck,
    signed: &[Signed],
    answers: &Answers,
) -> Option<DmarcCheck> {
    let message = AuthenticatedMessage { from: vec![format!("author@{author}")], ..AuthenticatedMessage::default() };
    let signatures: Vec<Signature> =
        signed.iter().map(|one| Signature { d: one.domain.clone(), ..Signature::default() }).collect();
    let outputs = signed.iter().zip(&signatures).filter_map(|(one, signature)| match one.result {
        AuthenticationResult::Pass => Some(DkimOutput::pass().with_signature(signature)),
        AuthenticationResult::Temperror => {
            Some(DkimOutput::temp_err(Answers::unanswered_error()).with_signature(signature))
        }
        _ => None,
    });
    let outputs: Vec<_> = outputs.collect();
    let spf_output = SpfOutput::new(spf.domain.clone()).with_result(match spf.result {
        AuthenticationResult::Pass => SpfResult::Pass,
        AuthenticationResult::Temperror => SpfResult::TempError,
        _ => SpfResult::None,
    });
    let parameters = DmarcParameters {
        message: &message,
        dkim_output: &outputs,
        dkim2_output: None,
        rfc5321_mail_from_domain: &spf.domain,
        spf_output: &spf_output,
    };
    // The records are known, so the future does not wait.
    let output = verifier.verify_dmarc(answers.with(parameters)).now_or_never()?;
    let result = match output.result() {
        DmarcResult::Pass => AuthenticationResult::Pass,
        DmarcResult::Fail(_) => AuthenticationResult::Fail,
        DmarcResult::TempError(_) => AuthenticationResult::Temperror,
        DmarcResult::PermError(_) => AuthenticationResult::Permerror,
        DmarcResult::None => AuthenticationResult::None,
    };
    let policy = match output.policy() {
        Policy::Reject => Demand::Reject,
        Policy::Quarantine => Demand::Quarantine,
        Policy::None | Policy::Unspecified => Demand::None,
    };
    Some(DmarcCheck { result, policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_asks_at_most_eight_names() {
        assert_eq!(walk("example.org"), ["_dmarc.example.org.", "_dmarc.org."]);
        let long = walk("a.b.c.d.e.f.g.h.i.example.org");
        assert_eq!(long.len(), 8);
        assert_eq!(long[0], "_dmarc.a.b.c.d.e.f.g.h.i.example.org.");
        assert_eq!(long[1], "_dmarc.e.f.g.h.i.example.org.");
        assert_eq!(walk("a.b.c.d.e.f.example.org")[1], "_dmarc.b.c.d.e.f.example.org.");
    }
}
