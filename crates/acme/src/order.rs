//! One order, from the names to the certificate (RFC 8555 section 7.4).

use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeHandle, ChallengeType, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use mailapi_tls::{Challenges, OpenChallenge};
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::AcmeError;

/// How long the authority may take to check the names, and then to issue the certificate.
const POLL: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// Orders a certificate for `names`, with a new key. Returns the key, the certificate and its chain as one PEM text.
pub(crate) async fn order(
    account: &Account,
    names: &[String],
    challenge: ChallengeType,
    replaced: Option<CertificateIdentifier<'_>>,
    challenges: &Challenges,
) -> Result<String, AcmeError> {
    let identifiers: Vec<_> = names.iter().cloned().map(Identifier::Dns).collect();
    let mut new = NewOrder::new(&identifiers);
    if let Some(replaced) = replaced {
        new = new.replaces(replaced);
    }
    let mut order = account.new_order(&new).await?;
    if let Err(error) = check(&mut order, &challenge, challenges).await {
        return Err(refusal(&mut order, error).await);
    }
    let key = KeyPair::generate()?;
    order.finalize_csr(&request(names, &key)?).await?;
    let chain = order.poll_certificate(&POLL).await?;
    Ok(format!("{}{chain}", key.serialize_pem()))
}

/// Lets the authority check each name. It may fail a challenge while that is still being answered, or later.
async fn check(order: &mut Order, challenge: &ChallengeType, challenges: &Challenges) -> Result<(), AcmeError> {
    let _answers = answer(order, challenge, challenges).await?;
    match order.poll_ready(&POLL).await? {
        OrderStatus::Ready => Ok(()),
        _ => Err(AcmeError::authority("the authority refused the order")),
    }
}

/// Answers the challenge of each name that the authority has not checked lately.
async fn answer(
    order: &mut Order,
    challenge: &ChallengeType,
    challenges: &Challenges,
) -> Result<Vec<OpenChallenge>, AcmeError> {
    let (mut answers, mut authorizations) = (Vec::new(), order.authorizations());
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => return Err(AcmeError::authority(format!("an authorization is {other:?}").to_lowercase())),
        }
        let offered = authorization.challenge(challenge.clone());
        let mut offered = offered.ok_or_else(|| AcmeError::authority(format!("{challenge:?} is not offered")))?;
        answers.push(present(&offered, challenge, challenges)?);
        offered.set_ready().await?;
    }
    Ok(answers)
}

/// Lets the listeners answer a challenge.
fn present(
    offered: &ChallengeHandle<'_>,
    challenge: &ChallengeType,
    challenges: &Challenges,
) -> Result<OpenChallenge, AcmeError> {
    let proof = offered.key_authorization();
    if *challenge == ChallengeType::Http01 {
        return Ok(challenges.answer_over_http(&offered.token, proof.as_str().to_owned()));
    }
    let name = offered.identifier().to_string();
    let mut params = CertificateParams::new(vec![name.clone()])?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(proof.digest().as_ref())];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    Ok(challenges.answer_over_tls(&name, certificate, key)?)
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
