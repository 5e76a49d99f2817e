//! One order, from the names to the certificate (RFC 8555 section 7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use mailapi_tls::{Challenges, OpenChallenge};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::server_key::ServerKey;
use crate::{AcmeError, ChallengeRecords};

/// How long the authority may take to check the names, and then to issue the certificate.
const POLL: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// How the checks of names are answered.
pub(crate) struct Answers<'a> {
    pub(crate) way: ChallengeType,
    pub(crate) listeners: &'a Challenges,
    pub(crate) records: Option<&'a dyn ChallengeRecords>,
}

/// An answer that lasts until the authority has checked the names.
enum OpenAnswer {
    /// The listeners answer while it lives.
    AtListener(#[expect(dead_code, reason = "its end ends the answer")] OpenChallenge),
    /// A text is published about a name.
    InDns { name: String, text: String },
}

/// Orders a certificate for `names` and this key. Returns the key, the certificate and its chain as one PEM text.
pub(crate) async fn order(
    account: &Account,
    names: &[String],
    replaced: Option<CertificateIdentifier<'_>>,
    answers: &Answers<'_>,
    key: &ServerKey,
) -> Result<String, AcmeError> {
    let identifiers: Vec<_> = names.iter().cloned().map(Identifier::Dns).collect();
    let mut new = NewOrder::new(&identifiers);
    if let Some(replaced) = replaced {
        new = new.replaces(replaced);
    }
    let mut order = account.new_order(&new).await?;
    if let Err(error) = answers.check(&mut order).await {
        return Err(refusal(&mut order, error).await);
    }
    order.finalize_csr(&request(names, key.pair())?).await?;
    let chain = order.poll_certificate(&POLL).await?;
    Ok(format!("{}{chain}", key.to_pem()))
}

impl Answers<'_> {
    /// Lets the authority check each name. It may fail a challenge while that is still being answered, or later.
    async fn check(&self, order: &mut Order) -> Result<(), AcmeError> {
        let mut open = Vec::new();
        let checked = self.checked(order, &mut open).await;
        if let Some(records) = self.records {
            for answer in &open {
                if let OpenAnswer::InDns { name, text } = answer {
                    records.withdraw(name, text).await;
                }
            }
        }
        checked
    }

    async fn checked(&self, order: &mut Order, open: &mut Vec<OpenAnswer>) -> Result<(), AcmeError> {
        self.answer(order, open).await?;
        match order.poll_ready(&POLL).await? {
            OrderStatus::Ready => Ok(()),
            _ => Err(AcmeError::authority("the authority refused the order")),
        }
    }

    /// Answers the challenge of each name that the authority has not checked lately.
    async fn answer(&self, order: &mut Order, open: &mut Vec<OpenAnswer>) -> Result<(), AcmeError> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                other => return Err(AcmeError::authority(format!("an authorization is {other:?}").to_lowercase())),
            }
            let offered = authorization.challenge(self.way.clone());
            let mut offered = offered.ok_or_else(|| AcmeError::authority(format!("{:?} is not offered", self.way)))?;
            match (&self.way, self.records) {
                (ChallengeType::Dns01, Some(records)) => self.publish(&offered, records, open).await?,
                _ => open.push(OpenAnswer::AtListener(self.present(&offered)?)),
            }
            offered.set_ready().await?;
        }
        Ok(())
    }

    async fn publish(
        &self,
        offered: &ChallengeHandle<'_>,
        records: &dyn ChallengeRecords,
        open: &mut Vec<OpenAnswer>,
    ) -> Result<(), AcmeError> {
        let (name, text) = (offered.identifier().to_string(), offered.key_authorization().dns_value());
        // Also withdrawn if it is published, and not seen in time.
        open.push(OpenAnswer::InDns { name: name.clone(), text: text.clone() });
        let failed = |why| AcmeError::Records(format!("the record for {name} could not be published: {why}"));
        records.publish(&name, &text).await.map_err(failed)
    }

    /// Lets the listeners answer a challenge.
    fn present(&self, offered: &ChallengeHandle<'_>) -> Result<OpenChallenge, AcmeError> {
        let proof = offered.key_authorization();
        if self.way == ChallengeType::Http01 {
            return Ok(self.listeners.answer_over_http(&offered.token, proof.as_str().to_owned()));
        }
        let name = offered.identifier().to_string();
        let mut params = CertificateParams::new(vec![name.clone()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(proof.digest().as_ref())];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(self.listeners.answer_over_tls(&name, certificate, key)?)
    }
}

/// Returns the request of a certificate for the names and this key.
fn request(names: &[String], key: &KeyPair) -> Result<Vec<u8>, AcmeError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.der().to_vec())
}

/// Returns why the authority refused the order: what it found at the first name that it could not check, which says more
/// than the error of the `order` itself.
async fn refusal(order: &mut Order, otherwise: AcmeError) -> AcmeError {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { break };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return AcmeError::authority(format!("{} could not be checked: {problem}", state.identifier()));
        }
    }
    otherwise
}
