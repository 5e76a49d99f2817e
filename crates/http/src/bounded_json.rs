//! Parses JSON into a value whose memory is bounded by the length of the text.
//!
//! A value takes more memory than its text: `{"":0},` has seven bytes and becomes an object of hundreds. Parsing counts
//! memory and stops at the limit.

use std::cell::Cell;
use std::fmt;

use serde::de;
use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Deserializer, Error, Map, Number, Value};

/// Maximum nesting of objects and arrays. Valid requests have at most four levels.
const MOST_DEPTH: usize = 32;
/// Memory that any value may use, regardless of its text.
const FREE_BYTES: usize = 1024 * 1024;
/// Additional memory for each byte of the text.
const BYTES_FOR_EACH: usize = 2;
/// A value in an array, which grows by doubling.
const ITEM_BYTES: usize = 2 * size_of::<Value>();
/// A node of an object's B-tree: up to eleven members with their names.
const OBJECT_BYTES: usize = 11 * MEMBER_BYTES + 32;
const MEMBER_BYTES: usize = size_of::<Value>() + size_of::<String>();

/// Why valid JSON was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// An object has two members of one name. Readers disagree about which one counts (RFC 8259 section 4).
    Duplicate,
    /// Objects and arrays are nested too deeply.
    TooDeep,
    /// The value would take too much memory.
    TooMuch,
}

/// Parses a whole text.
///
/// # Errors
/// The error with its position, and the reason unless the text is not JSON.
pub(crate) fn read(text: &[u8]) -> Result<Value, (Error, Option<Refused>)> {
    let budget = Budget { bytes: Cell::new(most_memory(text.len())), refused: Cell::new(None) };
    let mut reader = Deserializer::from_slice(text);
    let value = Bounded { budget: &budget, depth: 0 }.deserialize(&mut reader);
    let whole = value.and_then(|value| reader.end().map(|()| value));
    whole.map_err(|error| (error, budget.refused.get()))
}

/// Maximum memory of a value whose text has `bytes` bytes.
pub(crate) const fn most_memory(bytes: usize) -> usize {
    FREE_BYTES.saturating_add(bytes.saturating_mul(BYTES_FOR_EACH))
}

/// Remaining memory.
struct Budget {
    bytes: Cell<usize>,
    refused: Cell<Option<Refused>>,
}

impl Budget {
    fn take<E: de::Error>(&self, bytes: usize) -> Result<(), E> {
        let left = self.bytes.get().checked_sub(bytes).ok_or_else(|| self.refuse(Refused::TooMuch))?;
        self.bytes.set(left);
        Ok(())
    }

    fn refuse<E: de::Error>(&self, why: Refused) -> E {
        self.refused.set(Some(why));
        E::custom("refused")
    }
}

/// Parses one value.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    budget: &'a Budget,
    depth: usize,
}

impl Bounded<'_> {
    fn inside<E: de::Error>(self) -> Result<Self, E> {
        if self.depth == MOST_DEPTH {
            return Err(self.budget.refuse(Refused::TooDeep));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        self.budget.take(text.len())?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Value, E> {
        self.budget.take(text.len())?;
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(inside)? {
            self.budget.take(ITEM_BYTES)?;
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.budget.take(name.len() + if map.is_empty() { OBJECT_BYTES } else { MEMBER_BYTES * 2 })?;
            if map.contains_key(&name) {
                return Err(self.budget.refuse(Refused::Duplicate));
            }
            map.insert(name, members.next_value_seed(inside)?);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn refused(text: &str) -> Option<Refused> {
        read(text.as_bytes()).unwrap_err().1
    }

    #[test]
    fn two_members_of_one_name_are_refused() {
        assert_eq!(refused(r#"{"a":1,"a":1}"#), Some(Refused::Duplicate));
        assert_eq!(refused(r#"[{"b":{"a":1,"\u0061":2}}]"#), Some(Refused::Duplicate), "as people read it");
        assert!(read(br#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn what_is_nested_too_deeply_is_refused() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(read(nested(MOST_DEPTH).as_bytes()).is_ok());
        assert_eq!(refused(&nested(MOST_DEPTH + 1)), Some(Refused::TooDeep));
        assert_eq!(refused(&r#"{"":"#.repeat(1_000_000)), Some(Refused::TooDeep));
    }

    #[test]
    fn what_becomes_much_more_than_its_text_is_refused() {
        const TIMES: usize = 1_000_000;
        for piece in [r#"{"":0}"#, "{}", "[]", "0", "[[0]]", r#""""#] {
            let text = format!("[{piece}{}]", format!(",{piece}").repeat(TIMES));
            assert_eq!(refused(&text), Some(Refused::TooMuch), "{piece}");
        }
        let members: Vec<_> = (0..TIMES).map(|number| format!("\"{number}\":0")).collect();
        assert_eq!(refused(&format!("{{{}}}", members.join(","))), Some(Refused::TooMuch));
    }

    #[test]
    fn what_a_request_may_ask_for_is_read() {
        let many: Vec<_> = (0..10_000).map(|number| format!("\"user{number}@example.org\"")).collect();
        let file = r#"{"filename":"a.txt","content":"SGk=","content_type":"text/plain","content_id":"a"}"#;
        let files = vec![file; 500];
        let text = format!(r#"{{"to":[{}],"attachments":[{}]}}"#, many.join(","), files.join(","));
        assert_eq!(read(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_was_written(value in value()) {
            let text = serde_json::to_vec(&value).unwrap();
            prop_assert_eq!(read(&text).ok(), serde_json::from_slice(&text).ok());
        }
    }
}
