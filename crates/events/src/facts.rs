//! The members of an event's data as names and texts, for people.

use serde_json::Value;

/// Returns the members of `data` in the body of an event: `recipient.email`, `smtp.code`. Members without a value are
/// left out; those of a list have their number, from 0.
#[must_use]
pub fn event_facts(body: &str) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    if let Ok(Value::Object(mut members)) = serde_json::from_str(body)
        && let Some(data) = members.remove("data")
    {
        add("", &data, &mut facts);
    }
    facts
}

fn add(name: &str, value: &Value, facts: &mut Vec<(String, String)>) {
    let below = |member: &str| if name.is_empty() { member.to_owned() } else { format!("{name}.{member}") };
    match value {
        Value::Object(members) => members.iter().for_each(|(member, value)| add(&below(member), value, facts)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(place, value)| add(&below(&place.to_string()), value, facts));
        }
        Value::Null => {}
        Value::String(text) => facts.push((name.to_owned(), text.clone())),
        Value::Bool(_) | Value::Number(_) => facts.push((name.to_owned(), value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn members_are_named_by_their_place() {
        let body = r#"{"id":"evt_1","data":{"recipient":{"email":"a@b.example","final":null},"tags":["x"],"size":7}}"#;
        let shown: Vec<_> = event_facts(body).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(shown, ["recipient.email=a@b.example", "size=7", "tags.0=x"]);
    }

    proptest! {
        #[test]
        fn any_text_has_facts_or_none(body: String) {
            let _ = event_facts(&body);
        }
    }
}
