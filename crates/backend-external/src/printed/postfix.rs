//! Prints lookup tables for Postfix, and a script that configures it.

use super::dovecot::Certificate;
use super::file::PrintedFile;
use super::lookup::LookupDatabase;

/// A Postfix that accepts mail from mailapi, and for the mailboxes of its database.
#[derive(Debug)]
pub struct PostfixConfiguration<'a> {
    /// The database for account look-ups.
    pub database: &'a LookupDatabase,
    /// The loopback port on which it accepts mail from mailapi.
    pub smtp_port: u16,
    /// The first part of its syslog tags.
    pub syslog_name: &'a str,
    /// The certificate of its submission listener; `None` keeps the one in main.cf.
    pub certificate: Certificate<'a>,
}

impl PostfixConfiguration<'_> {
    /// The default directory of the tables on Postfix's machine.
    pub const DIRECTORY: &'static str = "/etc/postfix/mailapi";

    /// Returns the type of the lookup tables, as in `proxy:TYPE:FILE`.
    #[must_use]
    pub const fn table_kind(&self) -> &'static str {
        match self.database {
            LookupDatabase::Sqlite(_) => "sqlite",
            LookupDatabase::Postgres(_) => "pgsql",
        }
    }

    /// Returns the tables for a Postfix that reads them from `directory`, and a script that edits main.cf and
    /// master.cf with postconf(1). The script is idempotent.
    #[must_use]
    pub fn files(&self, directory: &str) -> Vec<PrintedFile> {
        let map = |name: &'static str, query: &str| PrintedFile::secret(name, map(self.database, query));
        vec![
            map("domains.cf", "SELECT domain FROM mailapi_virtual_domains WHERE domain = '%s'"),
            // A disabled mailbox still receives mail.
            map("mailboxes.cf", "SELECT email FROM mailapi_virtual_mailboxes WHERE email = '%s' AND receives"),
            map("aliases.cf", "SELECT member FROM mailapi_virtual_aliases WHERE address = '%s'"),
            map("senders.cf", "SELECT login FROM mailapi_sender_logins WHERE sender = '%s'"),
            PrintedFile::script("apply.sh", self.script(directory)),
        ]
    }
}

fn map(database: &LookupDatabase, query: &str) -> String {
    match database {
        LookupDatabase::Sqlite(file) => format!("dbpath = {}\nquery = {query}\n", file.display()),
        LookupDatabase::Postgres(place) => {
            // A socket directory: Postfix requires the prefix `unix:` and takes no port.
            let host = if place.host.starts_with('/') { format!("unix:{}", place.host) } else { place.host.clone() };
            let address = if place.host.starts_with('/') { host } else { format!("{host}:{}", place.port) };
            let password = place.password.as_ref().map(|password| password.expose().as_str()).unwrap_or_default();
            let (user, name) = (&place.user, &place.name);
            format!(
                "hosts = {address}\nuser = {user}\npassword = {password}\ndbname = {name}\n\
                 query = {query}\n"
            )
        }
    }
}

impl PostfixConfiguration<'_> {
    /// Returns the script. The listener for mailapi relays to every domain, so it listens on loopback only. A mailapi
    /// on another machine must use the submission listener.
    fn script(&self, directory: &str) -> String {
        let (port, name, kind) = (self.smtp_port, self.syslog_name, self.table_kind());
        let certificate = self.certificate.map(|(certificate, key)| {
            let (certificate, key) = (certificate.display(), key.display());
            // Clear the older parameters: Postfix would warn about them.
            format!(
                "postconf -e 'smtpd_tls_chain_files = {key}, {certificate}' 'smtpd_tls_security_level = may'\n\
                 postconf -e 'smtpd_tls_cert_file =' 'smtpd_tls_key_file ='\n"
            )
        });
        format!(
            r#"#!/bin/sh
# Sets Postfix up for mailapi. It may be run again; `postfix reload` makes it take effect.
set -eu

# Long queue ids are never reused; with short ones, the log could mix up messages.
postconf -e 'enable_long_queue_ids = yes'
postconf -e 'syslog_name = {name}'
# The group of its directory may read a log that Postfix 3.9 or later creates. Earlier versions warn about the name.
[ "$(postconf -h maillog_file_permissions 2>/dev/null)" != 0600 ] || postconf -e 'maillog_file_permissions = 0640'

# Domains, mailboxes and aliases come from mailapi's database; Dovecot delivers.
postconf -e 'virtual_mailbox_domains = proxy:{kind}:{directory}/domains.cf'
postconf -e 'virtual_mailbox_maps = proxy:{kind}:{directory}/mailboxes.cf'
postconf -e 'virtual_alias_maps = proxy:{kind}:{directory}/aliases.cf'
postconf -e 'virtual_transport = lmtp:unix:private/dovecot-lmtp'
postconf -e 'recipient_delimiter = +'
postconf -e 'smtpd_relay_restrictions = permit_mynetworks, permit_sasl_authenticated, reject_unauth_destination'
postconf -e 'smtpd_sender_login_maps = proxy:{kind}:{directory}/senders.cf'
postconf -e 'proxy_read_maps = $virtual_mailbox_domains $virtual_mailbox_maps $virtual_alias_maps $virtual_alias_domains $local_recipient_maps $mydestination $canonical_maps $sender_canonical_maps $recipient_canonical_maps $relocated_maps $transport_maps $mynetworks $smtpd_sender_login_maps'
postconf -e 'smtputf8_enable = yes'

# Users submit mail with their own passwords, which Dovecot verifies.
postconf -e 'smtpd_sasl_type = dovecot'
postconf -e 'smtpd_sasl_path = private/auth'
{certificate}postconf -M 'submission/inet=submission inet n - y - - smtpd'
postconf -P 'submission/inet/syslog_name={name}/submission'
postconf -P 'submission/inet/smtpd_tls_security_level=encrypt'
postconf -P 'submission/inet/smtpd_sasl_auth_enable=yes'
postconf -P 'submission/inet/smtpd_sender_restrictions=reject_authenticated_sender_login_mismatch'
postconf -P 'submission/inet/smtpd_relay_restrictions=permit_sasl_authenticated,reject'

# mailapi submits mail from this machine.
postconf -M '127.0.0.1:{port}/inet=127.0.0.1:{port} inet n - y - - smtpd'
postconf -P '127.0.0.1:{port}/inet/syslog_name={name}/api'
postconf -P '127.0.0.1:{port}/inet/mynetworks=127.0.0.0/8'
postconf -P '127.0.0.1:{port}/inet/smtpd_tls_security_level=none'
postconf -P '127.0.0.1:{port}/inet/smtpd_relay_restrictions=permit_mynetworks,reject'
postconf -P '127.0.0.1:{port}/inet/smtpd_recipient_restrictions='
postconf -P '127.0.0.1:{port}/inet/smtpd_client_restrictions=permit_mynetworks,reject'
postconf -P '127.0.0.1:{port}/inet/smtpd_client_event_limit_exceptions=127.0.0.0/8'
"#,
            certificate = certificate.unwrap_or_default(),
        )
    }
}
