//! Records in the form of tag lists: DKIM, DMARC, MTA-STS, TLS-RPT (RFC 6376 section 3.2).

/// The tags of a record.
pub(super) struct Tags<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Tags<'a> {
    /// Reads `name=value` pairs between semicolons; skips everything else.
    pub(super) fn of(text: &'a str) -> Self {
        let pairs = text.split(';').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(name, value)| (name.trim(), value.trim())).collect())
    }

    /// The value of a tag.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
    }

    /// Whether the first tag is `v` with this version.
    pub(super) fn has_version(&self, version: &str) -> bool {
        self.0.first() == Some(&("v", version))
    }
}
