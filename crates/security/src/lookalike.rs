//! Names of domains that imitate others.

use std::collections::{BTreeMap, HashMap, HashSet};

use mailapi_model::DomainName;
use unicode_security::confusable_detection::skeleton;

/// Names with fewer letters differ by one letter from many others.
const SHORTEST: usize = 6;

/// How a name resembles another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resemblance {
    /// It looks the same.
    Lookalike,
    /// It differs by a letter or an added word.
    Similar,
}

/// Returns the organization's domain: one label below a public suffix; the name itself if it has none.
pub(crate) fn organization(host: &str) -> &str {
    psl::domain_str(host).unwrap_or(host)
}

/// Returns whether two hosts belong to one organization.
pub(crate) fn is_same_organization(one: &str, other: &str) -> bool {
    organization(one) == organization(other)
}

/// Returns whether the text is the name of a host below a known public suffix.
pub(crate) fn is_host(text: &str) -> bool {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_known = || psl::suffix(text.as_bytes()).is_some_and(|suffix| suffix.is_known());
    text.contains('.') && text.chars().all(is_letter) && !text.split('.').any(str::is_empty) && is_known()
}

/// Returns a host in lower case and with A-labels, as [`organization`] compares it.
pub(crate) fn canonical(host: &str) -> String {
    let host = host.trim_end_matches('.');
    idna::domain_to_ascii(host).unwrap_or_else(|_| host.to_ascii_lowercase())
}

/// Returns a host with decoded A-labels, as people read it.
pub(crate) fn shown(host: &str) -> String {
    idna::domain_to_unicode(host).0
}

/// Domains that others imitate, prepared for comparisons. A comparison takes microseconds, whatever their number, but for
/// names of the same length.
#[derive(Debug, Clone, Default)]
pub struct KnownNames {
    names: Vec<KnownName>,
    organizations: HashSet<String>,
    /// Indexes of the names that look like this.
    by_looks: HashMap<String, usize>,
    /// Indexes of the long names whose first label is this, or looks like this.
    by_label: HashMap<String, usize>,
    by_label_looks: HashMap<String, usize>,
    by_letters: BTreeMap<usize, Vec<usize>>,
}

#[derive(Debug, Clone)]
struct KnownName {
    domain: DomainName,
    /// The first label of the organization's domain, as people read it.
    label: String,
}

impl KnownNames {
    /// Prepares domains.
    pub fn of(domains: impl IntoIterator<Item = DomainName>) -> Self {
        let mut known = Self::default();
        for domain in domains {
            let organization = organization(domain.as_str()).to_owned();
            if known.organizations.insert(organization.clone()) {
                known.add(domain, &shown(&organization));
            }
        }
        known
    }

    fn add(&mut self, domain: DomainName, shown: &str) {
        let (at, label) = (self.names.len(), first_label(shown).to_owned());
        self.by_looks.entry(looks(shown)).or_insert(at);
        let letters = label.chars().count();
        if letters >= SHORTEST {
            self.by_label.entry(label.clone()).or_insert(at);
            self.by_label_looks.entry(looks(&label)).or_insert(at);
            self.by_letters.entry(letters).or_default().push(at);
        }
        self.names.push(KnownName { domain, label });
    }

    /// Returns whether a host belongs to one of the organizations.
    pub(crate) fn has(&self, host: &str) -> bool {
        self.organizations.contains(organization(host))
    }

    /// Returns the domain that a host imitates, and how. A host of the same organization imitates none, and neither does the
    /// same name below another public suffix, which often has the same owner.
    pub(crate) fn imitated(&self, host: &str) -> Option<(&DomainName, Resemblance)> {
        if self.has(host) {
            return None;
        }
        let shown = shown(organization(host));
        let label = first_label(&shown);
        let found = |at: &usize, resemblance| (&self.names[*at].domain, resemblance);
        if let Some(at) = self.by_looks.get(&looks(&shown)) {
            return Some(found(at, Resemblance::Lookalike));
        }
        if self.by_label.contains_key(label) {
            return None;
        }
        if let Some(at) = self.by_label_looks.get(&looks(label)) {
            return Some(found(at, Resemblance::Lookalike));
        }
        let added = label.split('-').find_map(|word| self.by_label.get(word));
        added.or_else(|| self.one_letter_off(label)).map(|at| found(at, Resemblance::Similar))
    }

    fn one_letter_off(&self, label: &str) -> Option<&usize> {
        let letters = label.chars().count();
        let near = self.by_letters.range(letters.saturating_sub(1)..=letters + 1).flat_map(|(_, names)| names);
        near.into_iter().find(|at| strsim::damerau_levenshtein(label, &self.names[**at].label) == 1)
    }
}

/// Returns the Latin name that a host with other letters looks like.
pub(crate) fn looks_latin(host: &str) -> Option<String> {
    let shown = shown(organization(host));
    let label = first_label(&shown);
    // Letters with accents are what they look like.
    let is_foreign =
        |c: char| c.is_alphabetic() && !c.is_ascii() && skeleton(c.encode_utf8(&mut [0; 4])).all(|c| c.is_ascii());
    let has_foreign = label.chars().any(is_foreign);
    let looks: String = skeleton(label).collect();
    (has_foreign && looks.is_ascii()).then_some(looks)
}

fn first_label(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Returns the same text for names that look alike: their skeleton (UTS 39 section 4), also with letters for digits, which are
/// not confusable there.
pub(crate) fn looks(name: &str) -> String {
    let plain = |c: char| match c {
        '0' | 'O' => 'o',
        '1' | 'I' => 'l',
        c => c,
    };
    let form: String = skeleton(name).map(plain).collect();
    // Two letters that look like one.
    form.replace("vv", "w").replace("cl", "d").replace("rn", "m")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(host: &str) -> Option<Resemblance> {
        let domains = ["example.org", "mycompany.co.uk", "müller-bau.de", "tea.org", "www.example.org"];
        let own = KnownNames::of(domains.map(|domain| domain.parse().unwrap()));
        own.imitated(&canonical(host)).map(|found| found.1)
    }

    #[test]
    fn names_that_look_like_ours_are_found() {
        use Resemblance::{Lookalike, Similar};
        for host in ["examp1e.org", "mail.exarnple.org", "ex\u{430}mple.org", "rnycompany.co.uk", "exampIe.org"] {
            assert_eq!(of(host), if host == "exampIe.org" { Some(Similar) } else { Some(Lookalike) }, "{host}");
        }
        for host in ["exemple.org", "example-login.com", "secure-mycompany.com", "mycompanny.co.uk", "muller-bau.de"] {
            assert_eq!(of(host), Some(Similar), "{host}");
        }
        for host in [
            "example.org",
            "mail.example.org",
            "example.com",
            "sample.net",
            "other.co.uk",
            "counterexample.org",
            "teas.org",
        ] {
            assert_eq!(of(host), None, "{host}");
        }
    }

    #[test]
    fn foreign_letters_that_look_latin_are_found() {
        assert_eq!(looks_latin(&canonical("\u{430}\u{440}\u{440}l\u{435}.com")).as_deref(), Some("apple"));
        for host in ["müller.de", "пример.рф", "example.com", "日本.jp", "café.fr"] {
            assert_eq!(looks_latin(&canonical(host)), None, "{host}");
        }
    }

    #[test]
    fn words_are_no_hosts() {
        for host in ["www.example.org", "example.co.uk", "xn--mller-kva.de", "müller.de"] {
            assert!(is_host(host), "{host}");
        }
        for text in ["e.g", "example", "v1.2.3", "and/or", "..", "Mr.Smith", "a b.org", "me@example.org"] {
            assert!(!is_host(text), "{text}");
        }
        assert!(
            is_same_organization("a.example.co.uk", "example.co.uk") && !is_same_organization("a.co.uk", "b.co.uk")
        );
    }
}
