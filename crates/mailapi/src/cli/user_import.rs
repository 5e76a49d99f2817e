//! `mailapi user import`.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read};

use clap::Args;
use csv::ByteRecord;
use mailapi_model::{EmailAddress, OneLine, PasswordRule, Violations};
use mailapi_service::Service;
use mailapi_service::auth::{ImportedHash, NewCredential};
use mailapi_service::users::{CreateUser, UserError};

use super::input_file::InputFile;
use super::output::print_if_open;
use super::{caller, print};
use crate::failure::{Failure, Outcome};
use crate::terminal_text::is_command;

#[derive(Debug, Args)]
pub(super) struct Import {
    /// A CSV file whose first line names the columns: email, name, quota_bytes, and password or password_hash
    file: InputFile,
    /// Check every line, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Longer lines are refused: every field is much shorter.
const MAX_LINE: usize = 64 * 1024;

pub(super) async fn run(arguments: Import, service: &Service) -> Outcome {
    let Import { file, dry_run } = arguments;
    let failed = |error: io::Error| in_file(&file, &error);
    let mut lines = Lines::new(BufReader::new(file.reader().map_err(failed)?));
    let header = lines.next().map_err(failed)?.ok_or_else(|| in_file(&file, &"the file is empty"))?;
    let columns = header.and_then(|header| Columns::read(&header)).map_err(|error| in_file(&file, &error))?;
    let mut summary = Summary { is_dry: dry_run, ..Summary::default() };
    let mut seen = HashSet::new();
    while let Some(line) = lines.next().map_err(failed)? {
        if line.as_deref().is_ok_and(str::is_empty) {
            continue;
        }
        let outcome = match line.and_then(|line| columns.user(&line)) {
            // The second line of an address would find the user of the first.
            Ok(new) if dry_run && !seen.insert(new.email.clone()) => (Some(new.email), Done::Skipped),
            Ok(new) => (Some(new.email.clone()), create(service, new, dry_run).await),
            Err(reason) => (None, Done::Failed(reason)),
        };
        if !print_if_open(&summary.line(lines.number, outcome))? {
            return Ok(());
        }
    }
    print(&summary.text())?;
    match summary.failed {
        0 => Ok(()),
        failed => Err(Failure::new(format!("{}: {failed} of the lines failed", file.display()))),
    }
}

fn in_file(file: &InputFile, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {error}", file.display()))
}

async fn create(service: &Service, new: CreateUser, dry_run: bool) -> Done {
    let outcome = match dry_run {
        true => service.check_new_user(&caller(), &new.email).await,
        false => service.create_user(&caller(), new).await.map(drop),
    };
    match outcome {
        Ok(()) => Done::Created,
        Err(UserError::Exists) => Done::Skipped,
        Err(error) => Done::Failed(error.to_string()),
    }
}

/// What became of a line.
enum Done {
    Created,
    Skipped,
    Failed(String),
}

#[derive(Default)]
struct Summary {
    is_dry: bool,
    created: u64,
    skipped: u64,
    failed: u64,
}

impl Summary {
    /// Counts a line, and reports it.
    fn line(&mut self, number: u64, (email, done): (Option<EmailAddress>, Done)) -> String {
        let about = email.map(|email| format!("{}: ", email.shown())).unwrap_or_default();
        let what = match done {
            Done::Created => {
                self.created += 1;
                if self.is_dry { "can be created".to_owned() } else { "created".to_owned() }
            }
            Done::Skipped => {
                self.skipped += 1;
                "skipped: the user already exists".to_owned()
            }
            Done::Failed(reason) => {
                self.failed += 1;
                format!("failed: {reason}")
            }
        };
        format!("line {number}: {about}{what}\n")
    }

    fn text(&self) -> String {
        let Self { is_dry, created, skipped, failed } = self;
        let (what, end) = if *is_dry { ("can be created", "; nothing was written") } else { ("created", "") };
        format!("{created} {what}, {skipped} skipped, {failed} failed{end}\n")
    }
}

/// The lines of a file. A field cannot contain a line break, so a quotation mark that was forgotten spoils one line.
pub(super) struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// Returns the number of the last line.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next line, or says what is wrong with it; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<String, String>>> {
        let mut bytes = Vec::new();
        let length = (&mut self.input).take(MAX_LINE as u64).read_until(b'\n', &mut bytes)?;
        if length == 0 {
            return Ok(None);
        }
        self.number += 1;
        if length == MAX_LINE && !bytes.ends_with(b"\n") {
            self.input.skip_until(b'\n')?;
            return Ok(Some(Err("the line is too long".to_owned())));
        }
        // Spreadsheets write a mark of the encoding before the first line.
        let bytes = if self.number == 1 { bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes) } else { &bytes };
        let text = std::str::from_utf8(bytes).map_err(|_| "the line is not UTF-8".to_owned());
        Ok(Some(text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned())))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Email,
    Name,
    Password,
    PasswordHash,
    QuotaBytes,
}

impl Column {
    const ALL: [(Self, &str); 5] = [
        (Self::Email, "email"),
        (Self::Name, "name"),
        (Self::Password, "password"),
        (Self::PasswordHash, "password_hash"),
        (Self::QuotaBytes, "quota_bytes"),
    ];
}

/// The columns, in the order of the file.
#[derive(Debug)]
struct Columns(Vec<Column>);

impl Columns {
    fn read(header: &str) -> Result<Self, String> {
        let mut columns = Vec::new();
        for name in fields(header)? {
            let name = name.trim();
            let known = Column::ALL.iter().find(|(_, known)| *known == name).map(|(column, _)| *column);
            let column = known.ok_or_else(|| {
                format!(
                    "line 1: unknown column `{}`; the columns are {}",
                    shown(name),
                    Column::ALL.map(|(_, name)| name).join(", ")
                )
            })?;
            if columns.contains(&column) {
                return Err(format!("line 1: the column `{name}` occurs twice"));
            }
            columns.push(column);
        }
        if !columns.contains(&Column::Email) {
            return Err("line 1: the column `email` is missing".to_owned());
        }
        if !columns.contains(&Column::Password) && !columns.contains(&Column::PasswordHash) {
            return Err("line 1: the column `password_hash` or `password` is missing".to_owned());
        }
        Ok(Self(columns))
    }

    /// Reads a user; an empty field counts as absent.
    fn user(&self, line: &str) -> Result<CreateUser, String> {
        let fields = fields(line)?;
        if fields.len() != self.0.len() {
            return Err(format!("there are {} fields instead of {}", fields.len(), self.0.len()));
        }
        let field = |column| {
            let place = self.0.iter().position(|known| *known == column);
            place.and_then(|place| fields.get(place)).filter(|text| !text.is_empty()).cloned()
        };
        let mut violations = Violations::none();
        let email = field(Column::Email).unwrap_or_default();
        let email = violations.check("email", email.trim().parse::<EmailAddress>());
        let password = field(Column::Password).map(|text| PasswordRule::parse("password", text));
        let password = password.and_then(|password| violations.merge(password));
        let hash = field(Column::PasswordHash).map(|text| ImportedHash::parse("password_hash", text));
        let hash = hash.and_then(|hash| violations.merge(hash));
        let name = violations.merge(OneLine::parse("name", &field(Column::Name).unwrap_or_default()));
        let quota = field(Column::QuotaBytes).map(|text| text.trim().parse::<u64>());
        let quota_bytes = quota.and_then(|quota| violations.check("quota_bytes", quota));
        // An invalid field is reported as invalid, not as missing.
        let credential =
            if violations.is_empty() { violations.merge(NewCredential::one_of(password, hash)) } else { None };
        let all = email.zip(name).zip(credential);
        let ((email, name), password) = violations.or(all).map_err(|violations| violations.to_string())?;
        Ok(CreateUser { email, password, name, quota_bytes })
    }
}

/// Reads the fields of one line.
pub(super) fn fields(line: &str) -> Result<Vec<String>, String> {
    if !line.matches('"').count().is_multiple_of(2) {
        return Err("a quotation mark is missing".to_owned());
    }
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(line.as_bytes());
    let mut record = ByteRecord::new();
    reader.read_byte_record(&mut record).map_err(|error| error.to_string())?;
    Ok(record.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect())
}

/// Shortens a name of a column for a message.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !is_command(*c)).take(40).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "email,name,password_hash,password,quota_bytes";

    fn columns() -> Columns {
        Columns::read(HEADER).unwrap()
    }

    #[test]
    fn a_header_without_the_needed_columns_is_refused() {
        for (header, expected) in [
            ("", "`email` is missing"),
            ("email", "`password_hash` or `password` is missing"),
            ("password,name", "`email` is missing"),
            ("email;password", "unknown column `email;password`"),
            ("email,password,email", "`email` occurs twice"),
            ("email,\"password", "a quotation mark is missing"),
        ] {
            let error = Columns::read(header).unwrap_err();
            assert!(error.contains(expected), "{header}: {error}");
        }
    }

    #[test]
    fn a_wrong_line_is_explained_without_its_secrets() {
        for (line, expected) in [
            ("ann@example.org", "there are 1 fields instead of 5"),
            ("ann@example.org,Ann,,hidden12", "there are 4 fields instead of 5"),
            ("ann@example.org,Ann,,,", "password: is required"),
            ("ann@example.org,Ann,,hidden,", "password: must have at least 8"),
            ("ann@example.org,Ann,{MD5}hidden,,", "password_hash: must be a hash of the scheme"),
            ("ann,Ann,,hidden12,many", "email: "),
            ("ann@example.org,Ann,,hidden12,many", "quota_bytes: "),
            ("ann@example.org,\"Ann,,hidden12,", "a quotation mark is missing"),
        ] {
            let error = columns().user(line).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hidden"), "{line}: {error}");
        }
    }

    #[test]
    fn quoted_fields_are_read() {
        let user = columns().user("\"ann@example.org\",\"Lee, \"\"Ann\"\"\",,\"pass,word\",7").unwrap();
        assert_eq!(
            (user.email.as_str(), user.name.as_str(), user.quota_bytes),
            ("ann@example.org", "Lee, \"Ann\"", Some(7))
        );
        assert!(matches!(user.password, NewCredential::Password(password) if password.expose() == "pass,word"));
    }

    #[test]
    fn a_line_that_is_too_long_does_not_spoil_the_next_one() {
        let text = format!("\u{feff}email\r\n{}\n\u{e9}\n", "x".repeat(3 * MAX_LINE));
        let mut lines = Lines::new([text.as_bytes(), b"\xff"].concat().leak() as &[u8]);
        let mut read = || lines.next().unwrap();
        assert_eq!(read(), Some(Ok("email".to_owned())));
        assert_eq!(read(), Some(Err("the line is too long".to_owned())));
        assert_eq!(read(), Some(Ok("\u{e9}".to_owned())));
        assert_eq!(read(), Some(Err("the line is not UTF-8".to_owned())));
        assert_eq!(read(), None);
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(line in "(,|\"|[a-z@.]{1,6}|[0-9]{1,21}|\\PC){0,16}") {
            let _ = Columns::read(&line);
            let _ = columns().user(&line);
        }

        #[test]
        fn every_written_line_comes_back(name in "[^\\x00-\\x1f\\x7f-\\x9f]{0,20}", password in "[ -~]{8,20}") {
            let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
            let line = format!("ann@example.org,{},,{},", quoted(&name), quoted(&password));
            let user = columns().user(&line).unwrap();
            prop_assert_eq!(Ok(user.name), OneLine::parse("name", &name));
            prop_assert!(matches!(user.password, NewCredential::Password(read) if *read.expose() == password));
        }
    }
}
