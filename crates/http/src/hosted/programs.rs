//! The forms in which mail programs read settings.

use std::fmt::Write;

use mailapi_model::{DomainName, EmailAddress};
use mailapi_service::domains::{ProgramPort, ProgramSettings};

/// Formats the settings as autoconfig, version 1.1.
pub(super) fn autoconfig(domain: &DomainName, settings: &ProgramSettings) -> String {
    let (name, mut servers) = (escaped(domain.as_str()), String::new());
    for (element, kind, ports) in
        [("incomingServer", "imap", &settings.imap), ("outgoingServer", "smtp", &settings.submission)]
    {
        for ProgramPort { port, is_implicit } in ports {
            let socket = if *is_implicit { "SSL" } else { "STARTTLS" };
            let host = escaped(&settings.host);
            // Writing to a string cannot fail.
            let _ = write!(
                servers,
                "    <{element} type=\"{kind}\">\n      <hostname>{host}</hostname>\n      <port>{port}</port>\n      \
                 <socketType>{socket}</socketType>\n      <authentication>password-cleartext</authentication>\n      \
                 <username>%EMAILADDRESS%</username>\n    </{element}>\n"
            );
        }
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<clientConfig version=\"1.1\">\n  <emailProvider id=\"{name}\">\n    \
         <domain>{name}</domain>\n    <displayName>{name}</displayName>\n    \
         <displayShortName>{name}</displayShortName>\n{servers}  </emailProvider>\n</clientConfig>\n"
    )
}

/// Formats the settings as a POX response of autodiscover.
pub(super) fn autodiscover(address: &EmailAddress, settings: &ProgramSettings) -> String {
    let (login, host, mut protocols) = (escaped(address.as_str()), escaped(&settings.host), String::new());
    // One of each: Outlook uses the first that it understands.
    for (kind, port) in [("IMAP", settings.imap.first()), ("SMTP", settings.submission.first())] {
        let Some(ProgramPort { port, is_implicit }) = port else { continue };
        let encryption = if *is_implicit { "SSL" } else { "TLS" };
        let _ = write!(
            protocols,
            "      <Protocol>\n        <Type>{kind}</Type>\n        <Server>{host}</Server>\n        \
             <Port>{port}</Port>\n        <LoginName>{login}</LoginName>\n        \
             <DomainRequired>off</DomainRequired>\n        <SPA>off</SPA>\n        <SSL>on</SSL>\n        \
             <Encryption>{encryption}</Encryption>\n        <AuthRequired>on</AuthRequired>\n      </Protocol>\n"
        );
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n\
         <Autodiscover xmlns=\"http://schemas.microsoft.com/exchange/autodiscover/responseschema/2006\">\n  \
         <Response xmlns=\"http://schemas.microsoft.com/exchange/autodiscover/outlook/responseschema/2006a\">\n    \
         <Account>\n      <AccountType>email</AccountType>\n      <Action>settings</Action>\n{protocols}    \
         </Account>\n  </Response>\n</Autodiscover>\n"
    )
}

/// Returns the address of a question. Only this element counts, so no XML parser reads bytes of strangers.
pub(super) fn address_in(question: &str) -> Option<EmailAddress> {
    let (_, rest) = question.split_once("<EMailAddress>")?;
    let (address, _) = rest.split_once("</EMailAddress>")?;
    let address = address.trim().replace("&apos;", "'").replace("&quot;", "\"").replace("&amp;", "&");
    address.parse().ok()
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settings() -> ProgramSettings {
        let port = |port, is_implicit| ProgramPort { port, is_implicit };
        ProgramSettings {
            host: "mx.example.org".to_owned(),
            imap: vec![port(993, true), port(143, false)],
            submission: vec![port(465, true)],
        }
    }

    #[test]
    fn the_address_of_a_question_is_found() {
        let address = |text: &str| address_in(text).map(|address| address.as_str().to_owned());
        for wrong in
            ["", "<EMailAddress>", "<EMailAddress>ann</EMailAddress>", "<EMailAddress><a@b.test></EMailAddress>"]
        {
            assert_eq!(address(wrong), None, "{wrong}");
        }
        let question = "<Request><EMailAddress> o&apos;hara@example.org </EMailAddress></Request>";
        assert_eq!(address(question).as_deref(), Some("o'hara@example.org"));
    }

    #[test]
    fn every_port_is_listed_best_first() {
        let shown = autoconfig(&"example.org".parse().unwrap(), &settings());
        let ports: Vec<_> = shown.lines().filter(|line| line.contains("<port>")).map(str::trim).collect();
        assert_eq!(ports, ["<port>993</port>", "<port>143</port>", "<port>465</port>"]);
        assert!(shown.contains("<socketType>STARTTLS</socketType>") && shown.contains("<domain>example.org</domain>"));
    }

    proptest! {
        #[test]
        fn no_question_breaks_the_answer(text in "(<EMailAddress>)?[a-z&<>\"'é;@.]{0,20}@example\\.org(</EMailAddress>)?") {
            if let Some(address) = address_in(&text) {
                let shown = autodiscover(&address, &settings());
                prop_assert_eq!(shown.matches('<').count(), autodiscover(&"a@b.test".parse().unwrap(), &settings()).matches('<').count());
            }
        }

        #[test]
        fn no_bytes_make_it_panic(text in "\\PC{0,80}") {
            let _ = address_in(&format!("<EMailAddress>{text}</EMailAddress>"));
        }
    }
}
