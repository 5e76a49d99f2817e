//! Checks the certificate of the listeners.

use mailapi_model::Timestamp;
use mailapi_tls::ServerTls;

use super::finding::Finding;
use crate::config::Config;

const WHAT: &str = "certificate";
/// A certificate is renewed weeks before it expires.
const SOON: i64 = 14 * 24 * 60 * 60;

/// Checks that there is a certificate for this server's names, and that it is valid for some time.
pub(super) fn certificate(config: &Config, now: Timestamp) -> Finding {
    match config.server_tls() {
        Ok(None) if config.is_external() => Finding::unknown(WHAT, "none: TLS is off"),
        Ok(None) => Finding::unknown(WHAT, "none: TLS is off, and mail programs log in from this machine only"),
        Ok(Some(tls)) => of_listeners(config, &tls, now),
        Err(error) => Finding::wrong(WHAT, error, "correct the named setting"),
    }
}

/// Reports a machine that trusts no authority; `None` if it does.
pub(super) fn authorities(are_there: bool) -> Option<Finding> {
    let found = "this machine trusts none; webhooks, certificate orders, MTA-STS policies and other connections that \
                 verify a certificate fail";
    (!are_there)
        .then(|| Finding::noted("CA certificates", found, "install the package ca-certificates and restart mailapi"))
}

fn of_listeners(config: &Config, tls: &ServerTls, now: Timestamp) -> Finding {
    let Some(settings) = config.acme(&config.data_dir) else {
        return dates(config, tls, now, "let the program that renews it run, and read its messages");
    };
    let advice = format!(
        "let {} reach port 443 (http.tls_listen) or 80 of this server, or set a DNS provider; see docs/tls.md",
        settings.directory.trim_start_matches("https://")
    );
    match mailapi_acme::load(&settings, tls) {
        Err(error) => Finding::wrong(WHAT, error, "remove the file; a running server then orders a new one"),
        Ok(Some(failure)) if !tls.is_ready() => Finding::wrong(WHAT, failure.reason, advice),
        Ok(Some(failure)) => {
            let dates = dates(config, tls, now, &advice);
            let noted = format!("the last of {} attempts to renew it failed: {}", failure.count, failure.reason);
            if dates.is_wrong() { dates } else { Finding::noted(WHAT, noted, advice) }
        }
        Ok(None) if !tls.is_ready() => Finding::unknown(WHAT, "not ordered yet; a running server orders it"),
        Ok(None) => dates(config, tls, now, &advice),
    }
}

/// Checks names and dates; `advice` helps if it was not renewed in time.
fn dates(config: &Config, tls: &ServerTls, now: Timestamp, advice: &str) -> Finding {
    let Some(validity) = tls.validity() else { return Finding::unknown(WHAT, "its dates cannot be read") };
    let end = Timestamp::from_millis(validity.expires_at.saturating_mul(1000));
    let left = validity.expires_at - now.as_seconds();
    let names = config.certificate_names();
    let missing = names.iter().find(|name| !tls.is_for(name));
    match missing {
        _ if left < 0 => Finding::wrong(WHAT, format!("expired at {end}"), advice),
        _ if left < SOON => Finding::noted(WHAT, format!("expires at {end}"), advice),
        Some(name) => {
            let advice = "clients that compare names refuse it; add the name, or correct mail.embedded.hostname";
            Finding::noted(WHAT, format!("valid until {end}, but not for {name}"), advice)
        }
        None => Finding::fine(WHAT, format!("for {}, valid until {end}", names.join(" and "))),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    /// Writes a certificate for `mx.example.org`, valid up to 1 March 2027, and returns what the doctor finds.
    fn finding(directory: &Path, hostname: &str, now: &str) -> String {
        let mut params = CertificateParams::new(vec!["mx.example.org".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2026, 12, 1), date_time_ymd(2027, 3, 1));
        let key = KeyPair::generate().unwrap();
        std::fs::write(directory.join("cert"), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(directory.join("key"), key.serialize_pem()).unwrap();
        let path = directory.display();
        let text =
            format!("mail.embedded.hostname = \"{hostname}\"\n[tls]\ncert = \"{path}/cert\"\nkey = \"{path}/key\"\n");
        shown(&text, now)
    }

    fn shown(text: &str, now: &str) -> String {
        let config = Config::from_layers(Some(("mailapi.toml", text)), &[]).unwrap();
        certificate(&config, Timestamp::parse_date_or_time(now).unwrap()).shown()
    }

    #[test]
    fn a_machine_without_authorities_is_reported() {
        assert_eq!(authorities(true), None);
        assert!(authorities(false).is_some_and(|noted| noted.shown().contains("the package ca-certificates")));
    }

    #[test]
    fn a_certificate_that_ends_is_reported() {
        let directory = tempfile::tempdir().unwrap();
        let found = |hostname: &str, now: &str| finding(directory.path(), hostname, now);
        assert!(found("mx.example.org", "2027-03-02").starts_with("WRONG  certificate: expired at 2027-03-01T"));
        assert!(found("mx.example.org", "2027-02-20").starts_with("note   certificate: expires at 2027-03-01T"));
        let other = found("other.example.org", "2027-01-01");
        assert!(other.starts_with("note ") && other.contains("not for other.example.org"), "{other}");
        let fine = found("mx.example.org", "2027-01-01");
        assert!(fine.starts_with("ok     certificate: for mx.example.org, valid until 2027-03-01T"), "{fine}");
        assert!(shown("", "2027-01-01").starts_with("-      certificate: none: TLS is off"));
    }

    #[test]
    fn a_failed_order_is_reported_with_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "data_dir = \"{}\"\nmail.embedded.hostname = \"mx.example.org\"\n[tls]\nmode = \"acme\"\n\
             acme_directory = \"https://ca.example/dir\"\n",
            directory.path().display()
        );
        assert!(shown(&text, "2027-01-01").starts_with("-      certificate: not ordered yet"));
        let files = directory.path().join("acme/ca.example-dir");
        std::fs::create_dir_all(&files).unwrap();
        let failure = r#"{"count": 3, "at": 1, "pause": 300, "reason": "no way to port 443"}"#;
        std::fs::write(files.join("failure.json"), failure).unwrap();
        let wrong = shown(&text, "2027-01-01");
        assert!(
            wrong.starts_with("WRONG  certificate: no way to port 443\n") && wrong.contains("ca.example"),
            "{wrong}"
        );
        std::fs::write(files.join("certificate.pem"), "torn").unwrap();
        assert!(shown(&text, "2027-01-01").starts_with("WRONG  certificate: cannot set up TLS"));
    }
}
