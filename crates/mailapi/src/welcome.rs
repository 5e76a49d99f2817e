//! Message after the start: the listeners' addresses and, on the first start, the first steps.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use mailapi_backend_embedded::ListenAddresses;
use mailapi_model::{Entropy, TokenValue};

/// Addresses of the server.
#[derive(Debug)]
pub(crate) struct Addresses {
    /// URL of the HTTP service, without path and final slash.
    pub(crate) base_url: String,
    /// For monitoring.
    pub(crate) metrics: Option<SocketAddr>,
    /// The API over TLS.
    pub(crate) https: Option<SocketAddr>,
    pub(crate) mail: ListenAddresses,
}

/// Additions on the first start.
#[derive(Debug)]
pub(crate) struct FirstStart {
    /// Shown to people here, and nowhere again. JSON logs are kept and copied, so they name only the token's file.
    pub(crate) token: TokenValue,
    /// Shell commands in paragraphs, each with its title.
    steps: [(&'static str, String); 4],
}

impl Addresses {
    /// Returns the base of all URLs: the configured one, or the address of the API's listener.
    pub(crate) fn base_url(public_url: Option<&str>, http: SocketAddr) -> String {
        public_url.map_or_else(|| format!("http://{}", reachable(http)), |url| url.trim_end_matches('/').to_owned())
    }

    fn api(&self) -> String {
        format!("{}/api/v1", self.base_url)
    }

    fn docs(&self) -> String {
        format!("{}/docs", self.base_url)
    }

    fn console(&self) -> String {
        format!("{}/console", self.base_url)
    }

    /// Formats the message for a terminal.
    pub(crate) fn human(&self, first: Option<&FirstStart>, token_file: &Path) -> String {
        let listener = |address: Option<SocketAddr>| address.map_or_else(|| "off".to_owned(), |at| at.to_string());
        let mut text = format!(
            "mailapi {version} is running\n  API         {}\n  docs        {}\n  console     {}\n  SMTP        {}\n  submission  {}\n  IMAP        {}\n",
            self.api(),
            self.docs(),
            self.console(),
            listener(self.mail.smtp),
            listener(self.mail.submission),
            listener(self.mail.imap),
            version = env!("CARGO_PKG_VERSION"),
        );
        for (name, address) in
            [("HTTPS", self.https), ("submissions", self.mail.submissions), ("IMAPS", self.mail.imaps)]
        {
            if let Some(address) = address {
                text.push_str(&format!("  {name:<12}{address}\n"));
            }
        }
        if let Some(metrics) = self.metrics {
            text.push_str(&format!("  metrics     http://{metrics}/metrics\n"));
        }
        if let Some(FirstStart { token, steps }) = first {
            let (token, file) = (token.expose(), token_file.display());
            text.push_str(&format!("\nadmin token (shown once, and kept in {file})\n  {token}\n\n"));
            for (title, lines) in steps {
                let lines: String = lines.lines().map(|line| format!("  {line}\n")).collect();
                text.push_str(&format!("{title}\n{lines}\n"));
            }
        }
        text
    }

    /// Logs the message as events; the last one reports that the server is ready.
    pub(crate) fn log(&self, first: Option<&FirstStart>, token_file: &Path) {
        if first.is_some() {
            tracing::info!(admin_token_file = %token_file.display(), "first start");
        }
        let listener = |address: Option<SocketAddr>| address.map(|at| at.to_string());
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            api = self.api(),
            docs = self.docs(),
            console = self.console(),
            https = listener(self.https),
            smtp = listener(self.mail.smtp),
            submission = listener(self.mail.submission),
            submissions = listener(self.mail.submissions),
            imap = listener(self.mail.imap),
            imaps = listener(self.mail.imaps),
            metrics = listener(self.metrics),
            "mailapi is running"
        );
    }
}

impl FirstStart {
    /// Creates the token's message and shell commands that work when they are pasted on this machine. They fit into
    /// 80 columns. Their addresses differ from those in README.md, so that both can be pasted.
    pub(crate) fn new(token: TokenValue, addresses: &Addresses, token_file: &Path, entropy: &dyn Entropy) -> Self {
        let (api, file) = (addresses.api(), shell_word(token_file));
        let prepare = format!(
            "api={api}\n\
             key=$(cat {file})\n\
             call() {{\n\
             \x20 curl -sS --fail-with-body -w '\\n' -H \"X-MAILAPI-TOKEN: $key\" \\\n\
             \x20   -H 'Content-Type: application/json' \"$@\"\n\
             }}"
        );
        let user = |name: &str| {
            let password = random_password(entropy);
            format!(r#"call $api/users -d '{{"email":"{name}@try.test","password":"{password}"}}'"#)
        };
        let create = format!("call $api/domains -d '{{\"domain\":\"try.test\"}}'\n{}\n{}", user("ann"), user("ben"));
        let send = "call $api/mail/send -d '{\"from\":\"ann@try.test\",\"to\":[\"ben@try.test\"],\n\
                    \x20 \"subject\":\"Hello\",\"body\":{\"text\":\"It works.\"}}'";
        let steps = [
            ("to try it, paste into another shell", prepare),
            ("create a domain and two users", create),
            ("send", send.to_owned()),
            ("read the inbox", "call $api/mailbox/ben@try.test/messages".to_owned()),
        ];
        Self { token, steps }
    }
}

/// Replaces the unspecified address by the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from([127, 0, 0, 1]),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Generates letters and digits only, which need no quoting in JSON and in a shell.
fn random_password(entropy: &dyn Entropy) -> String {
    // 32 of 32 letters are used, so every byte gives five bits without a bias: 80 bits.
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 16];
    entropy.fill(&mut bytes);
    bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Zeros;
    impl Entropy for Zeros {
        fn fill(&self, buffer: &mut [u8]) {
            buffer.fill(0);
        }
    }

    fn addresses(http: &str) -> Addresses {
        let base_url = Addresses::base_url(None, http.parse().unwrap());
        let mail = ListenAddresses {
            smtp: "127.0.0.1:2525".parse().ok(),
            imaps: "127.0.0.1:993".parse().ok(),
            ..ListenAddresses::default()
        };
        Addresses { base_url, metrics: None, https: None, mail }
    }

    #[test]
    fn the_url_is_one_that_this_machine_can_reach() {
        assert_eq!(addresses("0.0.0.0:80").api(), "http://127.0.0.1:80/api/v1");
        assert_eq!(addresses("[::]:8080").api(), "http://[::1]:8080/api/v1");
        let public = Addresses::base_url(Some("https://mail.example.org/"), "127.0.0.1:1".parse().unwrap());
        assert_eq!(public, "https://mail.example.org");
    }

    #[test]
    fn the_token_is_shown_once_and_no_line_to_paste_holds_it() {
        let (addresses, file) = (addresses("127.0.0.1:8080"), Path::new("/data/it's here/admin-token"));
        let first = FirstStart::new(TokenValue::from_caller("mapi_secret"), &addresses, file, &Zeros);
        assert!(first.steps.iter().all(|(_, lines)| !lines.contains("mapi_secret")));
        assert!(first.steps[0].1.contains(r"'/data/it'\''s here"));
        let text = addresses.human(Some(&first), file);
        assert_eq!(text.matches("mapi_secret").count(), 1);
        assert!(!addresses.human(None, file).contains("mapi_"));
        assert!(text.contains("SMTP        127.0.0.1:2525") && text.contains("IMAP        off"));
        assert!(text.contains("\n  IMAPS       127.0.0.1:993\n") && !text.contains("HTTPS"), "{text}");
    }

    #[test]
    fn the_first_start_fits_into_80_columns() {
        let (addresses, file) = (addresses("127.0.0.1:8080"), Path::new("/var/lib/mailapi/data/admin-token"));
        let first = FirstStart::new(TokenValue::from_caller("mapi_value"), &addresses, file, &Zeros);
        for line in addresses.human(Some(&first), file).lines() {
            assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
        }
    }
}
