//! The admin token of a first start.

use mailapi_model::{TokenKind, TokenValue};
use mailapi_service::tokens::CreateToken;
use mailapi_service::{Caller, Service};

use crate::data_dir::DataDir;
use crate::failure::Outcome;

/// The token's name in lists.
const NAME: &str = "initial admin";

/// Makes the token when there was never one of an admin, and leaves it in its file. A revoked one counts: a restart must
/// not open a door that somebody has closed.
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
