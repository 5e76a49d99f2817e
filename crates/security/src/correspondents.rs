//! People that the mailbox exchanges mail with. Others imitate them.

use std::collections::{HashMap, HashSet};

use mailapi_model::DomainName;

use crate::Surroundings;
use crate::bounds::CORRESPONDENTS;
use crate::lookalike::{KnownNames, Resemblance, canonical, looks, organization};

/// Characters of a name that are compared.
const NAME_CHARS: usize = 200;
/// Words of a name that few other people have.
const FEWEST_WORDS: usize = 2;

/// A person that the mailbox exchanges mail with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Correspondent {
    /// The name that messages show; may be empty.
    pub name: String,
    /// The address.
    pub address: String,
}

/// The correspondents, prepared for comparisons.
#[derive(Debug)]
pub(crate) struct KnownPeople<'a> {
    own: &'a KnownNames,
    organizations: KnownNames,
    /// Those with an address at an own domain, by what their names look like.
    colleagues: HashMap<String, &'a Correspondent>,
    /// What the names look like, with the addresses in lower case.
    known: HashSet<(String, String)>,
}

impl<'a> KnownPeople<'a> {
    /// Prepares the correspondents. Those beyond the bound are left out.
    pub(crate) fn of(surroundings: &'a Surroundings) -> Self {
        let people = || surroundings.correspondents.iter().take(CORRESPONDENTS);
        // Many have the same provider, whose name is prepared once.
        let organizations: HashSet<String> = people().filter_map(|person| organization_of(&person.address)).collect();
        let own = &*surroundings.own_names;
        // One that imitates an own domain must not make others look like imitations of it.
        let honest = organizations.iter().filter(|name| !own.has(name) && own.imitated(name).is_none());
        let names = honest.filter_map(|name| name.parse::<DomainName>().ok());
        let mut prepared =
            Self { own, organizations: KnownNames::of(names), colleagues: HashMap::new(), known: HashSet::new() };
        for person in people() {
            let is_colleague = organization_of(&person.address).is_some_and(|name| own.has(&name));
            for form in forms(&person.name) {
                if is_colleague {
                    prepared.colleagues.entry(form.clone()).or_insert(person);
                }
                prepared.known.insert((form, person.address.to_lowercase()));
            }
        }
        prepared
    }

    /// Returns the colleague whose name an author from elsewhere has.
    pub(crate) fn named_like(&self, name: &str, address: &str) -> Option<&'a Correspondent> {
        if self.colleagues.is_empty() || organization_of(address).is_some_and(|name| self.own.has(&name)) {
            return None;
        }
        let (forms, address) = (forms(name), address.to_lowercase());
        let colleague = forms.iter().find_map(|form| self.colleagues.get(form))?;
        // Colleagues write from home as well.
        let is_known = forms.into_iter().any(|form| self.known.contains(&(form, address.clone())));
        (!is_known).then_some(*colleague)
    }

    /// Returns the organization of a correspondent that a host looks like. What an own domain or its imitation is, is decided
    /// before.
    pub(crate) fn imitated(&self, host: &str) -> Option<&DomainName> {
        if self.own.has(host) || self.own.imitated(host).is_some() {
            return None;
        }
        let found = self.organizations.imitated(host);
        found.filter(|(_, resemblance)| *resemblance == Resemblance::Lookalike).map(|(domain, _)| domain)
    }
}

fn organization_of(address: &str) -> Option<String> {
    let (_, domain) = address.rsplit_once('@')?;
    Some(organization(&canonical(domain)).to_owned())
}

/// Returns what a name looks like; nothing for short ones, which many people have. Words have no order, since some programs write
/// the family's name first.
fn forms(name: &str) -> HashSet<String> {
    let name: String = name.chars().take(NAME_CHARS).collect();
    // Capital letters look like others than small ones do.
    let capital: String = unicode_security::confusable_detection::skeleton(&name).collect();
    let form = |name: &str| {
        let name = looks(&name.to_lowercase());
        let mut words: Vec<_> = name.split(|c: char| c.is_whitespace() || c == ',').filter(|w| !w.is_empty()).collect();
        words.sort_unstable();
        (words.len() >= FEWEST_WORDS).then(|| words.join(" "))
    };
    [name.as_str(), capital.as_str()].into_iter().filter_map(form).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::KnownNames;

    fn surroundings(people: &[(&str, &str)]) -> Surroundings {
        let person =
            |(name, address): &(&str, &str)| Correspondent { name: (*name).into(), address: (*address).into() };
        Surroundings {
            own_names: Arc::new(KnownNames::of(["example.org".parse().unwrap()])),
            correspondents: people.iter().map(person).collect(),
            ..Surroundings::default()
        }
    }

    #[test]
    fn colleagues_are_known_by_their_names() {
        let surroundings = surroundings(&[
            ("Ann  Lee", "ann@example.org"),
            ("Ann Lee", "Ann.Lee@home.example.net"),
            ("Bob", "bob@mail.example.org"),
            ("Eve Stone", "eve@example.com"),
            ("Ian Clark", "ian@example.org"),
        ]);
        let people = KnownPeople::of(&surroundings);
        let found = |name, address| people.named_like(name, address).map(|person| person.address.as_str());
        for name in ["Ann Lee", "ANN lee", "Lee, Ann", "\u{410}nn \u{a0}L\u{435}e", "Ann \u{2c}Lee"] {
            assert_eq!(found(name, "ceo@freemail.com"), Some("ann@example.org"), "{name}");
        }
        assert_eq!(found("lan C1ark", "x@freemail.com"), Some("ian@example.org"));
        for (name, address) in [
            ("Ann Lee", "ann@www.example.org"),
            ("Ann Lee", "ann.lee@home.example.net"),
            ("Bob", "bob@freemail.com"),
            ("Eve Stone", "eve@freemail.com"),
            ("Ann Leeds", "x@freemail.com"),
            ("", "x@freemail.com"),
        ] {
            assert_eq!(found(name, address), None, "{name} {address}");
        }
    }

    #[test]
    fn organizations_of_correspondents_are_known() {
        let surroundings =
            surroundings(&[("", "a@mail.camera.net"), ("", "b@shop.de"), ("", "c@examp1e.org"), ("", "no address")]);
        let people = KnownPeople::of(&surroundings);
        let found = |host: &str| people.imitated(host).map(ToString::to_string);
        assert_eq!(found("carnera.net").as_deref(), Some("camera.net"));
        assert_eq!(found("www.5hop.de"), None);
        assert_eq!(found(&canonical("sh\u{43e}p.de")).as_deref(), Some("shop.de"));
        for host in ["example.com", "example.org", "examp1e.org", "exarnple.org", "exampel.com", "other.net"] {
            assert_eq!(found(host), None, "{host}");
        }
    }

    #[test]
    fn many_correspondents_are_bounded() {
        let many = vec![Correspondent::default(); CORRESPONDENTS];
        let mut surroundings = surroundings(&[]);
        surroundings.correspondents = many;
        surroundings.correspondents.push(Correspondent { name: "Ann Lee".into(), address: "ann@example.org".into() });
        assert!(KnownPeople::of(&surroundings).named_like("Ann Lee", "x@freemail.com").is_none());
    }

    proptest! {
        #[test]
        fn any_correspondent_is_compared(name in "\\PC{0,40}", address in "(a|@|\\.|xn--|\\PC){0,12}") {
            let surroundings = surroundings(&[(&name, &address), (&name, "ann@example.org")]);
            let people = KnownPeople::of(&surroundings);
            let _ = (people.named_like(&name, &address), people.imitated(&address));
        }
    }
}
