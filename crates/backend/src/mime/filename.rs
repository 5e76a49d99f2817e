//! File names of attachments, as given by their senders. Code that writes one to a file system or a header
//! must sanitise it.

/// Returns the sender's name without control characters; `None` if nothing usable is left.
pub(super) fn as_sent(given: &str, max_characters: usize) -> Option<String> {
    let is_control = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let name: String = given.chars().map(|c| if is_control(c) { ' ' } else { c }).collect();
    // In a path these two mean a folder, so no client could request such a file by name.
    let is_name = !matches!(name.trim(), "" | "." | "..");
    is_name.then(|| shortened(&name, max_characters))
}

/// Shortens a long name but keeps its extension, which identifies the type.
fn shortened(name: &str, max_characters: usize) -> String {
    let count = name.chars().count();
    if count <= max_characters {
        return name.to_owned();
    }
    let extension = name.rfind('.').map(|at| &name[at..]).filter(|ext| ext.len() <= max_characters / 4).unwrap_or("");
    let kept = max_characters.saturating_sub(extension.chars().count());
    name.chars().take(kept).chain(extension.chars()).collect()
}

/// Returns a name for an attachment without one.
pub(super) fn made_up(index: usize, media_type: &str) -> String {
    format!("attachment-{}.{}", index + 1, extension(media_type))
}

/// Returns the usual extension of a media type.
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

/// Appends `.eml` unless the name ends with it.
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
    fn what_is_no_name_is_none() {
        for nothing in ["", " ", ".", "..", "\0\r\n"] {
            assert_eq!(as_sent(nothing, 255), None);
        }
        assert_eq!(as_sent("a\r\nSet-Cookie: x\0.txt", 255).unwrap(), "a  Set-Cookie: x .txt");
    }

    #[test]
    fn a_name_stays_as_it_was_sent() {
        let long = format!("{}.pdf", "a".repeat(251));
        for name in
            [".gitignore", "dir/x.txt", "two  spaces .txt", " a ", "C:\\boot.ini", "photo\u{202e}gpj.exe", &long]
        {
            assert_eq!(as_sent(name, 255).unwrap(), name);
        }
    }

    #[test]
    fn a_long_name_keeps_its_extension() {
        let name = as_sent(&format!("{}.pdf", "é".repeat(500)), 200).unwrap();
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
