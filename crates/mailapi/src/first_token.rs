//! The admin token of the first start.

use mailapi_model::{TokenKind, TokenValue};
use mailapi_service::tokens::CreateToken;
use mailapi_service::{Caller, Service};

use crate::data_dir::DataDir;
use crate::failure::Outcome;

/// The token's name in lists.
const NAME: &str = "initial admin";

/// Creates the token if no admin token ever existed, and writes it to its file. A revoked token counts, so that a
/// restart does not restore revoked access.
pub(crate) async fn ensure(service: &Service, directory: &DataDir) -> Outcome<Option<TokenValue>> {
    let operator = Caller::operator();
    if service.has_had_admin_token().await? {
        return Ok(None);
    }
    let new = CreateToken { name: NAME.to_owned(), kind: TokenKind::Admin, email: None, expires_at: None };
    let (_, value) = service.create_token(&operator, new).await?;
    directory.write_admin_token(value.expose())?;
    Ok(Some(value))
}
