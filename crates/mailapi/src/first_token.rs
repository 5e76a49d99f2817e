//! The admin token of the first start.

use mailapi_model::{TokenKind, TokenValue};
use mailapi_service::tokens::CreateToken;
use mailapi_service::{Caller, Service};

use crate::data_dir::DataDir;
use crate::failure::Outcome;
use crate::system::SystemEntropy;

/// The token's name in lists.
const NAME: &str = "initial admin";

/// Creates the token if no admin token ever existed, and writes it to its file. A revoked token counts, so that a
/// restart does not restore revoked access.
pub(crate) async fn ensure(service: &Service, directory: &DataDir) -> Outcome<Option<TokenValue>> {
    if service.has_had_admin_token().await? {
        return Ok(None);
    }
    let value = TokenValue::random_api(&SystemEntropy);
    // The file is written first: the next start creates no token again, so the value of a stored token must be durable.
    directory.write_admin_token(value.expose())?;
    let new = CreateToken { name: NAME.to_owned(), kind: TokenKind::Admin, email: None, expires_at: None };
    let stored = service.create_token_with(&Caller::operator(), new, &value).await;
    // After a lost connection, the token may be stored despite the error. Its value must then be kept.
    if stored.is_err() && matches!(service.has_had_admin_token().await, Ok(false)) {
        directory.remove_admin_token()?;
    }
    stored?;
    Ok(Some(value))
}
