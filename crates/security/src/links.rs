//! Links, and the sites that they lead to.

use std::collections::BTreeSet;

use url::{Host, Url};

use crate::Surroundings;
use crate::bounds::{COMPARED_HOSTS, LISTED_LINKS};
use crate::correspondents::KnownPeople;
use crate::lookalike::{self, Resemblance, canonical, is_host, is_same_organization, looks_latin, organization};
use crate::page::RawLink;
use crate::report::{AnalyzedLink, Findings, shortened};
use crate::sign::SecuritySign;

/// Examines the links of all bodies and files.
pub(crate) fn examine(
    links: impl IntoIterator<Item = RawLink>,
    surroundings: &Surroundings,
    people: &KnownPeople<'_>,
    findings: &mut Findings,
) -> Vec<AnalyzedLink> {
    let all: BTreeSet<RawLink> = links.into_iter().collect();
    let (mut listed, mut hosts) = (Vec::new(), BTreeSet::new());
    for link in all {
        let analyzed = examine_one(&link, &mut hosts, findings);
        if listed.len() < LISTED_LINKS {
            listed.extend(analyzed);
        }
    }
    findings.is_partial |= hosts.len() > COMPARED_HOSTS;
    hosts.iter().take(COMPARED_HOSTS).for_each(|host| examine_name(host, surroundings, people, findings));
    listed
}

/// Returns `None` for what leads to no site and runs no code, such as a place in the message.
fn examine_one(link: &RawLink, hosts: &mut BTreeSet<String>, findings: &mut Findings) -> Option<AnalyzedLink> {
    let url = Url::parse(&link.url).ok()?;
    match url.scheme() {
        "http" | "https" => {}
        "javascript" | "vbscript" | "data" => {
            findings.add(SecuritySign::LinkRunsCode, &link.url);
            return Some(AnalyzedLink {
                text: shortened(link.text.as_deref().unwrap_or_default()),
                url: shortened(&link.url),
                host: String::new(),
                shown_host_differs: false,
                punycode: false,
                ip_host: false,
            });
        }
        _ => return None,
    }
    let host = url.host_str()?.trim_end_matches('.').to_owned();
    let ip_host = !matches!(url.host(), Some(Host::Domain(_)));
    let shown_host = link.text.as_deref().and_then(host_in).filter(|shown| !is_same_organization(shown, &host));
    if let Some(shown) = &shown_host {
        findings.add(SecuritySign::LinkShowsOtherHost, format!("{shown} leads to {}", lookalike::shown(&host)));
    }
    if ip_host {
        findings.add(SecuritySign::LinkToNumber, &link.url);
    } else {
        hosts.insert(organization(&host).to_owned());
    }
    if is_host(&canonical(url.username())) {
        findings.add(SecuritySign::LinkNamesUser, format!("{} leads to {}", url.username(), lookalike::shown(&host)));
    }
    if let Some(target) = redirected(&url, &host) {
        findings.add(SecuritySign::LinkRedirects, format!("{host} to {target}"));
    }
    Some(AnalyzedLink {
        text: shortened(link.text.as_deref().unwrap_or(&link.url)),
        url: shortened(&link.url),
        punycode: host.split('.').any(|label| label.starts_with("xn--")),
        host: lookalike::shown(&host),
        shown_host_differs: shown_host.is_some(),
        ip_host,
    })
}

/// Looks for a name that imitates another.
fn examine_name(host: &str, surroundings: &Surroundings, people: &KnownPeople<'_>, findings: &mut Findings) {
    match surroundings.own_names.imitated(host) {
        Some((own, Resemblance::Lookalike)) => {
            findings.add(SecuritySign::LookalikeLink, format!("{host}, and not {own}"));
        }
        Some((own, Resemblance::Similar)) => {
            findings.add(SecuritySign::SimilarLink, format!("{host}, and not {own}"));
        }
        None => {
            if let Some(known) = people.imitated(host) {
                let evidence = format!("{}, and not {known}", lookalike::shown(host));
                findings.add(SecuritySign::LookalikeCorrespondent, evidence);
            }
            if let Some(latin) = looks_latin(host) {
                findings.add(SecuritySign::LookalikeLink, format!("{} looks like {latin}", lookalike::shown(host)));
            }
        }
    }
}

/// Returns the host that a link's text names: a URL in it, or a text that is nothing but a host.
fn host_in(text: &str) -> Option<String> {
    let of_url = |word: &str| {
        let lower = word.to_ascii_lowercase();
        let rest = lower.strip_prefix("https://").or_else(|| lower.strip_prefix("http://"));
        let name = rest.or_else(|| Some(lower.as_str()).filter(|word| word.starts_with("www.")))?;
        // Browsers read the text before an `@` as a user name.
        let authority = name.split(['/', '?', '#', '\\']).next()?;
        let host = canonical(authority.rsplit('@').next()?.split(':').next()?);
        is_host(&host).then_some(host)
    };
    let words = || text.split_whitespace();
    words().find_map(of_url).or_else(|| {
        let only = words().next().filter(|_| words().count() == 1)?;
        let host = canonical(only.split('/').next()?);
        is_host(&host).then_some(host)
    })
}

/// Returns another organization's host whose address is a parameter of a link.
fn redirected(url: &Url, host: &str) -> Option<String> {
    let target = |value: &str| {
        let target = Url::parse(value).ok().filter(|target| matches!(target.scheme(), "http" | "https"))?;
        target.host_str().filter(|other| !is_same_organization(other, host)).map(ToOwned::to_owned)
    };
    url.query_pairs().take(100).find_map(|(_, value)| target(&value))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::page::PageFacts;
    use crate::{Correspondent, KnownNames};

    fn of(html: &str) -> (Vec<&'static str>, Vec<AnalyzedLink>) {
        let own_names = Arc::new(KnownNames::of(["example.org".parse().unwrap()]));
        let partner = Correspondent { name: String::new(), address: "carl@mail.partner.net".to_owned() };
        let surroundings = Surroundings { own_names, correspondents: vec![partner], ..Surroundings::default() };
        let mut findings = Findings::default();
        let people = KnownPeople::of(&surroundings);
        let links = examine(PageFacts::of_html(html).links, &surroundings, &people, &mut findings);
        let report = findings.into_report(Default::default(), Default::default(), links, vec![], Default::default());
        (report.reasons.iter().map(|reason| reason.sign.code()).collect(), report.links)
    }

    #[test]
    fn links_that_mislead_are_found() {
        let cases = [
            ("<a href=http://evil.net/>https://www.bank.com/login</a>", &["link_shows_other_host"][..]),
            ("<a href=http://evil.net/>bank.com</a>", &["link_shows_other_host"]),
            ("<a href=http://user:x@evil.net/>http://evil.net@bank.com/</a>", &["link_shows_other_host"]),
            ("<a href=http://login.bank.com/>Go to www.bank.com now</a>", &[]),
            ("<a href=http://evil.net/>Bank e.g. v1.2 and README.md</a>", &[]),
            ("<a href=http://192.0.2.1/>x</a><a href=http://0x7f.1/>y</a>", &["link_to_number"]),
            ("<a href='http://[2001:db8::1]/'>x</a>", &["link_to_number"]),
            ("<a href=https://www.bank.com@evil.net/>x</a>", &["link_names_user"]),
            ("<a href=https://examp1e.org/>x</a>", &["lookalike_link"]),
            ("<a href=https://example-login.net/>x</a>", &["similar_link"]),
            ("<a href=https://xn--80ak6aa92e.com/>x</a>", &["lookalike_link"]),
            ("<a href=https://www.partner.net/>x</a><a href=https://partners.net/>x</a>", &[]),
            ("<a href=https://pa\u{433}tner.net/>x</a>", &["lookalike_link", "lookalike_correspondent"]),
            ("<a href=https://m\u{fc}ller.de/>x</a>", &[]),
            ("<a href=https://a.net/r?u=https%3A%2F%2Fb.com%2F>x</a>", &["link_redirects"]),
            ("<a href=https://a.net/r?u=https%3A%2F%2Fwww.a.net%2F>x</a>", &[]),
            ("<a href='java\nscript:alert(1)'>x</a>", &["link_runs_code"]),
            ("<a href='data:text/html,x'>x</a>", &["link_runs_code"]),
            ("<a href=mailto:a@b.com>bank.com</a><a href=#top>bank.com</a><a href=tel:1>1</a>", &[]),
        ];
        for (html, expected) in cases {
            assert_eq!(of(html).0, expected, "{html}");
        }
    }

    #[test]
    fn links_are_listed_once_with_their_facts() {
        let (_, links) = of("<a href=https://xn--mller-kva.de/>a</a><a href=https://xn--mller-kva.de/>a</a>");
        assert_eq!(links.len(), 1);
        assert_eq!((links[0].host.as_str(), links[0].punycode, links[0].ip_host), ("m\u{fc}ller.de", true, false));
        let many: String = (0..500).map(|n| format!("<a href=https://a.net/{n}>x</a>")).collect();
        assert_eq!(of(&many).1.len(), LISTED_LINKS);
    }

    proptest! {
        #[test]
        fn any_link_is_examined(url in "(http://|https:|//|@|:|\\[|\\]|\\.|%|xn--|a|1|\\?u=|\\PC){0,20}", text in "\\PC{0,30}") {
            let mut findings = Findings::default();
            let _ = examine_one(&RawLink { url, text: Some(text) }, &mut BTreeSet::new(), &mut findings);
        }
    }
}
