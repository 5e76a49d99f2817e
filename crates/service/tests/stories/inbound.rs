//! Checks of mail from outside: hostile messages first, then ordinary ones.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::KeyPair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mail_auth::arc::ArcSealer;
use mail_auth::common::crypto::{Ed25519Key, RsaKey, Sha256};
use mail_auth::common::headers::HeaderWriter;
use mail_auth::dkim::DkimSigner;
use mail_auth::{ArcOutput, AuthenticatedMessage, AuthenticationResults};
use mailapi_backend::{InboundAction, InboundMail, JudgeInbound, Judgement, SignOutgoing};
use mailapi_model::AuthenticationResult::{Fail, None as Nothing, Pass, Permerror, Temperror};
use mailapi_model::{
    Authentication, AuthenticationResult, Blob, CheckedDomain, CheckedSignature, DomainName, QueueId, Secret,
};
use mailapi_service::Caller;
use mailapi_service::auth::SignUp;
use mailapi_service::domains::DomainChange;
use mailapi_service::mail::DmarcAction;
use mailapi_testkit::{PASSWORD, TestApp};
use proptest::prelude::*;

pub(crate) const CLIENT: &str = "192.0.2.7";
const OWN: &str = "here.example";

async fn app() -> TestApp {
    app_with(DmarcAction::Junk).await
}

async fn app_with(dmarc: DmarcAction) -> TestApp {
    let app = TestApp::start_with(|settings| settings.service.inbound.dmarc = dmarc).await;
    app.domain(OWN).await;
    app
}

/// Judges a message from `zoe@far.example`.
async fn judged(app: &TestApp, message: impl Into<Blob>) -> Judgement {
    judged_from(app, CLIENT, "zoe@far.example", message).await
}

pub(crate) async fn judged_from(app: &TestApp, client: &str, sender: &str, message: impl Into<Blob>) -> Judgement {
    let mail = InboundMail {
        hostname: "mx.here.example",
        client: client.parse().unwrap(),
        client_name: "mx.far.example",
        sender,
        recipients: &["bob@here.example".parse().unwrap()],
        queue_id: &QueueId("Q1".to_owned()),
        message: message.into(),
    };
    app.service.judge(mail).await
}

/// The results of the checks, and the best result of all signatures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Results {
    spf: AuthenticationResult,
    dkim: AuthenticationResult,
    dmarc: AuthenticationResult,
    arc: AuthenticationResult,
}

fn results(judgement: &Judgement) -> Results {
    let Authentication { spf, dkim, dmarc, arc } = judgement.authentication.as_ref().unwrap();
    let dkim = dkim.first().map_or(Nothing, |best| best.result);
    Results { spf: spf.result, dkim, dmarc: dmarc.result, arc: *arc }
}

pub(crate) fn message(from: &str) -> String {
    format!("From: {from}\r\nTo: bob@here.example\r\nSubject: Hi\r\n\r\nHello  you\r\n")
}

/// A key of a domain other than this server's.
pub(crate) struct FarKey(Vec<u8>);

impl FarKey {
    /// Generates a key, and publishes it under the selector `s1` of a domain.
    pub(crate) fn published(app: &TestApp, domain: &str) -> Self {
        let key = Self(Ed25519Key::generate_pkcs8().unwrap());
        let public = STANDARD.encode(key.key().public_key());
        app.dns.set_txt(&format!("s1._domainkey.{domain}"), &[&format!("v=DKIM1; k=ed25519; p={public}")]);
        key
    }

    fn key(&self) -> Ed25519Key {
        Ed25519Key::from_pkcs8_der(&self.0).unwrap()
    }

    /// Returns the message with a signature of the domain.
    pub(crate) fn signed(&self, domain: &str, message: &str) -> String {
        self.signed_with(domain, &["From", "To", "Subject"], 0, message)
    }

    fn signed_with(&self, domain: &str, fields: &[&str], lifetime: u64, message: &str) -> String {
        let signer = DkimSigner::from_key(self.key()).domain(domain).selector("s1").headers(fields.to_vec());
        let signature = signer.expiration(lifetime).sign(message.as_bytes()).unwrap();
        format!("{}{message}", signature.to_header())
    }
}

#[tokio::test]
async fn an_author_of_this_server_is_not_forged_from_outside() {
    for (dmarc, expected) in [
        (DmarcAction::Off, "Deliver".to_owned()),
        (DmarcAction::Junk, "Junk".to_owned()),
        (
            DmarcAction::Reject,
            format!("Refuse(\"Mail from {OWN} needs a login here, or a valid SPF or DKIM result for {OWN}\")"),
        ),
    ] {
        let app = app_with(dmarc).await;
        // The sender of the envelope is valid, and proves nothing about the author.
        app.dns.set_txt("far.example", &["v=spf1 +all"]);
        let key = FarKey::published(&app, "far.example");
        for policy in [None, Some("v=DMARC1; p=none"), Some("v=DMARC1; p=nonsense")] {
            if let Some(policy) = policy {
                app.dns.set_txt("_dmarc.here.example", &[policy]);
            }
            for from in
                ["alice@here.example", "Alice <alice@HERE.example>", "a: alice@here.example;", "<alice@here.example."]
            {
                let judgement = judged(&app, key.signed("far.example", &message(from))).await;
                assert_eq!(format!("{:?}", judgement.action), expected, "{from}: {judgement:?}");
                assert_eq!((results(&judgement).dmarc, results(&judgement).spf), (Fail, Pass), "{from}");
            }
        }
    }
}

#[tokio::test]
async fn a_domain_is_protected_once_an_admin_approved_it() {
    let app = app().await;
    // A domain that is switched off for sending is protected too.
    let change = DomainChange { active: Some(false), description: None };
    app.service.update_domain(&Caller::operator(), &OWN.parse().unwrap(), change).await.unwrap();
    assert_eq!(judged(&app, message("alice@here.example")).await.action, InboundAction::Junk);

    let domain: DomainName = "bank.example".parse().unwrap();
    let (email, password) = ("ann@bank.example".parse().unwrap(), Secret::new(PASSWORD.to_owned()));
    let request = SignUp { domain: domain.clone(), email, password, name: String::new() };
    app.service.sign_up(request, crate::HERE).await.unwrap();
    assert_eq!(judged(&app, message("ceo@bank.example")).await.action, InboundAction::Deliver);
    app.service.approve_domain(&Caller::operator(), &domain).await.unwrap();
    assert_eq!(judged(&app, message("ceo@bank.example")).await.action, InboundAction::Junk);
}

#[tokio::test]
async fn an_author_of_this_server_is_believed_with_proof() {
    let app = app_with(DmarcAction::Reject).await;
    let name = OWN.parse().unwrap();
    let key = app.store.dkim_keys().signing(&name).await.unwrap().remove(0);
    app.dns.set_txt(&key.dns_name(&name), &[&key.dns_value()]);
    let signed = app.service.sign(&name, message("alice@here.example").into()).await.unwrap();
    // A mailing list that changes nothing leaves the signature intact.
    let judgement = judged(&app, signed).await;
    assert_eq!((judgement.action.clone(), results(&judgement).dkim), (InboundAction::Deliver, Pass), "{judgement:?}");

    // A service may send for the domain, or for a name below it.
    for sender in ["news@here.example", "bounce@mail.here.example"] {
        let (_, domain) = sender.split_once('@').unwrap();
        app.dns.set_txt(domain, &["v=spf1 ip4:192.0.2.7 -all"]);
        let judgement = judged_from(&app, CLIENT, sender, message("news@here.example")).await;
        assert_eq!(judgement.action, InboundAction::Deliver, "{judgement:?}");
        let judgement = judged_from(&app, "192.0.2.8", sender, message("news@here.example")).await;
        assert!(matches!(judgement.action, InboundAction::Refuse(_)), "{judgement:?}");
    }
}

#[tokio::test]
async fn the_policy_of_the_author_decides_about_failures() {
    let deliver = InboundAction::Deliver;
    let policies = [
        ("v=DMARC1; p=reject", InboundAction::Junk, true),
        ("v=DMARC1; p=quarantine", InboundAction::Junk, false),
        ("v=DMARC1; p=reject; t=y", InboundAction::Junk, false),
        ("v=DMARC1; p=none", deliver.clone(), false),
        ("v=DMARC1; rua=mailto:a@bank.example", deliver.clone(), false),
        ("v=DMARC1", deliver.clone(), false),
        ("v=spf1 -all", deliver.clone(), false),
    ];
    for dmarc in [DmarcAction::Off, DmarcAction::Junk, DmarcAction::Reject] {
        let app = app_with(dmarc).await;
        for (policy, by_junk, refused) in &policies {
            app.dns.set_txt("_dmarc.bank.example", &[policy]);
            let judgement = judged(&app, message("ceo@bank.example")).await;
            match dmarc {
                DmarcAction::Off => assert_eq!(judgement.action, deliver, "{policy}"),
                DmarcAction::Reject if *refused => {
                    let InboundAction::Refuse(text) = judgement.action else { panic!("{policy}: {judgement:?}") };
                    assert!(text.starts_with("bank.example asks to refuse mail") && text.len() < 400, "{text}");
                }
                DmarcAction::Junk | DmarcAction::Reject => assert_eq!(&judgement.action, by_junk, "{policy}"),
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_tag_does_not_turn_the_policy_off() {
    let app = app_with(DmarcAction::Reject).await;
    for (record, expected) in [
        ("v=DMARC1; p=reject; adkim=x; fo=0:1:d:s:; rua=mailto:a@far.example!10q", Fail),
        ("v=DMARC1; p=discard; rua=mailto:a@far.example", Fail),
        ("v=DMARC1; p=discard", Nothing),
        ("v=dmarc1; p=reject", Nothing),
    ] {
        app.dns.set_txt("_dmarc.far.example", &[record]);
        let judgement = judged(&app, message("zoe@far.example")).await;
        assert_eq!(results(&judgement).dmarc, expected, "{record}");
        let is_refused = matches!(judgement.action, InboundAction::Refuse(_));
        assert_eq!(is_refused, record.contains("DMARC1; p=reject"), "{record}");
    }
}

#[tokio::test]
async fn subdomains_have_the_policy_for_them() {
    let app = app_with(DmarcAction::Reject).await;
    app.dns.set_txt("_dmarc.bank.example", &["v=DMARC1; p=reject; sp=none; np=quarantine"]);
    app.dns.set_addresses("shop.bank.example", &["192.0.2.9"]);
    for (author, expected) in
        [("shop.bank.example", InboundAction::Deliver), ("missing.bank.example", InboundAction::Junk)]
    {
        assert_eq!(judged(&app, message(&format!("a@{author}"))).await.action, expected, "{author}");
    }
}

#[tokio::test]
async fn two_authors_do_not_hide_each_other() {
    let app = app().await;
    app.dns.set_txt("far.example", &["v=spf1 +all"]);
    let key = FarKey::published(&app, "far.example");
    let honest = key.signed("far.example", &message("zoe@far.example"));
    for (hostile, reason) in [
        (format!("From: ceo@bank.example\r\n{honest}"), "several From fields"),
        (format!("No field\r\nFrom : ceo@bank.example\r\n{honest}"), "several From fields"),
        (honest.replace("\r\nTo: bob", "\r\nfRom:\r\n ceo@bank.example\r\nTo: bob"), "several From fields"),
        (message("zoe@far.example, ceo@bank.example"), "several authors"),
    ] {
        let judgement = judged(&app, hostile.clone()).await;
        assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Junk, Permerror), "{hostile}");
        assert!(judgement.fields.contains(&format!("dmarc=permerror ({reason})")), "{}", judgement.fields);
    }
    let judgement = judged(&app, message("zoe@far.example, ceo@here.example")).await;
    assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Junk, Fail), "{judgement:?}");
}

#[tokio::test]
async fn mail_without_a_valid_author_is_refused() {
    let invalid = [
        String::new(),
        "From:\r\n".to_owned(),
        "From: <>\r\n".to_owned(),
        "From: Ann\r\n".to_owned(),
        "From: =?utf-8?q?ceo=40bank.example?= <>\r\n".to_owned(),
        "From: zoe@far.example\0\r\n".to_owned(),
        "From: zoe@[192.0.2.7]\r\n".to_owned(),
    ];
    let several = "From: zoe@far.example\r\nFrom: zoe@far.example\r\n".to_owned();
    for dmarc in [DmarcAction::Off, DmarcAction::Junk, DmarcAction::Reject] {
        let app = app_with(dmarc).await;
        app.dns.set_txt("far.example", &["v=spf1 +all"]);
        let key = FarKey::published(&app, "far.example");
        for (from, of_bounce) in invalid.iter().map(|from| (from, "Junk")).chain([(&several, "Refuse")]) {
            let text = key.signed("far.example", &format!("{from}To: bob@here.example\r\n\r\nHello\r\n"));
            for (sender, by_reject) in [("zoe@far.example", "Refuse"), ("", of_bounce)] {
                let judgement = judged_from(&app, CLIENT, sender, text.clone()).await;
                let expected = match dmarc {
                    DmarcAction::Off => "Deliver",
                    DmarcAction::Junk => "Junk",
                    DmarcAction::Reject => by_reject,
                };
                assert!(format!("{:?}", judgement.action).starts_with(expected), "{from:?} {sender:?}: {judgement:?}");
                assert_eq!(results(&judgement).dmarc, Permerror, "{from:?}");
            }
        }
    }
    let app = app_with(DmarcAction::Reject).await;
    let judgement = judged(&app, "To: bob@here.example\r\n\r\nHello\r\n".to_owned()).await;
    let text = "The message needs one From field with one author (no valid author); see RFC 5322 section 3.6.2";
    assert_eq!(judgement.action, InboundAction::Refuse(text.to_owned()));
    assert!(judgement.fields.contains("\r\n\tdmarc=permerror (no valid author);\r\n"), "{}", judgement.fields);
}

#[tokio::test]
async fn notices_of_this_server_are_not_forged_from_outside() {
    let app = app_with(DmarcAction::Reject).await;
    for from in [
        "MAILER-DAEMON@mx.here.example",
        "Mail Delivery System <mailer-daemon@MX.here.example.>",
        "MAILER-DAEMON@here.example",
        "postmaster@here.example (bounce)",
    ] {
        let judgement = judged_from(&app, CLIENT, "", message(from)).await;
        assert!(matches!(judgement.action, InboundAction::Refuse(_)), "{from}: {judgement:?}");
        assert_eq!(results(&judgement).dmarc, Fail, "{from}");
    }
    // A notice of another server is not affected.
    let judgement = judged_from(&app, CLIENT, "", message("MAILER-DAEMON@mx.far.example")).await;
    assert_eq!(judgement.action, InboundAction::Deliver);
    // The server's name may be the name of another program that sends from this host.
    app.dns.set_txt("mx.here.example", &["v=spf1 ip4:192.0.2.7 -all"]);
    let judgement = judged_from(&app, CLIENT, "root@mx.here.example", message("root@mx.here.example")).await;
    assert_eq!(judgement.action, InboundAction::Deliver, "{judgement:?}");
}

#[tokio::test]
async fn no_author_hides_behind_many_others() {
    let app = app_with(DmarcAction::Reject).await;
    app.dns.set_txt("far.example", &["v=spf1 +all"]);
    let many = "zoe@far.example, ".repeat(100);
    let judgement = judged(&app, message(&format!("{many}alice@here.example"))).await;
    assert!(matches!(judgement.action, InboundAction::Refuse(_)), "{judgement:?}");
}

#[tokio::test]
async fn comments_around_an_address_do_not_change_its_author() {
    let app = app_with(DmarcAction::Reject).await;
    app.dns.set_txt("_dmarc.far.example", &["v=DMARC1; p=reject"]);
    let key = FarKey::published(&app, "far.example");
    for from in ["zoe(c)@far.example", "(a) zoe@far.example", "zoe@far.example (Zoe)", "zoe @ (at) far.example"] {
        let judgement = judged(&app, key.signed("far.example", &message(from))).await;
        assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Deliver, Pass), "{from}");
        let judgement = judged(&app, message(from)).await;
        assert!(matches!(judgement.action, InboundAction::Refuse(_)), "{from}: {judgement:?}");
    }
}

#[tokio::test]
async fn a_signature_that_proves_nothing_does_not_pass() {
    let app = app().await;
    let key = FarKey::published(&app, "far.example");
    app.dns.set_txt("_dmarc.far.example", &["v=DMARC1; p=reject"]);
    let honest = message("zoe@far.example");
    let signed = key.signed("far.example", &honest);
    let stranger = FarKey(Ed25519Key::generate_pkcs8().unwrap());
    let expired = key.signed_with("far.example", &["From"], 60, &honest);
    app.clock.advance(std::time::Duration::from_secs(400 * 24 * 60 * 60));
    for (what, hostile, expected) in [
        ("changed body", signed.replace("Hello", "Jello"), Fail),
        ("changed field", signed.replace("Subject: Hi", "Subject: No"), Fail),
        ("foreign key", stranger.signed("far.example", &honest), Fail),
        ("expired", expired, Fail),
        ("author not signed", key.signed_with("far.example", &["To"], 0, &honest), Permerror),
        ("no key", signed.replace("s=s1", "s=s2"), Permerror),
        ("invalid selector", signed.replace("s=s1", "s=s..1"), Permerror),
        ("SHA-1", signed.replace("a=ed25519-sha256", "a=rsa-sha1"), Permerror),
        ("unreadable", format!("DKIM-Signature: v=1; a=x\r\n{honest}"), Permerror),
        ("none", honest.clone(), Nothing),
    ] {
        let judgement = judged(&app, hostile).await;
        assert_eq!((results(&judgement).dkim, results(&judgement).dmarc), (expected, Fail), "{what}: {judgement:?}");
        assert_eq!(judgement.action, InboundAction::Junk, "{what}");
    }
}

#[tokio::test]
async fn a_silent_dns_refuses_nothing() {
    let app = app_with(DmarcAction::Reject).await;
    let key = FarKey::published(&app, "far.example");
    let signed = key.signed("far.example", &message("zoe@far.example"));
    app.dns.set_txt("_dmarc.far.example", &["v=DMARC1; p=reject"]);
    app.dns.silence("s1._domainkey.far.example");
    let judgement = judged(&app, signed).await;
    assert_eq!((&judgement.action, results(&judgement).dkim), (&InboundAction::Deliver, Temperror));
    assert_eq!(results(&judgement).dmarc, Temperror);
    app.dns.silence("_dmarc.bank.example");
    let judgement = judged(&app, message("ceo@bank.example")).await;
    assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Deliver, Temperror));
    // A domain without an answer does not excuse the message.
    let judgement = judged(&app, key.signed("far.example", &message("zoe@shop.example"))).await;
    assert_eq!(results(&judgement).dmarc, Nothing);
    app.dns.set_txt("_dmarc.shop.example", &["v=DMARC1; p=reject"]);
    let judgement = judged(&app, key.signed("far.example", &message("zoe@shop.example"))).await;
    assert!(matches!(judgement.action, InboundAction::Refuse(_)), "{judgement:?}");
}

#[tokio::test]
async fn a_policy_decides_alone_where_no_other_domain_can_align() {
    let app = app_with(DmarcAction::Reject).await;
    let key = FarKey::published(&app, "mail.far.example");
    let signed = key.signed("mail.far.example", &message("zoe@mail.far.example"));
    app.dns.silence("_dmarc.far.example");
    assert_eq!(results(&judged(&app, signed.clone()).await).dmarc, Temperror);
    app.dns.set_txt("_dmarc.mail.far.example", &["v=DMARC1; p=reject"]);
    let judgement = judged(&app, signed).await;
    assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Deliver, Pass));
    // Mail that nothing confirms is forged, whatever the policy above says.
    for from in ["zoe@mail.far.example", "Zoe <zoe@mail.far.example>"] {
        let forged = judged(&app, message(from)).await;
        assert!(matches!(forged.action, InboundAction::Refuse(_)), "{forged:?}");
    }
    // A related domain that passed may align, and the policy above says so.
    app.dns.set_txt("_dmarc.mail.near.example", &["v=DMARC1; p=reject"]);
    app.dns.set_txt("_dmarc.near.example", &["v=DMARC1; p=none"]);
    for (from, key, signer, expected) in [
        ("zoe@mail.near.example", FarKey::published(&app, "news.near.example"), "news.near.example", Pass),
        ("zoe@mail.far.example", FarKey::published(&app, "news.far.example"), "news.far.example", Temperror),
    ] {
        let judgement = judged(&app, key.signed(signer, &message(from))).await;
        assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Deliver, expected), "{from}");
    }
}

#[tokio::test]
async fn a_missing_answer_excuses_only_what_it_could_confirm() {
    let app = app_with(DmarcAction::Reject).await;
    let strict = "v=DMARC1; p=reject; adkim=s; aspf=s";
    for (number, own, signer, is_refused) in [
        // Strict alignment needs the author's own domain.
        (1, strict, "far", true),
        (2, strict, "news.far", true),
        (3, "v=DMARC1; p=reject; aspf=s", "news.far", false),
        (4, "v=DMARC1; p=reject", "far", false),
        // The author's domain is an organization of its own.
        (5, "v=DMARC1; p=reject; psd=n", "news.far", true),
        (6, "v=DMARC1; p=reject; psd=n", "news.mail.far", false),
    ] {
        let (author, signer) = (format!("mail.far{number}.example"), format!("{signer}{number}.example"));
        app.dns.set_txt(&format!("_dmarc.{author}"), &[own]);
        app.dns.silence(&format!("_dmarc.far{number}.example"));
        let key = FarKey::published(&app, &signer);
        let judgement = judged(&app, key.signed(&signer, &message(&format!("zoe@{author}")))).await;
        let refused = matches!(judgement.action, InboundAction::Refuse(_));
        assert_eq!(refused, is_refused, "{number}: {judgement:?}");
    }
    // The sender chooses domains below, and how many of their names are not answered.
    app.dns.set_txt("_dmarc.mail.deep.example", &[strict]);
    let sender = "a.b.c.d.deep.example";
    for name in ["deep", "d.deep", "c.d.deep", "b.c.d.deep", "a.b.c.d.deep"] {
        app.dns.silence(&format!("_dmarc.{name}.example"));
    }
    app.dns.silence(sender);
    let judgement = judged_from(&app, CLIENT, &format!("zoe@{sender}"), message("zoe@mail.deep.example")).await;
    assert!(matches!(judgement.action, InboundAction::Refuse(_)), "{judgement:?}");
    app.dns.set_txt("_dmarc.mail.deep.example", &["v=DMARC1; p=reject"]);
    let judgement = judged_from(&app, CLIENT, &format!("zoe@{sender}"), message("zoe@mail.deep.example")).await;
    assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Deliver, Temperror));
    // Whatever the signer's own name has, the organization is the same.
    app.dns.set_txt("_dmarc.mail.near.example", &["v=DMARC1; p=reject; psd=n"]);
    app.dns.silence("_dmarc.news.near.example");
    let key = FarKey::published(&app, "news.near.example");
    let judgement = judged(&app, key.signed("news.near.example", &message("zoe@mail.near.example"))).await;
    assert!(matches!(judgement.action, InboundAction::Refuse(_)), "{judgement:?}");
}

#[tokio::test]
async fn a_policy_that_cannot_be_read_is_not_replaced_by_the_parents() {
    let app = app_with(DmarcAction::Reject).await;
    app.dns.set_txt("_dmarc.far.example", &["v=DMARC1; p=reject"]);
    for own in ["v=DMARC1", "v=DMARC1; adkim=s", "v=DMARC1; p=junk", "v=DMARC1; p=reject; sp=junk"] {
        app.dns.set_txt("_dmarc.mail.far.example", &[own]);
        let judgement = judged(&app, message("zoe@mail.far.example")).await;
        assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Deliver, Nothing), "{own}");
    }
    // The parent's record names the organization, even if it asks for nothing.
    app.dns.set_txt("_dmarc.near.example", &["v=DMARC1"]);
    app.dns.set_txt("_dmarc.mail.near.example", &["v=DMARC1; p=reject"]);
    let key = FarKey::published(&app, "news.near.example");
    let judgement = judged(&app, key.signed("news.near.example", &message("zoe@mail.near.example"))).await;
    assert_eq!((&judgement.action, results(&judgement).dmarc), (&InboundAction::Deliver, Pass));
}

#[tokio::test]
async fn ordinary_mail_passes_and_says_so() {
    let app = app().await;
    app.dns.set_txt("far.example", &["v=spf1 ip4:192.0.2.7 -all"]);
    app.dns.set_txt("_dmarc.far.example", &["v=DMARC1; p=reject"]);
    let key = FarKey::published(&app, "far.example");
    let signed = key.signed("far.example", &message("Zoe <zoe@far.example>"));
    let judgement = judged(&app, signed.clone()).await;
    let expected = Results { spf: Pass, dkim: Pass, dmarc: Pass, arc: Nothing };
    assert_eq!((&judgement.action, results(&judgement)), (&InboundAction::Deliver, expected));
    let domain = || Some("far.example".to_owned());
    let named = CheckedDomain { result: Pass, domain: domain() };
    let signature = CheckedSignature { result: Pass, domain: domain(), selector: Some("s1".to_owned()) };
    let summary = Authentication { spf: named.clone(), dkim: vec![signature], dmarc: named, arc: Nothing };
    assert_eq!(judgement.authentication, Some(summary));
    let (before, rest) = judgement.fields.split_once(" header.b=\"").unwrap();
    assert_eq!(
        before,
        "Authentication-Results: mx.here.example;\r\n\tspf=pass smtp.mailfrom=far.example;\r\n\
         \tdkim=pass header.d=far.example header.s=s1"
    );
    let (_, rest) = rest.split_at(8);
    assert_eq!(rest, "\";\r\n\tdmarc=pass header.from=far.example policy.dmarc=reject;\r\n\tarc=none\r\n");

    // Blank lines that a forwarder adds do not change the relaxed form of the body (RFC 6376 section 3.4.4).
    let longer = format!("{signed} \r\n\t\r\n\r\n");
    assert_eq!(results(&judged(&app, longer).await).dkim, Pass);
    // The message may be in a file.
    let bytes = Blob::from(signed.into_bytes());
    let in_parts = Blob::joined([bytes.slice(0..50), bytes.slice(50..bytes.len())]);
    assert!(in_parts.in_memory().is_none());
    assert_eq!(results(&judged(&app, in_parts).await), expected);
}

#[tokio::test]
async fn clients_of_trusted_networks_are_not_judged() {
    let app = TestApp::start_with(|settings| {
        settings.service.inbound.trusted_networks.push("198.51.100.0/24".parse().unwrap());
    })
    .await;
    app.domain(OWN).await;
    for client in ["127.0.0.1", "::1", "::ffff:127.0.0.9", "198.51.100.9"] {
        let judgement = judged_from(&app, client, "", message("alice@here.example")).await;
        assert_eq!(judgement, Judgement::unchecked(), "{client}");
    }
    assert_ne!(judged(&app, message("alice@here.example")).await, Judgement::unchecked());
}

#[tokio::test]
async fn mail_of_a_listed_client_is_refused() {
    let app = TestApp::start_with(|settings| {
        settings.service.inbound.dnsbl = ["one.example", "two.example"].map(|list| list.parse().unwrap()).to_vec();
    })
    .await;
    app.dns.silence("7.2.0.192.one.example");
    for (answer, is_refused) in [("127.0.0.2", true), ("127.255.255.254", false), ("192.0.2.1", false), ("::1", false)]
    {
        app.dns.set_addresses("7.2.0.192.two.example", &[answer]);
        let action = judged(&app, message("zoe@far.example")).await.action;
        let refused = InboundAction::Refuse(format!("The client {CLIENT} is in the list two.example"));
        assert_eq!(action == refused, is_refused, "{answer}: {action:?}");
    }
    let v6 = "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.two.example";
    app.dns.set_addresses(v6, &["127.0.0.4"]);
    let judgement = judged_from(&app, "2001:db8::7", "", message("zoe@far.example")).await;
    assert!(matches!(judgement.action, InboundAction::Refuse(_)), "{judgement:?}");
}

#[tokio::test]
async fn an_unbroken_chain_of_forwarders_is_recorded() {
    let app = app().await;
    let key = FarKey::published(&app, "list.example");
    let original = message("zoe@far.example");
    let parsed = AuthenticatedMessage::parse(original.as_bytes()).unwrap();
    let seen = AuthenticationResults::new("mx.list.example");
    let sealer = ArcSealer::from_key(key.key()).domain("list.example").selector("s1").headers(["From", "Subject"]);
    let set = sealer.seal(&parsed, &seen, &ArcOutput::default()).unwrap();
    let sealed = format!("{}{original}", set.to_header());
    assert_eq!(results(&judged(&app, sealed.clone()).await).arc, Pass);
    for broken in [sealed.replace("Hello", "Jello"), sealed.replace("cv=none", "cv=pass")] {
        assert_eq!(results(&judged(&app, broken).await).arc, Fail);
    }
}

#[tokio::test]
async fn rsa_signatures_pass() {
    let app = app().await;
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let der = AsDer::<Pkcs8V1Der<'_>>::as_der(&pair).unwrap();
    let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
    let record = format!("v=DKIM1; k=rsa; p={}", STANDARD.encode(public.as_ref()));
    app.dns.set_txt("s1._domainkey.far.example", &[&record]);
    let private = rustls_pki_types::PrivatePkcs8KeyDer::from(der.as_ref());
    let key = RsaKey::<Sha256>::from_key_der(private.into()).unwrap();
    let signer = DkimSigner::from_key(key).domain("far.example").selector("s1").headers(["From"]);
    let text = message("zoe@far.example");
    let signed = format!("{}{text}", signer.sign(text.as_bytes()).unwrap().to_header());
    assert_eq!(results(&judged(&app, signed).await).dkim, Pass);
}

/// Any lines but empty ones, which would end the header.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        2 => prop::collection::vec(any::<u8>().prop_filter("no line end", |b| !b"\r\n".contains(b)), 1..40),
        2 => "(DKIM-Signature|ARC-Seal|ARC-Message-Signature|ARC-Authentication-Results|Authentication-Results|To|Sender|X)[ :]{1,2}[ -~]{0,60}".prop_map(String::into_bytes),
        1 => "(v=1; a=ed25519-sha256; |d=far.example; |d=here.example; |s=s1; |h=From:To; |bh=AAAA; |b=AAAA; |[ -~]{1,9}){1,9}".prop_map(|tags| format!("DKIM-Signature: {tags}").into_bytes()),
    ];
    prop::collection::vec(line, 0..6)
        .prop_map(|lines| lines.into_iter().flat_map(|line| [line, b"\r\n".to_vec()].concat()).collect())
}

#[test]
fn no_header_makes_a_forged_author_pass() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let app = runtime.block_on(app());
    app.dns.set_txt("far.example", &["v=spf1 +all"]);
    app.dns.set_txt("_dmarc.here.example", &["v=DMARC1; p=none"]);
    FarKey::published(&app, "far.example");
    proptest!(ProptestConfig::with_cases(100), |(before in lines(), after in lines(), bytes in prop::collection::vec(any::<u8>(), 0..300))| {
        // A line that starts with white space continues the field before it, which is not From.
        let hostile = [before.as_slice(), b"From: alice@here.example\r\nX: y\r\n", after.as_slice(), b"\r\nHello\r\n"].concat();
        let judgement = runtime.block_on(judged(&app, hostile));
        prop_assert_eq!(&judgement.action, &InboundAction::Junk);
        prop_assert!(results(&judgement).dmarc != Pass && results(&judgement).dkim != Pass, "{:?}", judgement);
        let field = &judgement.fields;
        prop_assert!(field.is_ascii() && field.ends_with("\r\n") && field.len() < 10_000);
        prop_assert!(field.trim_end().lines().skip(1).all(|line| line.starts_with('\t')), "{}", field);
        let judgement = runtime.block_on(judged(&app, bytes));
        prop_assert!(results(&judgement).dkim != Pass && results(&judgement).arc != Pass);
    });
}

/// Signatures by dkimpy, another implementation. The bodies end with blank lines that contain white space.
#[tokio::test]
async fn signatures_of_another_program_pass() {
    let app = app().await;
    app.dns.set_txt("foreign._domainkey.far.example", &[include_str!("../inbound/key.txt").trim_end()]);
    for (text, arc) in [
        (include_str!("../inbound/relaxed.eml"), Nothing),
        (include_str!("../inbound/simple.eml"), Nothing),
        (include_str!("../inbound/forwarded.eml"), Pass),
    ] {
        let text = text.replace('\n', "\r\n");
        let found = results(&judged(&app, text.clone()).await);
        assert_eq!((found.dkim, found.arc), (Pass, arc), "{text}");
        let changed = results(&judged(&app, text.replace("Hello  you", "Hello  me")).await);
        assert_eq!((changed.dkim, changed.arc == Pass), (Fail, false), "{text}");
    }
}
