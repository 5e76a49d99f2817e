//! The final form of the document: members of examples in the order of their schemas, and descriptions without the line
//! ends of the source, which Swagger UI would show.
//!
//! `serde_json` sorts members by name, which would show `attachments` before `from` and `to`. Its option to keep their
//! order would more than double the size of every JSON value in memory, requests included.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A JSON value that keeps the order of its members.
#[derive(Clone)]
pub(super) enum Ordered {
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    Plain(Value),
}

/// Reads a document and brings it into its final form; `None` if it is not JSON.
pub(super) fn finish(document: &str) -> Option<Ordered> {
    let original: Ordered = serde_json::from_str(document).ok()?;
    let mut ordered = original.clone();
    order_examples(&mut ordered, &original);
    join_lines(&mut ordered);
    Some(ordered)
}

/// Joins the lines of each paragraph of each description.
fn join_lines(value: &mut Ordered) {
    match value {
        Ordered::Object(members) => {
            for (name, member) in members {
                if let ("description", Ordered::Plain(Value::String(text))) = (name.as_str(), &mut *member) {
                    let paragraphs: Vec<_> = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect();
                    *text = paragraphs.join("\n\n");
                }
                join_lines(member);
            }
        }
        Ordered::Array(items) => items.iter_mut().for_each(join_lines),
        Ordered::Plain(_) => {}
    }
}

fn order_examples(value: &mut Ordered, document: &Ordered) {
    let schema = match value {
        // A media type has its schema in a member; a schema has its examples itself.
        Ordered::Object(_) => value.get("schema").or_else(|| value.is_schema().then_some(&*value)).cloned(),
        Ordered::Array(items) => return items.iter_mut().for_each(|item| order_examples(item, document)),
        Ordered::Plain(_) => return,
    };
    let Ordered::Object(members) = value else { return };
    for (name, member) in members {
        match (name.as_str(), &schema) {
            ("example", Some(schema)) => order(member, schema, document),
            // A list in a schema, and a map by name in a media type.
            ("examples", Some(schema)) => match member {
                Ordered::Array(examples) => examples.iter_mut().for_each(|example| order(example, schema, document)),
                Ordered::Object(examples) => {
                    for (_, example) in examples {
                        if let Some(value) = example.get_mut("value") {
                            order(value, schema, document);
                        }
                    }
                }
                Ordered::Plain(_) => {}
            },
            _ => order_examples(member, document),
        }
    }
}

/// Sorts the members of `example` as `schema` lists them.
fn order(example: &mut Ordered, schema: &Ordered, document: &Ordered) {
    match example {
        Ordered::Object(members) => {
            let properties = properties(schema, document);
            let place = |name: &str| properties.iter().position(|(known, _)| known == name).unwrap_or(usize::MAX);
            members.sort_by_key(|(name, _)| place(name));
            for (name, member) in members {
                if let Some((_, schema)) = properties.get(place(name)) {
                    order(member, schema, document);
                }
            }
        }
        Ordered::Array(items) => {
            if let Some(schema) = resolve(schema, document).get("items") {
                items.iter_mut().for_each(|item| order(item, schema, document));
            }
        }
        Ordered::Plain(_) => {}
    }
}

/// The properties of a schema and of its parts.
fn properties(schema: &Ordered, document: &Ordered) -> Vec<(String, Ordered)> {
    let schema = resolve(schema, document);
    let mut all = match schema.get("properties") {
        Some(Ordered::Object(properties)) => properties.clone(),
        _ => Vec::new(),
    };
    if let Some(Ordered::Array(parts)) = schema.get("allOf") {
        all.extend(parts.iter().flat_map(|part| properties(part, document)));
    }
    all
}

fn resolve<'a>(schema: &'a Ordered, document: &'a Ordered) -> &'a Ordered {
    let Some(Ordered::Plain(Value::String(reference))) = schema.get("$ref") else { return schema };
    let target = reference.trim_start_matches("#/").split('/').try_fold(document, Ordered::get);
    target.map_or(schema, |target| resolve(target, document))
}

impl Ordered {
    fn get(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn get_mut(&mut self, name: &str) -> Option<&mut Self> {
        let Self::Object(members) = self else { return None };
        members.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    fn is_schema(&self) -> bool {
        self.get("properties").or_else(|| self.get("allOf")).is_some()
    }
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(members) => serializer.collect_map(members.iter().map(|(name, value)| (name, value))),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Plain(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Ordered;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Ordered::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Ordered, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Ordered::Array(items))
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Ordered, E> {
        Ok(Ordered::Plain(value.into()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Ordered, E> {
        Ok(Ordered::Plain(Value::Null))
    }
}
