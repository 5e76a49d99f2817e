//! The results of the checks of received mail, in the words of RFC 8601.

use mailapi_model::{Authentication, AuthenticationResult, CheckedDomain, CheckedSignature};
use serde::{Deserialize, Serialize};

/// The shape of the results. Each result is an object, so that it may get more members.
#[derive(Serialize, Deserialize)]
pub(crate) struct Results {
    spf: OfDomain,
    dkim: Vec<OfSignature>,
    dmarc: OfDomain,
    arc: OfChain,
}

#[derive(Serialize, Deserialize)]
struct OfDomain {
    result: String,
    domain: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct OfSignature {
    result: String,
    domain: Option<String>,
    selector: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct OfChain {
    result: String,
}

impl Results {
    pub(crate) fn of(authentication: &Authentication) -> Self {
        let Authentication { spf, dkim, dmarc, arc } = authentication.clone();
        let text = |result: AuthenticationResult| result.as_str().to_owned();
        let of_domain = |one: CheckedDomain| OfDomain { result: text(one.result), domain: one.domain };
        let signature = |one: CheckedSignature| OfSignature {
            result: text(one.result),
            domain: one.domain,
            selector: one.selector,
        };
        Self {
            spf: of_domain(spf),
            dkim: dkim.into_iter().map(signature).collect(),
            dmarc: of_domain(dmarc),
            arc: OfChain { result: text(arc) },
        }
    }

    fn parsed(self) -> Option<Authentication> {
        let of_domain = |one: OfDomain| Some(CheckedDomain { result: one.result.parse().ok()?, domain: one.domain });
        let signature = |one: OfSignature| {
            let OfSignature { result, domain, selector } = one;
            Some(CheckedSignature { result: result.parse().ok()?, domain, selector })
        };
        Some(Authentication {
            spf: of_domain(self.spf)?,
            dkim: self.dkim.into_iter().map(signature).collect::<Option<_>>()?,
            dmarc: of_domain(self.dmarc)?,
            arc: self.arc.result.parse().ok()?,
        })
    }
}

/// Returns the results as the JSON text that events contain, for storage until the event is composed.
#[must_use]
pub fn authentication_to_json(authentication: &Authentication) -> String {
    serde_json::to_string(&Results::of(authentication)).expect("every member is text or a list of objects")
}

/// Returns the results that [`authentication_to_json`] wrote; `None` if the text is damaged.
#[must_use]
pub fn authentication_from_json(text: &str) -> Option<Authentication> {
    serde_json::from_str::<Results>(text).ok()?.parsed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn authentications() -> impl Strategy<Value = Authentication> {
        let words = ["none", "pass", "fail", "softfail", "neutral", "temperror", "permerror"];
        let result = prop::sample::select(words.map(|word| word.parse::<AuthenticationResult>().unwrap()).to_vec());
        let domain =
            (result.clone(), any::<Option<String>>()).prop_map(|(result, domain)| CheckedDomain { result, domain });
        let signature = (result.clone(), any::<Option<String>>(), any::<Option<String>>())
            .prop_map(|(result, domain, selector)| CheckedSignature { result, domain, selector });
        (domain.clone(), prop::collection::vec(signature, 0..4), domain, result)
            .prop_map(|(spf, dkim, dmarc, arc)| Authentication { spf, dkim, dmarc, arc })
    }

    #[test]
    fn damaged_results_are_none() {
        for text in ["", "null", "{}", r#"{"spf":{"result":"pass","domain":null}}"#] {
            assert_eq!(authentication_from_json(text), None, "{text}");
        }
        let whole = r#"{"spf":{"result":"pass","domain":null},"dkim":[],"dmarc":{"result":"none","domain":null},"arc":{"result":"none"}}"#;
        assert!(authentication_from_json(whole).is_some());
        assert_eq!(authentication_from_json(&whole.replace("pass", "perhaps")), None);
    }

    proptest! {
        #[test]
        fn all_results_can_be_stored(authentication in authentications()) {
            let text = authentication_to_json(&authentication);
            prop_assert_eq!(authentication_from_json(&text), Some(authentication));
        }

        #[test]
        fn any_text_is_read_without_panic(text in "\\PC{0,80}") {
            let _ = authentication_from_json(&text);
        }
    }
}
