//! Names of attachments that a file system, a header and a person can bear.

use super::fields::one_line;

/// The name that a sender gave, made harmless; none when nothing is left of it.
pub(super) fn harmless(given: &str, max_characters: usize) -> Option<String> {
    let visible: String = one_line(given).chars().map(|c| if is_unwanted(c) { '_' } else { c }).collect();
    let name = visible.trim_matches(|c: char| c == ' ' || c == '.');
    if name.is_empty() { None } else { Some(shortened(name, max_characters)) }
}

/// Separators of path names, and the marks that change the direction of what follows: `cod.exe` must not look
/// like `exe.doc`.
fn is_unwanted(c: char) -> bool {
    matches!(c, '/' | '\\' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The extension says what the file is: a long name loses its middle.
fn shortened(name: &str, max_characters: usize) -> String {
    let count = name.chars().count();
    if count <= max_characters {
        return name.to_owned();
    }
    let extension = name.rfind('.').map(|at| &name[at..]).filter(|ext| ext.len() <= max_characters / 4).unwrap_or("");
    let kept = max_characters.saturating_sub(extension.chars().count());
    name.chars().take(kept).chain(extension.chars()).collect()
}

/// A name for an attachment that has none.
pub(super) fn made_up(index: usize, media_type: &str) -> String {
    format!("attachment-{}.{}", index + 1, extension(media_type))
}

/// The usual extension of a media type.
fn extension(media_type: &str) -> &'static str {
    match media_type {
        "application/gzip" => "gz",
        "application/json" => "json",
        "application/msword" => "doc",
        "application/pdf" => "pdf",
        "application/pgp-signature" => "asc",
        "application/pkcs7-mime" => "p7m",
        "application/pkcs7-signature" | "application/x-pkcs7-signature" => "p7s",
        "application/rtf" | "text/rtf" => "rtf",
        "application/vnd.ms-excel" => "xls",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation" => "pptx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/xml" | "text/xml" => "xml",
        "application/zip" => "zip",
        "audio/mpeg" => "mp3",
        "image/gif" => "gif",
        "image/jpeg" => "jpg",
        "image/png" => "png",
        "image/svg+xml" => "svg",
        "image/tiff" => "tiff",
        "image/webp" => "webp",
        "message/rfc822" | "message/global" => "eml",
        "text/calendar" => "ics",
        "text/css" => "css",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/vcard" => "vcf",
        "video/mp4" => "mp4",
        _ if media_type.starts_with("text/") || media_type.starts_with("message/") => "txt",
        _ => "bin",
    }
}

/// The name with `.eml` at its end.
pub(super) fn as_eml(name: &str, max_characters: usize) -> String {
    const EML: &str = ".eml";
    if name.to_ascii_lowercase().ends_with(EML) {
        return name.to_owned();
    }
    let stem: String = name.chars().take(max_characters.saturating_sub(EML.len())).collect();
    format!("{stem}{EML}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_do_harm_lose_their_teeth() {
        assert_eq!(harmless("../../etc/passwd", 200).unwrap(), "_.._etc_passwd");
        assert_eq!(harmless("C:\\boot.ini", 200).unwrap(), "C:_boot.ini");
        assert_eq!(harmless("a\r\nSet-Cookie: x\0.txt", 200).unwrap(), "a Set-Cookie: x .txt");
        assert_eq!(harmless("photo\u{202e}gpj.exe", 200).unwrap(), "photo_gpj.exe");
        for nothing in ["", " ", ".", "..", "\0\r\n"] {
            assert_eq!(harmless(nothing, 200), None);
        }
    }

    #[test]
    fn a_long_name_keeps_its_extension() {
        let name = harmless(&format!("{}.pdf", "é".repeat(500)), 200).unwrap();
        assert_eq!(name.chars().count(), 200);
        assert!(name.ends_with("é.pdf"));
    }

    #[test]
    fn a_missing_name_is_made_up_from_position_and_type() {
        assert_eq!(made_up(0, "image/jpeg"), "attachment-1.jpg");
        assert_eq!(made_up(9, "application/x-unheard-of"), "attachment-10.bin");
        assert_eq!(as_eml("Re: plan", 200), "Re: plan.eml");
        assert_eq!(as_eml("old.EML", 200), "old.EML");
    }
}
