//! Key records that verify mail (RFC 6376 section 3.6.1). mail-auth 0.13.3 accepts keys of other services and lists of
//! tags that are not valid.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::tag_list::{tags, trimmed};

/// Number of octets of an Ed25519 key (RFC 8463 section 4).
const ED25519_OCTETS: usize = 32;

/// Returns whether a key may verify the signatures of messages. A revoked key may: it makes them invalid.
pub(super) fn is_for_mail(text: &str) -> bool {
    let Some(tags) = tags(text) else { return false };
    let value = |name: &str| tags.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let lists = |name: &str, wanted: &[&str]| {
        value(name).is_none_or(|list| list.split(':').any(|one| wanted.contains(&trimmed(one))))
    };
    // The version must come first, but common verifiers accept it elsewhere too.
    let has_version = value("v").is_none_or(|version| version == "DKIM1");
    let is_ed25519 = value("k") == Some("ed25519");
    has_version
        && (is_ed25519 || value("k").is_none_or(|kind| kind == "rsa"))
        && lists("h", &["sha256"])
        && lists("s", &["*", "email"])
        && (!is_ed25519 || value("p").is_some_and(|key| key.is_empty() || has_octets(key, ED25519_OCTETS)))
}

fn has_octets(encoded: &str, count: usize) -> bool {
    let encoded: String = encoded.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    STANDARD.decode(encoded).is_ok_and(|octets| octets.len() == count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RAW: &str = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";

    #[test]
    fn keys_that_are_not_for_mail_are_left_out() {
        let der = "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        for text in [
            "",
            ";",
            "v=spf1 -all",
            "v=dkim1; p=AAAA",
            "v=DKIM1; k=RSA; p=AAAA",
            "v=DKIM1;; p=AAAA",
            "v=DKIM1; p=AAAA; p=AAAA",
            "v=DKIM1; s=chat; p=AAAA",
            "v=DKIM1; s=tlsrpt:other; p=AAAA",
            "v=DKIM1; h=sha1; p=AAAA",
            "v=DKIM1; k=x25519; p=AAAA",
            "v=DKIM1; moo; p=AAAA",
            &format!("v=DKIM1; k=ed25519; p={der}"),
            "v=DKIM1; k=ed25519",
        ] {
            assert!(!is_for_mail(text), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_record_is_read(text in "(v=DKIM1)?([;=: \t]|[vkphs]|rsa|ed25519|sha256|\\PC){0,24}") {
            let _ = is_for_mail(&text);
        }
    }

    #[test]
    fn keys_for_mail_are_kept() {
        for text in [
            "p=AAAA",
            "p=AAAA; v=DKIM1",
            "v=DKIM1; p=",
            " v = DKIM1 ; k = rsa ; p = AA AA ; ",
            "v=DKIM1; s=chat:email; h=sha1 : sha256; t=y:s; p=AAAA",
            "v=DKIM1; s=*; n=note; p=AAAA",
            &format!("v=DKIM1; k=ed25519; p={RAW}"),
            "v=DKIM1; k=ed25519; p=",
            "n=a=b; p=AAAA",
        ] {
            assert!(is_for_mail(text), "{text}");
        }
    }
}
