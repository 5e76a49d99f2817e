//! The keys of the root zone, with which every proof begins.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use hickory_resolver::proto::dnssec::TrustAnchors;

use crate::DnsSetupError;

/// Public keys of a root zone, at least one. Their text form is DNSKEY records as in a zone file.
#[derive(Clone)]
pub struct RootKeys(Arc<TrustAnchors>);

impl RootKeys {
    pub(crate) fn anchors(&self) -> Arc<TrustAnchors> {
        Arc::clone(&self.0)
    }
}

impl FromStr for RootKeys {
    type Err = DnsSetupError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let keys: TrustAnchors = text.parse().map_err(|error| DnsSetupError::RootKeys(format!("{error}")))?;
        // Without a key, no signature would ever be valid, and mail would leave without DANE.
        if keys.is_empty() {
            return Err(DnsSetupError::RootKeys("there is no DNSKEY record of the root zone".to_owned()));
        }
        Ok(Self(Arc::new(keys)))
    }
}

impl fmt::Debug for RootKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKeys({})", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key that IANA uses since 2018.
    const KEY: &str = "\
; This is a key-signing key, keyid 20326, for .
. 172800 IN DNSKEY 257 3 8 AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3 \
+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5xQlNVz8Og8kv ArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF \
0jLHwVN8efS3rCj/EWgvIWgb9tarpVUDK/b58Da+sqqls3eNbuv7pr+e oZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfd \
RUfhHdY6+cn8HFRm+2hM8AnXGXws9555KrUB5qihylGa8subX2Nn6UwN R1AkUTV74bU=
";

    fn refused(text: &str) -> String {
        text.parse::<RootKeys>().unwrap_err().to_string()
    }

    #[test]
    fn what_has_no_key_of_the_root_is_refused() {
        let without = "cannot read the keys of the root zone: there is no DNSKEY record of the root zone";
        let other = KEY.replace("\n. 172800", "\norg. 172800");
        for text in ["", "\n", "; a comment alone\n", &other] {
            assert_eq!(refused(text), without, "{text}");
        }
        let digest = ". IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D\n";
        for text in ["no keys", ". IN DNSKEY 257 3 8\n", ". IN DNSKEY 257 3 8 ????\n", digest] {
            assert!(refused(text).starts_with("cannot read the keys of the root zone: "), "{text}");
        }
    }

    #[test]
    fn keys_are_read_as_tools_write_them() {
        let count = |text: &str| format!("{:?}", text.parse::<RootKeys>().unwrap());
        assert_eq!(count(KEY), "RootKeys(1)");
        // Of a program that keeps the file up to date, a comment follows each record.
        assert_eq!(count(&KEY.replace("V74bU=", "V74bU= ;{id = 20326 (ksk)} ;;state=2 [  VALID  ]")), "RootKeys(1)");
    }
}
