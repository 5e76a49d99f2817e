//! Joins continued parameters (RFC 2231 section 3) for clients that know no continuations. Section 6 asks IMAP servers
//! for that; the encoding of section 4 stays.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::parameters::{Place, apostrophes_of};

/// What an encoded value cannot hold as it is: all but `attribute-char` of RFC 2231 section 7.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'{')
    .remove(b'|')
    .remove(b'}')
    .remove(b'~');

/// Returns the parameters with the sections of each one joined, where the first of them stands. Those that do not follow
/// each other from 0 stay as written.
pub(super) fn joined(written: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut sections: BTreeMap<String, BTreeMap<u32, usize>> = BTreeMap::new();
    for (at, (name, _)) in written.iter().enumerate() {
        if let Some(Place { name, number: Some(number), .. }) = Place::of(name) {
            // Of repeated sections, the first counts.
            sections.entry(name).or_default().entry(number).or_insert(at);
        }
    }
    let mut parameters: Vec<Option<(String, String)>> = written.into_iter().map(Some).collect();
    for (name, numbered) in sections {
        let is_whole = numbered.keys().zip(0..).all(|(number, place)| *number == place);
        let places: Vec<usize> = numbered.into_values().collect();
        let whole = is_whole.then(|| value(&name, places.iter().filter_map(|at| parameters[*at].as_ref()))).flatten();
        let first = places.iter().min();
        if let (Some(whole), Some(first)) = (whole, first) {
            places.iter().for_each(|at| parameters[*at] = None);
            parameters[*first] = Some(whole);
        }
    }
    parameters.into_iter().flatten().collect()
}

/// Joins the sections of a parameter, in order. Returns `None` if the result would mean something else.
fn value<'a>(name: &str, sections: impl Iterator<Item = &'a (String, String)> + Clone) -> Option<(String, String)> {
    let is_encoded = |(name, _): &&(String, String)| name.ends_with('*');
    if !sections.clone().any(|section| is_encoded(&section)) {
        return Some((name.to_owned(), sections.map(|(_, value)| value.as_str()).collect()));
    }
    let mut joined = String::new();
    for (at, section) in sections.enumerate() {
        // The charset of the first section does not apply to such characters.
        if !section.1.is_ascii() {
            return None;
        }
        let has_charset = at > 0 || (is_encoded(&section) && apostrophes_of(&section.1) >= 2);
        if !has_charset {
            joined.push_str("''");
        }
        if is_encoded(&section) {
            joined.push_str(&section.1);
        } else {
            joined.extend(utf8_percent_encode(&section.1, ENCODED));
        }
    }
    Some((format!("{name}*"), joined))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::parameters::{extended, written};
    use super::*;

    fn read(field: &str) -> String {
        let parameters = joined(written(&format!("attachment; {field}")).1);
        parameters.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn the_sections_of_a_name_become_one_parameter() {
        for (field, expected) in [
            ("filename*0*=utf-8''%E6%97%A5; filename*1*=%E6%9C%AC.pdf", "filename*=utf-8''%E6%97%A5%E6%9C%AC.pdf"),
            ("a=b; FileName*1=two; c=d; filename*0=\"one \"", "a=b; filename=one two; c=d"),
            ("name*0*=utf-8'de'%C3%BC; name*1=\" a*b\"", "name*=utf-8'de'%C3%BC%20a%2Ab"),
            ("name*0=100%; name*1*=%41", "name*=''100%25%41"),
            ("filename*=utf-8''a; name*0=a; name*1=b", "filename*=utf-8''a; name=ab"),
            ("name*0=alone", "name=alone"),
            ("name*0=a; name*2=c", "name*0=a; name*2=c"),
            ("name*1=a", "name*1=a"),
            ("name*0*=utf-8''a; name*1=ü", "name*0*=utf-8''a; name*1=ü"),
            ("name*0=ü; name*1=b", "name=üb"),
        ] {
            assert_eq!(read(field), expected, "{field}");
        }
    }

    proptest! {
        #[test]
        fn a_joined_value_means_what_its_sections_mean(
            sections in prop::collection::vec(("\\*?", "([a-c '*();]|%[4-7][0-9]|%C3%BC|utf-8''){0,6}"), 1..5),
            order in any::<prop::sample::Index>(),
        ) {
            let quoted = |(number, (mark, value)): (usize, &(String, String))| format!("name*{number}{mark}=\"{value}\"");
            let mut fields: Vec<String> = sections.iter().enumerate().map(quoted).collect();
            let at = order.index(fields.len());
            fields.rotate_left(at);
            let parameters = written(&format!("x; {}", fields.join("; "))).1;
            let meant = extended(parameters.clone()).remove("name").unwrap_or_default();
            let (name, value) = joined(parameters).remove(0);
            let found = if name == "name" { value } else { extended(vec![(name, value)]).remove("name").unwrap_or_default() };
            prop_assert_eq!(found, meant);
        }
    }
}
