//! The signs, and how much each counts.

/// How much a sign counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; it does not count.
    Note,
    /// Frequent in honest mail.
    Low,
    /// Rare in honest mail.
    Medium,
    /// Next to never in honest mail.
    High,
}

impl Severity {
    /// All severities, the least first.
    pub const ALL: [Self; 4] = [Self::Note, Self::Low, Self::Medium, Self::High];

    /// The name in answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Points of the score. A high sign alone makes a message dangerous, and so do three medium ones.
    #[must_use]
    pub const fn points(self) -> u8 {
        match self {
            Self::Note => 0,
            Self::Low => 5,
            Self::Medium => 30,
            Self::High => 70,
        }
    }
}

macro_rules! signs {
    ($($variant:ident = $code:literal, $severity:ident, $text:literal;)+) => {
        /// A sign of fraud.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum SecuritySign { $(#[doc = $text] $variant,)+ }

        impl SecuritySign {
            /// All signs.
            pub const ALL: [Self; [$($code),+].len()] = [$(Self::$variant),+];

            /// Its code in answers.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)+ }
            }

            /// How much it counts.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity,)+ }
            }

            /// What it means, as a sentence for the reader of the message.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }
        }
    };
}

signs! {
    AuthenticationFailed = "authentication_failed", Medium,
        "The author's domain does not confirm that it sent this message.";
    PaddedMessage = "padded_message", Medium,
        "The message is so large or deep in its structure that part of it is hidden from checks.";
    AmbiguousMessage = "ambiguous_message", Medium,
        "A field stands twice with different values, so that programs show different messages.";
    LookalikeSender = "lookalike_sender", High,
        "The author's domain looks like one of your domains, and is another one.";
    SimilarSender = "similar_sender", Medium,
        "The author's domain differs from one of your domains by a letter or an added word.";
    LookalikeCorrespondent = "lookalike_correspondent", Medium,
        "The author's domain or a link looks like the domain of someone you have written to, and is another one.";
    KnownName = "known_name", Medium,
        "The author has the name of a colleague, and writes from an address elsewhere.";
    NameIsAddress = "name_is_address", Medium,
        "The author's name is an address of another domain than the one that sent the message.";
    ReplyElsewhere = "reply_elsewhere", Low,
        "A reply goes to another domain than that of the author.";
    FirstContact = "first_contact", Note,
        "This mailbox has no other message of this author.";
    LinkShowsOtherHost = "link_shows_other_host", Medium,
        "The text of a link names another site than the one it leads to.";
    LookalikeLink = "lookalike_link", High,
        "A link leads to a site whose name looks like one of your domains or like a name in Latin letters.";
    SimilarLink = "similar_link", Medium,
        "A link leads to a site whose name differs from one of your domains by a letter or an added word.";
    LinkToNumber = "link_to_number", Medium,
        "A link leads to a number instead of the name of a site.";
    LinkNamesUser = "link_names_user", Medium,
        "The beginning of a link looks like a site, and is only a user name.";
    LinkRedirects = "link_redirects", Low,
        "A link contains the address of another site, to which it may lead.";
    LinkRunsCode = "link_runs_code", Medium,
        "A link contains a page or a program instead of leading to one.";
    CodeWithLink = "code_with_link", Medium,
        "A picture contains a code (QR code) that leads to a site.";
    PasswordField = "password_field", High,
        "The message or a file asks for a password in a form.";
    FormInMessage = "form_in_message", Low,
        "The message contains a form that sends what you type.";
    HiddenText = "hidden_text", Low,
        "The message contains text that is not shown.";
    SplitWords = "split_words", Medium,
        "Invisible characters split words of the message.";
    RemoteImages = "remote_images", Note,
        "Images of the message are loaded from other sites, which learn that you read it.";
    ExecutableFile = "executable_file", High,
        "A file is a program.";
    ScriptFile = "script_file", Medium,
        "A file is a script, a shortcut, or settings of a system.";
    HiddenExtension = "hidden_extension", High,
        "The name of a file hides that it is a program.";
    FileIsNotItsName = "file_is_not_its_name", Medium,
        "The bytes of a file are of another kind than its name says.";
    Macros = "macros", Medium,
        "A document contains programs (macros).";
    EncryptedArchive = "encrypted_archive", Medium,
        "An archive is encrypted, so that nothing can look into it.";
    ArchiveInArchive = "archive_in_archive", Low,
        "An archive contains another archive.";
    DiskImage = "disk_image", Medium,
        "A file is the image of a disk, whose files have no marks of their origin.";
    PageBuildsFile = "page_builds_file", High,
        "A page among the files builds a file on your computer.";
    PageRunsCode = "page_runs_code", Medium,
        "A page or drawing among the files contains a program.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_different_and_texts_are_sentences() {
        for (at, sign) in SecuritySign::ALL.into_iter().enumerate() {
            assert!(sign.text().ends_with('.') && sign.text().len() < 120, "{}", sign.code());
            assert!(SecuritySign::ALL[..at].iter().all(|other| other.code() != sign.code()), "{}", sign.code());
        }
    }
}
