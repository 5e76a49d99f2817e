//! Analysis of arbitrary messages.

use std::sync::Arc;

use mailapi_model::Blob;
use mailapi_security::{Correspondent, KnownNames, Surroundings, Verdict, analyze, bounds};

/// Checks that a report is bounded, and that its verdict follows from its signs.
pub(crate) fn check(input: &[u8]) {
    let own = ["example.org", "company-name.co.uk"].map(|domain| domain.parse().unwrap());
    let own_names = Arc::new(KnownNames::of(own));
    let person = |name: &str, address: &str| Correspondent { name: name.to_owned(), address: address.to_owned() };
    let surroundings = Surroundings {
        own_names,
        own_checker: Some("mx.example.org".to_owned()),
        correspondents: vec![person("Ann Lee", "ann@example.org"), person("Carl", "carl@partner.net")],
    };
    let report = analyze(&Blob::from(input.to_vec()), &surroundings).unwrap();
    let points: u32 = report.reasons.iter().map(|reason| u32::from(reason.sign.severity().points())).sum();
    assert_eq!(u32::from(report.score), points.min(100));
    match report.verdict {
        Verdict::Dangerous => assert!(points >= 70),
        Verdict::Suspicious => assert!((30..70).contains(&points)),
        Verdict::Clean => assert!(points < 30 && !report.is_partial),
        Verdict::Unknown => assert!(points < 30 && report.is_partial),
    }
    for reason in &report.reasons {
        assert!(reason.evidence.len() <= bounds::EVIDENCE_PIECES);
        assert!(reason.evidence.iter().all(|piece| piece.chars().count() <= bounds::EVIDENCE_CHARS));
    }
    assert!(report.links.len() <= bounds::LISTED_LINKS);
}
