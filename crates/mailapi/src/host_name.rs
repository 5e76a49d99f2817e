//! Checks whether `mail.embedded.hostname` must be set: other servers must be able to resolve the mail server's
//! name.

use mailapi_model::{Domain, Page};
use mailapi_service::{Caller, Service, is_local_name};

use crate::config::Config;
use crate::failure::Outcome;

/// Key of the setting.
pub(crate) const KEY: &str = "mail.embedded.hostname";

/// Advice wherever the name is missing.
pub(crate) const ADVICE: &str = "set mail.embedded.hostname to this server's name in DNS";

/// Returns why the name must be set, as far as the configuration shows.
pub(crate) fn missing(config: &Config) -> Option<String> {
    let host = config.mail_host();
    if !is_local_name(&host) {
        return None;
    }
    let (key, address) = config.public_listener()?;
    Some(format!("other servers cannot find `{host}`, and {key} is {address}"))
}

/// Returns why the name must be set, as far as the configuration or the domains show.
pub(crate) async fn missing_with(config: &Config, service: &Service) -> Outcome<Option<String>> {
    let host = config.mail_host();
    if !is_local_name(&host) {
        return Ok(None);
    }
    if let Some(why) = missing(config) {
        return Ok(Some(why));
    }
    let verified = verified_domain(service).await?;
    Ok(verified.map(|domain| format!("other servers cannot find `{host}`, and {} was verified", domain.name.shown())))
}

/// Returns a domain whose DNS records were verified.
async fn verified_domain(service: &Service) -> Outcome<Option<Domain>> {
    let mut seen = 0;
    loop {
        let page = service.list_domains(&Caller::operator(), Page::new(Page::MAX_LIMIT, seen)).await?;
        seen += page.items.len() as u64;
        let is_last = page.items.is_empty() || seen >= page.total;
        let found = page.items.into_iter().find(|domain| domain.verified_at.is_some());
        if found.is_some() || is_last {
            return Ok(found);
        }
    }
}
