//! What this machine and its network allow.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::path::Path;
use std::time::Duration;

use mailapi_backend::{Dns, DnsError};
use mailapi_dns::{DnsSettings, NetworkDns};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Choices;
use crate::cli::doctor::Finding;
use crate::config::Config;
use crate::wiring;

/// The ports of a mail server, and what they are for.
const PORTS: [(u16, &str, &str); 6] = [
    (25, "port 25", "mail from other servers"),
    (465, "port 465", "sending by mail programs"),
    (587, "port 587", "sending by mail programs, with STARTTLS"),
    (993, "port 993", "reading by mail programs"),
    (443, "port 443", "HTTPS, and the checks of the certificate authority"),
    (80, "port 80", "not used by this configuration"),
];
const SMTP_PORT: u16 = 25;
const OUTWARDS: &str = "mail to other servers";
/// Time limit of the connection to another mail server, and of its greeting.
const PATIENCE: Duration = Duration::from_secs(15);
/// Directories that the unit hides from the server.
const HIDDEN: [&str; 3] = ["/home", "/root", "/tmp"];

/// Returns the address of listeners for all networks: of both versions of IP, if the machine has both.
pub(super) fn any_address() -> &'static str {
    if TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok() { "[::]" } else { "0.0.0.0" }
}

/// Returns what was found, as text.
pub(super) async fn findings(config: &Config, choices: &Choices, mx: Option<&str>) -> String {
    let mut findings = vec![
        usable("program", &choices.program, "copy the program to /usr/local/bin, and run `mailapi setup` there"),
        usable("configuration", &choices.config_file, "name a file elsewhere with --config"),
        usable("data", &choices.data_dir, "name a directory elsewhere with --data-dir"),
    ];
    findings.extend(addresses(config, choices).await);
    findings.extend(PORTS.map(|(port, what, purpose)| listening(choices.any_address, port, what, purpose)));
    findings.push(outwards(mx).await);
    format!("### This machine\n{}", findings.iter().map(Finding::shown).collect::<String>())
}

/// Checks that the unit lets the server use a path.
fn usable(what: &'static str, path: &Path, advice: &'static str) -> Finding {
    let shown = path.display();
    match HIDDEN.iter().find(|directory| path.starts_with(directory)) {
        None => Finding::fine(what, shown),
        Some(directory) => Finding::wrong(what, format!("the unit hides {directory}, and so {shown}"), advice),
    }
}

/// Checks that the server's name leads here.
async fn addresses(config: &Config, choices: &Choices) -> Vec<Finding> {
    const WHAT: &str = "address";
    let host = choices.hostname.as_str();
    let without_cache = |settings: &DnsSettings| NetworkDns::new(&settings.without_cache());
    let dns = config.dns().map_err(Into::into).and_then(|settings| wiring::with_name_servers(&settings, without_cache));
    let found = match dns {
        Ok(dns) => dns.addresses(host).await,
        Err(failure) => return vec![Finding::unknown(WHAT, failure)],
    };
    match found {
        Ok(addresses) if !addresses.is_empty() => addresses.into_iter().map(|address| is_here(host, address)).collect(),
        Ok(_) | Err(DnsError::NoSuchName) => {
            let advice = "publish its A record, and its AAAA record if it has IPv6";
            vec![Finding::wrong(WHAT, format!("DNS has no address of {host}"), advice)]
        }
        Err(error) => vec![Finding::unknown(WHAT, format!("{host} could not be looked up: {error}"))],
    }
}

fn is_here(host: &str, address: IpAddr) -> Finding {
    const WHAT: &str = "address";
    // Only an address of this machine can be bound.
    match TcpListener::bind((address, 0)) {
        Ok(_) => Finding::fine(WHAT, format!("{host} is {address}, which this machine has")),
        Err(_) => {
            let found = format!("{host} is {address}, which this machine does not have");
            Finding::noted(WHAT, found, "let the router forward the ports, or correct the record")
        }
    }
}

/// Checks whether a listener could open the port.
fn listening(any_address: &str, port: u16, what: &'static str, purpose: &str) -> Finding {
    match TcpListener::bind(format!("{any_address}:{port}")) {
        Ok(_) => Finding::fine(what, format!("free; {purpose}")),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            Finding::unknown(what, format!("only root may open it, and the server by its unit; {purpose}"))
        }
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            let advice = format!("see `ss -ltnp sport = :{port}`; stop that program unless it is mailapi");
            Finding::noted(what, format!("in use; {purpose}"), advice)
        }
        Err(error) => Finding::wrong(what, error, "correct the network of this machine"),
    }
}

/// Connects to a mail server that the operator names. Without one nothing is contacted.
async fn outwards(mx: Option<&str>) -> Finding {
    let Some(mx) = mx else {
        return Finding::unknown(OUTWARDS, "not checked; name a mail server of yours with --mx");
    };
    let target = if mx.contains(':') { mx.to_owned() } else { format!("{mx}:{SMTP_PORT}") };
    let greeted = async {
        let mut stream = TcpStream::connect(&target).await?;
        let mut code = [0; 3];
        stream.read_exact(&mut code).await.map(|_| code)
    };
    let advice = "many providers block port 25: ask yours to open it, or set mail.embedded.relay";
    match timeout(PATIENCE, greeted).await {
        Ok(Ok(code)) if code.iter().all(u8::is_ascii_digit) => Finding::fine(OUTWARDS, format!("{target} answers")),
        Ok(Ok(_)) => Finding::wrong(OUTWARDS, format!("{target} does not answer with SMTP"), advice),
        Ok(Err(error)) => Finding::wrong(OUTWARDS, format!("{target}: {error}"), advice),
        Err(_) => Finding::wrong(OUTWARDS, format!("{target} does not answer"), advice),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    async fn greeting_with(text: &'static [u8]) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(text).await.unwrap();
        });
        let found = outwards(Some(&address)).await.shown();
        server.await.unwrap();
        found
    }

    #[tokio::test]
    async fn only_a_named_server_is_contacted() {
        assert!(outwards(None).await.shown().starts_with("-      mail to other servers: not checked"));
        assert!(greeting_with(b"HTTP/1.1 400\r\n").await.starts_with("WRONG"));
        assert!(greeting_with(b"").await.starts_with("WRONG"));
        assert!(
            greeting_with(b"220 mx.example ESMTP\r\n").await.starts_with("ok     mail to other servers: 127.0.0.1:")
        );
    }

    #[test]
    fn a_path_that_the_unit_hides_is_found() {
        let shown = |path| usable("data", Path::new(path), "move it").shown();
        for hidden in ["/home/ann/mail", "/root/mail", "/tmp/mail"] {
            assert!(shown(hidden).starts_with("WRONG  data: the unit hides /"), "{}", shown(hidden));
        }
        assert!(shown("/var/lib/mailapi/data").starts_with("ok     data: /var/lib"), "{}", shown("/var/lib"));
        assert!(shown("/homes/mail").starts_with("ok"));
    }

    #[test]
    fn a_port_in_use_is_found() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        assert!(listening("127.0.0.1", port, "port", "mail").shown().starts_with("note   port: in use; mail\n"));
        drop(taken);
        assert!(listening("127.0.0.1", port, "port", "mail").shown().starts_with("ok     port: free"));
    }
}
