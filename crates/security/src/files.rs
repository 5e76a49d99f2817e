//! Attachments: what their bytes are, and what they contain.

use std::collections::BTreeSet;
use std::io;

use aws_lc_rs::digest::{Context, SHA256};
use mailapi_backend::mime::AttachmentPart;
use mailapi_model::Blob;

use crate::bounds::{ARCHIVE_ENTRIES, FILE_BYTES, OPENED_FILES, PAGE_FILE_BYTES, READ_LINKS};
use crate::carried::CarriedMessage;
use crate::codes::CodeReader;
use crate::page::{PageFacts, RawLink, XHTML};
use crate::report::{AnalyzedFile, Findings, shortened};
use crate::sign::SecuritySign;
use crate::uuencoded::EncodedFile;

/// The text of a link in a picture.
const CODE_TEXT: &str = "a code in a picture";
/// Bytes that are decoded at once.
const PIECE: usize = 64 * 1024;

/// Extensions of programs that a double click starts on a usual system.
const PROGRAMS: [&str; 18] = [
    "exe", "scr", "pif", "cpl", "msi", "msp", "msix", "appx", "dll", "jar", "apk", "hta", "wsf", "wsh", "vbs", "vbe",
    "jse", "lnk",
];
/// Extensions of scripts and settings, which developers send to each other as well.
const SCRIPTS: [&str; 12] =
    ["js", "bat", "cmd", "ps1", "psm1", "chm", "xll", "iqy", "application", "url", "scf", "reg"];
/// An extension of programs that also ends names of sites. It counts only behind the extension of a document.
const SITE_OR_PROGRAM: &str = "com";
/// Extensions of disk images.
const DISK_IMAGES: [&str; 6] = ["iso", "img", "vhd", "vhdx", "udf", "dmg"];
const ARCHIVES: [&str; 10] = ["zip", "rar", "7z", "gz", "tgz", "bz2", "xz", "tar", "cab", "ace"];
/// Extensions of pages and drawings in which programs run.
const PAGES: [&str; 6] = ["html", "htm", "shtml", "xhtml", "svg", "mht"];
/// Extensions behind which the names of programs hide.
const HARMLESS: [&str; 14] =
    ["pdf", "doc", "docx", "xls", "xlsx", "ppt", "pptx", "txt", "rtf", "jpg", "jpeg", "png", "gif", "html"];

/// Kinds of files by the extensions that stand for each. Bytes of one kind below the extension of another are a sign.
const KINDS: [&[&str]; 17] = [
    &["pdf"],
    &["jpg", "jpeg", "jpe", "jfif"],
    &["png", "apng"],
    &["gif"],
    &["tif", "tiff"],
    &["bmp"],
    &["webp"],
    &["doc", "xls", "ppt", "msi", "msg", "dot", "xlt", "pps", "vsd", "pub", "mpp"],
    &[
        "zip", "docx", "xlsx", "pptx", "docm", "xlsm", "pptm", "dotx", "xltx", "odt", "ods", "odp", "odg", "epub",
        "jar", "apk", "xpi", "kmz", "vsdx", "pages", "numbers", "key", "whl", "nupkg", "xlsb", "crx", "ipa",
    ],
    &["gz", "tgz", "svgz"],
    &["bz2", "tbz"],
    &["xz", "txz"],
    &["7z"],
    &["rar"],
    &["mp4", "m4a", "m4v", "mov", "heic", "heif", "avif"],
    &["exe", "dll", "scr", "cpl", "sys", "com", "ocx"],
    &["html", "htm", "shtml", "xhtml"],
];

/// Magic numbers of programs, by the extension that `infer` gives them.
const PROGRAM_BYTES: [&str; 5] = ["exe", "dll", "elf", "mach", "dex"];

/// What was found in files.
#[derive(Debug, Default)]
pub(crate) struct ExaminedFiles {
    pub(crate) files: Vec<AnalyzedFile>,
    pub(crate) links: BTreeSet<RawLink>,
}

/// Examines all attachments, those of carried messages, and files in texts.
pub(crate) fn examine(
    messages: &[CarriedMessage],
    encoded_files: Vec<EncodedFile>,
    findings: &mut Findings,
) -> io::Result<ExaminedFiles> {
    let mut examination =
        Examination { found: ExaminedFiles::default(), codes: CodeReader::new(), opened: 0, findings };
    for carried in messages {
        for part in &carried.structure.attachments {
            examination.note_part(carried, part)?;
        }
    }
    for file in encoded_files {
        examination.note_encoded(file);
    }
    Ok(examination.found)
}

/// Files that are examined one by one, within common bounds.
struct Examination<'a> {
    found: ExaminedFiles,
    codes: CodeReader,
    opened: usize,
    findings: &'a mut Findings,
}

impl Examination<'_> {
    fn note_part(&mut self, carried: &CarriedMessage, part: &AttachmentPart) -> io::Result<()> {
        let is_opened = self.opened < OPENED_FILES;
        self.findings.is_partial |= !is_opened;
        // A list of the message's own files is as long as the reader's; what it carries must not multiply it.
        if !is_opened && carried.index.is_some() {
            return Ok(());
        }
        let index = carried.index.unwrap_or(part.info.index);
        let mut file = new_file(index, &part.info.filename, &part.info.content_type);
        let mut look = self.look(&mut file);
        look.note_name();
        if is_opened {
            let opened = OpenedFile::read(&carried.message, part)?;
            look.note_bytes(&opened);
            file.sha256 = Some(opened.sha256);
            self.opened += 1;
        }
        self.findings.is_partial |= is_encrypted_message(&file.declared_type);
        self.found.files.push(file);
        Ok(())
    }

    /// Notes a file in a text. The report lists attachments alone.
    fn note_encoded(&mut self, encoded: EncodedFile) {
        let mut file = new_file(0, &encoded.name, "");
        let mut look = self.look(&mut file);
        look.note_name();
        look.note_bytes(&OpenedFile { sha256: String::new(), bytes: encoded.bytes, is_whole: true });
    }

    fn look<'f>(&'f mut self, file: &'f mut AnalyzedFile) -> FileLook<'f> {
        FileLook { file, findings: self.findings, codes: &mut self.codes, links: &mut self.found.links }
    }
}

fn new_file(index: u32, name: &str, declared_type: &str) -> AnalyzedFile {
    AnalyzedFile {
        index,
        name: name.to_owned(),
        declared_type: declared_type.to_owned(),
        detected_type: None,
        mismatch: false,
        executable: false,
        macros: false,
        encrypted: false,
        sha256: None,
    }
}

/// Returns whether the type is that of an encrypted message (RFC 3156, RFC 8551).
fn is_encrypted_message(media_type: &str) -> bool {
    matches!(media_type, "application/pgp-encrypted" | "application/pkcs7-mime" | "application/x-pkcs7-mime")
}

/// The decoded bytes of an attachment.
struct OpenedFile {
    sha256: String,
    /// The first [`FILE_BYTES`].
    bytes: Vec<u8>,
    is_whole: bool,
}

impl OpenedFile {
    fn read(message: &Blob, part: &AttachmentPart) -> io::Result<Self> {
        let mut decoder = part.span.decoder();
        let (mut digest, mut bytes, mut is_whole) = (Context::new(&SHA256), Vec::new(), true);
        let mut take = |decoded: &mut Vec<u8>| {
            digest.update(decoded);
            let room = FILE_BYTES.saturating_sub(bytes.len());
            is_whole &= decoded.len() <= room;
            bytes.extend_from_slice(&decoded[..decoded.len().min(room)]);
            decoded.clear();
        };
        let mut decoded = Vec::new();
        for piece in part.span.within(message).pieces(PIECE) {
            decoder.push(&piece?, &mut decoded);
            take(&mut decoded);
        }
        decoder.finish(&mut decoded);
        take(&mut decoded);
        let sha256 = digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { sha256, bytes, is_whole })
    }
}

/// A file that is examined, and the signs found.
struct FileLook<'a> {
    file: &'a mut AnalyzedFile,
    findings: &'a mut Findings,
    codes: &'a mut CodeReader,
    /// Links of all files.
    links: &'a mut BTreeSet<RawLink>,
}

impl FileLook<'_> {
    fn note_name(&mut self) {
        let name = self.file.name.clone();
        let extension = extension(&name);
        self.note_program(&name, &name);
        if SCRIPTS.contains(&extension.as_str()) {
            self.findings.add(SecuritySign::ScriptFile, &name);
        }
        if DISK_IMAGES.contains(&extension.as_str()) {
            self.findings.add(SecuritySign::DiskImage, &name);
        }
    }

    /// Notes whether a file, or an entry of an archive, has the name of a program.
    fn note_program(&mut self, name: &str, evidence: &str) {
        if PROGRAMS.contains(&extension(name).as_str()) {
            self.file.executable = true;
            self.findings.add(SecuritySign::ExecutableFile, evidence);
        }
        if hides_its_extension(name) {
            self.findings.add(SecuritySign::HiddenExtension, evidence);
        }
    }

    fn note_bytes(&mut self, opened: &OpenedFile) {
        let name = self.file.name.clone();
        let extension = extension(&name);
        let detected = infer::get(&opened.bytes);
        self.file.detected_type = detected.map(|kind| kind.mime_type().to_owned());
        if let Some(kind) = detected {
            if PROGRAM_BYTES.contains(&kind.extension()) {
                self.file.executable = true;
                self.findings.add(SecuritySign::ExecutableFile, &name);
            }
            if is_other_kind(&extension, kind.extension()) {
                self.file.mismatch = true;
                let evidence = format!("{} is {}", shortened(&name), kind.mime_type());
                self.findings.add(SecuritySign::FileIsNotItsName, evidence);
            }
        }
        if opened.bytes.starts_with(b"PK") {
            self.note_archive(&name, opened);
        }
        if opened.bytes.starts_with(&OLE) && has_ole_macros(&opened.bytes) {
            self.file.macros = true;
            self.findings.add(SecuritySign::Macros, &name);
        }
        let is_page = PAGES.contains(&extension.as_str())
            || matches!(self.file.declared_type.as_str(), "text/html" | "image/svg+xml" | XHTML);
        if is_page {
            self.note_page(&name, opened);
        }
        for url in self.codes.addresses(&opened.bytes) {
            self.findings.add(SecuritySign::CodeWithLink, &url);
            self.add_links([RawLink { url, text: Some(CODE_TEXT.to_owned()) }]);
        }
    }

    fn add_links(&mut self, links: impl IntoIterator<Item = RawLink>) {
        let room = READ_LINKS.saturating_sub(self.links.len());
        self.links.extend(links.into_iter().take(room));
        self.findings.is_partial |= self.links.len() >= READ_LINKS;
    }

    /// Reads the directory of a ZIP archive, as documents of Office are, too.
    fn note_archive(&mut self, name: &str, opened: &OpenedFile) {
        if !opened.is_whole {
            self.findings.is_partial = true;
            return;
        }
        let Ok(archive) = rawzip::ZipArchive::from_slice(opened.bytes.as_slice()) else { return };
        let is_package = matches!(extension(name).as_str(), "jar" | "apk" | "xpi" | "whl" | "nupkg" | "crx" | "ipa");
        let mut entries = archive.entries();
        for _ in 0..ARCHIVE_ENTRIES {
            let Ok(Some(entry)) = entries.next_entry() else { return };
            let path = String::from_utf8_lossy(entry.file_path().as_ref()).into_owned();
            if entry.flags().is_encrypted() {
                self.file.encrypted = true;
                self.findings.add(SecuritySign::EncryptedArchive, name);
            }
            if path.to_ascii_lowercase().ends_with("vbaproject.bin") {
                self.file.macros = true;
                self.findings.add(SecuritySign::Macros, name);
            }
            if !is_package {
                self.note_entry(&path, &format!("{path} in {name}"));
            }
        }
        self.findings.is_partial = true;
    }

    fn note_entry(&mut self, path: &str, evidence: &str) {
        // Scripts are no sign here: archives of source code have them.
        self.note_program(path, evidence);
        if ARCHIVES.contains(&extension(path).as_str()) {
            self.findings.add(SecuritySign::ArchiveInArchive, evidence);
        }
    }

    fn note_page(&mut self, name: &str, opened: &OpenedFile) {
        let read = &opened.bytes[..opened.bytes.len().min(PAGE_FILE_BYTES)];
        self.findings.is_partial |= !opened.is_whole || read.len() < opened.bytes.len();
        let page = PageFacts::of_html(&String::from_utf8_lossy(read));
        if page.asks_for_password {
            self.findings.add(SecuritySign::PasswordField, name);
        }
        let has = |words: &[&str]| words.iter().any(|word| page.scripts.contains(word));
        let decodes = has(&["atob(", "Uint8Array", "fromCharCode", "charCodeAt", "new Blob"]);
        let saves = has(&["createObjectURL", "msSaveOrOpenBlob", "msSaveBlob", ".download"]);
        if decodes && saves {
            self.findings.add(SecuritySign::PageBuildsFile, name);
        } else if page.scripts.chars().any(|c| !c.is_whitespace()) {
            self.findings.add(SecuritySign::PageRunsCode, name);
        }
        self.add_links(page.links);
    }
}

/// The beginning of documents of older Office versions.
const OLE: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];

/// Returns whether a document has the directory entry of a macro project, as UTF-16.
fn has_ole_macros(bytes: &[u8]) -> bool {
    ["_VBA_PROJECT", "VBA_PROJECT_CUR"].iter().any(|name| {
        let name: Vec<u8> = name.encode_utf16().flat_map(u16::to_le_bytes).collect();
        memchr::memmem::find(bytes, &name).is_some()
    })
}

/// Returns the extension of a file in lower case. Systems leave out spaces and dots at the end of a name.
fn extension(name: &str) -> String {
    let name = name.trim_end_matches([' ', '.']);
    name.rsplit(['/', '\\'])
        .next()
        .and_then(|name| name.rsplit_once('.'))
        .map_or("", |(_, extension)| extension)
        .to_lowercase()
}

/// Returns whether the name of a program looks like that of a document.
fn hides_its_extension(name: &str) -> bool {
    let extension_of_name = extension(name);
    let runs = |extension| PROGRAMS.contains(extension) || SCRIPTS.contains(extension) || *extension == SITE_OR_PROGRAM;
    if !runs(&extension_of_name.as_str()) {
        return false;
    }
    let turns_round = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let stem = name.trim_end_matches([' ', '.']).rsplit_once('.').map_or("", |(stem, _)| stem);
    let before = extension(stem);
    name.chars().any(turns_round) || HARMLESS.contains(&before.as_str()) || stem.contains("     ")
}

/// Returns whether the bytes are of another kind than the extension says. An extension of no known kind says nothing.
fn is_other_kind(extension: &str, detected: &str) -> bool {
    let kind_of = |extension: &str| KINDS.iter().position(|kind| kind.contains(&extension));
    match (kind_of(extension), kind_of(detected)) {
        (Some(named), Some(found)) => named != found,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use mailapi_backend::mime::MessageStructure;

    use super::*;
    use crate::carried;

    const PDF: &[u8] = b"%PDF-1.4\n";
    const EXE: &[u8] = b"MZ\x90\0\x03\0\0\0\x04\0\0\0\xff\xff\0\0";

    /// Returns the signs of a file, and the file.
    fn of(name: &str, media_type: &str, bytes: &[u8]) -> (Vec<&'static str>, AnalyzedFile) {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
        let name = name.replace('"', "");
        let encoded_name = format!("=?utf-8?B?{}?=", base64::engine::general_purpose::STANDARD.encode(name));
        let message = format!(
            "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b\r\n\
             Content-Type: {media_type}\r\nContent-Disposition: attachment; filename=\"{encoded_name}\"\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{encoded}\r\n--b--\r\n"
        );
        let message = Blob::from(message);
        let structure = MessageStructure::of_bytes(&message).unwrap();
        let mut findings = Findings::default();
        let messages = carried::all(&message, structure, &mut findings).unwrap();
        let mut files = examine(&messages, Vec::new(), &mut findings).unwrap().files;
        let report = findings.into_report(Default::default(), Default::default(), vec![], vec![], Default::default());
        (report.reasons.iter().map(|reason| reason.sign.code()).collect(), files.remove(0))
    }

    /// Returns a ZIP archive without compression.
    fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut archive = rawzip::ZipArchiveWriter::new(&mut bytes);
        for (name, content) in entries {
            let (mut entry, config) = archive.new_file(name).start().unwrap();
            let mut writer = config.wrap(&mut entry);
            io::Write::write_all(&mut writer, content).unwrap();
            let (_, descriptor) = writer.finish().unwrap();
            entry.finish(descriptor).unwrap();
        }
        archive.finish().unwrap();
        bytes
    }

    #[test]
    fn files_are_known_by_their_bytes() {
        let cases: [(&str, &[u8], &[&str]); 24] = [
            ("a.pdf", PDF, &[]),
            ("a.pdf", EXE, &["executable_file", "file_is_not_its_name"]),
            ("a.exe", EXE, &["executable_file"]),
            ("a.dat", EXE, &["executable_file"]),
            ("a.com", EXE, &["executable_file"]),
            ("About example.com", b"x", &[]),
            ("order.pdf.com", b"x", &["hidden_extension"]),
            ("tea.url", b"x", &["script_file"]),
            ("a.jpg", PDF, &["file_is_not_its_name"]),
            ("a.txt", PDF, &[]),
            ("invoice.pdf.exe", b"x", &["executable_file", "hidden_extension"]),
            ("invoice\u{202e}fdp.exe", b"x", &["executable_file", "hidden_extension"]),
            ("invoice.pdf.exe. ", b"x", &["executable_file", "hidden_extension"]),
            ("invoice.pdf                 .js", b"x", &["hidden_extension", "script_file"]),
            ("fix.patch.js", b"x", &["script_file"]),
            ("a.iso", b"x", &["disk_image"]),
            ("a.zip", &zip(&[("b/setup.exe", b"x")]), &["executable_file"]),
            ("a.zip", &zip(&[("b.txt", b"x"), ("c.js", b"x")]), &[]),
            ("a.zip", &zip(&[("b.zip", b"x")]), &["archive_in_archive"]),
            ("a.docx", &zip(&[("word/document.xml", b"x"), ("word/vbaProject.bin", b"x")]), &["macros"]),
            ("a.html", b"<p>Hi</p>", &[]),
            ("a.svg", b"<svg><script>go()</script></svg>", &["page_runs_code"]),
            ("a.htm", b"<script>u=URL.createObjectURL(new Blob([atob(x)]))</script>", &["page_builds_file"]),
            ("a.html", b"<form><input type=password></form>", &["password_field"]),
        ];
        for (name, bytes, expected) in cases {
            assert_eq!(of(name, "application/octet-stream", bytes).0, expected, "{name}");
        }
    }

    #[test]
    fn files_are_listed_with_what_is_known_of_them() {
        let (_, file) = of("a.pdf", "application/pdf", PDF);
        assert_eq!(
            (file.index, file.name.as_str(), file.detected_type.as_deref()),
            (0, "a.pdf", Some("application/pdf"))
        );
        let digest = aws_lc_rs::digest::digest(&SHA256, PDF);
        let expected: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(file.sha256, Some(expected));
        let mut encrypted = zip(&[("b.txt", b"x")]);
        let directory = encrypted.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
        encrypted[directory + 8] |= 1;
        let (signs, file) = of("a.zip", "application/zip", &encrypted);
        assert_eq!((signs, file.encrypted), (vec!["encrypted_archive"], true));
        let ole = [&OLE[..], &"_VBA_PROJECT".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>()].concat();
        let (signs, file) = of("a.doc", "application/msword", &ole);
        assert_eq!((signs, file.macros), (vec!["macros"], true));
    }

    proptest! {
        #[test]
        fn any_file_is_examined(name in "(a|\\.|exe|pdf|zip| |\u{202e}){0,6}", mut bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..300_usize) {
            let _ = of(&name, "application/zip", &bytes);
            let mut archive = zip(&[("b.zip", &bytes)]);
            archive.truncate(cut);
            bytes.splice(0..0, archive);
            let _ = of(&name, "text/html", &bytes);
        }
    }
}
