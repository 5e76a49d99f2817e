//! Queries to a real name server on loopback, and to one that never responds.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mailapi_backend::{Dns, DnsError, MailExchange, ServiceLocation};
use mailapi_dns::{DnsSettings, NetworkDns};

/// Longer than any wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A private dnsmasq with the domain `example.test`.
struct NameServer {
    process: Child,
    address: SocketAddr,
}

impl NameServer {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(further: &[&str]) -> Self {
        let address = mailapi_testkit::free_port();
        let process = Command::new("dnsmasq")
            .args(["--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--bind-interfaces", "--user="])
            .args(["--listen-address=127.0.0.1", &format!("--port={}", address.port()), "--local=/test/"])
            .args(["--mx-host=example.test,mx1.example.test,10", "--mx-host=example.test,mx2.example.test,20"])
            .args([
                "--txt-record=example.test,v=spf1 ,mx -all",
                "--host-record=mx1.example.test,192.0.2.17,2001:db8::17",
            ])
            .args(["--txt-record=-x.example.test,first", "--txt-record=under_score._domainkey.example.test,second"])
            .arg("--ptr-record=17.2.0.192.in-addr.arpa,mx1.example.test")
            .args(["--srv-host=_imap._tcp.example.test,mx1.example.test,143,5,7", "--srv-host=_pop3._tcp.example.test"])
            .args(further)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("dnsmasq (Debian package dnsmasq-base)");
        Self { process, address }
    }

    fn assert_running(&mut self) {
        let ended = self.process.try_wait().unwrap();
        assert_eq!(ended, None, "dnsmasq has ended; another server may have taken its port");
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn resolver(server: SocketAddr, timeout: Duration) -> NetworkDns {
    NetworkDns::new(&DnsSettings {
        servers: vec![server],
        timeout,
        retries: 5,
        cached_answers: 0,
        ..DnsSettings::default()
    })
    .unwrap()
}

#[tokio::test]
async fn every_record_type_is_found_and_no_data_is_not_nxdomain() {
    let mut server = NameServer::start();
    let dns = resolver(server.address, Duration::from_secs(5));
    // The server needs a moment to open its port; until then queries fail.
    let mut mx = dns.mx("example.test").await;
    while matches!(mx, Err(DnsError::Timeout | DnsError::Failed(_))) {
        server.assert_running();
        mx = dns.mx("example.test").await;
    }
    let mut mx = mx.unwrap();
    mx.sort();
    let exchange = |preference, exchange: &str| MailExchange { preference, exchange: exchange.to_owned() };
    assert_eq!(mx, [exchange(10, "mx1.example.test"), exchange(20, "mx2.example.test")]);
    assert_eq!(dns.txt("example.test.").await.unwrap(), ["v=spf1 mx -all"], "the strings of a record are joined");
    let addresses = dns.addresses("mx1.example.test").await.unwrap();
    assert_eq!(addresses, ["192.0.2.17".parse().unwrap(), "2001:db8::17".parse::<std::net::IpAddr>().unwrap()]);
    assert_eq!(dns.names_of("192.0.2.17".parse().unwrap()).await.unwrap(), ["mx1.example.test"]);
    let imap = ServiceLocation { priority: 5, weight: 7, port: 143, target: "mx1.example.test".to_owned() };
    assert_eq!(dns.srv("_imap._tcp.example.test").await.unwrap(), [imap]);
    let pop3 = dns.srv("_pop3._tcp.example.test").await.unwrap();
    assert_eq!(pop3[0].target, ".", "a service that is not offered");
    assert_eq!(dns.txt("mx1.example.test").await, Ok(Vec::new()), "the name exists without a TXT record");
    assert_eq!(dns.mx("nowhere.test").await, Err(DnsError::NoSuchName));

    // A sender chooses names, and must not turn an absence into a temporary error.
    for (name, text) in [("-x.example.test", "first"), ("under_score._domainkey.example.test", "second")] {
        assert_eq!(dns.txt(name).await.unwrap(), [text], "{name}");
    }
    let long = format!("{}.test", "a".repeat(63));
    let too_long = [&"a".repeat(64), &format!("{}test", "abcdefg.".repeat(40))].map(|name| name.clone());
    let odd = ["-.test", "x_.test", "x.-y.test", "xn--.test", "xn--a.test", "*.*.test", "a!b.test", "a..test", ".test"];
    for name in odd.into_iter().chain([long.as_str()]).chain(too_long.iter().map(String::as_str)) {
        assert_eq!(dns.txt(name).await, Err(DnsError::NoSuchName), "{name}");
        assert_eq!(dns.addresses(name).await, Err(DnsError::NoSuchName), "{name}");
    }
}

#[tokio::test]
async fn without_a_cache_a_changed_record_is_found_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    let publish = |address: &str| std::fs::write(&hosts, format!("{address} changing.test\n")).unwrap();
    publish("192.0.2.1");
    // Read again at SIGHUP.
    let server = NameServer::start_with(&["--local-ttl=3600", &format!("--addn-hosts={}", hosts.display())]);
    let settings = DnsSettings {
        servers: vec![server.address],
        timeout: Duration::from_secs(5),
        retries: 5,
        dnssec: false,
        ..DnsSettings::default()
    };
    let cached = NetworkDns::new(&settings).unwrap();
    let fresh = NetworkDns::new(&settings.without_cache()).unwrap();
    let addresses = async |dns: &NetworkDns| dns.addresses("changing.test").await;
    let (former, changed) = (Ok(vec![[192, 0, 2, 1].into()]), Ok(vec![[192, 0, 2, 2].into()]));
    let until = async |expected: &Result<Vec<IpAddr>, DnsError>| while addresses(&fresh).await != *expected {};
    tokio::time::timeout(PATIENCE, until(&former)).await.expect("the name server answers");
    assert_eq!(addresses(&cached).await, former);
    publish("192.0.2.2");
    assert!(mailapi_testkit::send_signal("HUP", &server.process));
    tokio::time::timeout(PATIENCE, until(&changed)).await.expect("the change is seen");
    assert_eq!(addresses(&cached).await, former, "for an hour");
}

#[tokio::test]
async fn silence_is_a_time_out_and_no_absence() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dns = NetworkDns::new(&DnsSettings {
        servers: vec![silent.local_addr().unwrap()],
        timeout: Duration::from_millis(50),
        retries: 0,
        cached_answers: 0,
        ..DnsSettings::default()
    });
    let asked = dns.unwrap().mx("example.test").await;
    assert!(matches!(asked, Err(DnsError::Timeout | DnsError::Failed(_))), "{asked:?}");
}
