//! Dovecot's list of UIDs.

use std::collections::HashMap;

/// The UIDs of a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct UidList {
    /// UIDVALIDITY.
    pub(super) validity: Option<u32>,
    /// The UID of the next message.
    pub(super) next: Option<u32>,
    /// By the unique part of the file name.
    pub(super) uids: HashMap<String, u32>,
}

impl UidList {
    /// Reads versions 1 and 3 of the format; any other text is an empty list.
    pub(super) fn read(text: &str) -> Self {
        let mut lines = text.lines();
        let mut header = lines.next().unwrap_or_default().split(' ');
        let version = header.next().unwrap_or_default();
        let (validity, next) = match version {
            "1" => (header.next().map(str::to_owned), header.next().map(str::to_owned)),
            "3" => {
                let fields: Vec<_> = header.collect();
                let field = |letter| fields.iter().find_map(|field| field.strip_prefix(letter)).map(str::to_owned);
                (field('V'), field('N'))
            }
            _ => return Self::default(),
        };
        let number = |text: Option<String>| text.and_then(|text| text.parse().ok()).filter(|number| *number > 0);
        let uids = lines.filter_map(|line| entry(version, line)).collect();
        Self { validity: number(validity), next: number(next), uids }
    }

    /// Returns the header of version 3.
    pub(super) fn header(validity: u32, next: u32) -> String {
        format!("3 V{validity} N{next}\n")
    }
}

fn entry(version: &str, line: &str) -> Option<(String, u32)> {
    let (uid, rest) = line.split_once(' ')?;
    // Version 3 has further fields between the UID and the file name.
    let file = if version == "3" {
        rest.strip_prefix(':').or_else(|| rest.split_once(" :").map(|(_, file)| file))?
    } else {
        rest
    };
    let uid = uid.parse().ok().filter(|uid| *uid > 0)?;
    Some((unique_part(file).to_owned(), uid))
}

/// Returns the part of a file name that identifies the message: without sizes and flags.
pub(super) fn unique_part(file: &str) -> &str {
    file.split([',', ':']).next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn both_versions_are_read() {
        let third = "3 V1275660208 N25022 G3085f01b7f11094c501100008c4a11c1\n\
            25006 :1276528487.M364837P9451.kurkku,S=1355,W=1394:2,\n25017 W2481 G7 :1276533073.M242911P3632.kurkku:2,F\nx\n";
        let list = UidList::read(third);
        assert_eq!((list.validity, list.next), (Some(1_275_660_208), Some(25_022)));
        assert_eq!(list.uids.get("1276528487.M364837P9451.kurkku"), Some(&25_006));
        assert_eq!(list.uids.get("1276533073.M242911P3632.kurkku"), Some(&25_017));
        let first = UidList::read("1 77 3\n1 one:2,S\n2 two\n");
        assert_eq!((first.validity, first.next, first.uids.len()), (Some(77), Some(3), 2));
        assert_eq!(UidList::read("2 x"), UidList::default());
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "([13] |V|N|:|,|[0-9]{1,11}|\\PC|\n){0,40}") {
            let list = UidList::read(&text);
            prop_assert!(list.uids.values().all(|uid| *uid > 0) && list.validity != Some(0));
        }
    }
}
