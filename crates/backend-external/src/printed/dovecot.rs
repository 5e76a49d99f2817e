//! Prints a complete dovecot.conf and its companion files.

use std::path::Path;

use mailapi_model::SecretText;

use super::file::PrintedFile;
use super::lookup::{LookupDatabase, PostgresPlace};

/// Versions with different settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DovecotVersion {
    /// 2.3, as in Debian 12.
    V2_3,
    /// 2.4, as in Debian 13.
    V2_4,
}

/// The files of the certificate and its key. Without them Dovecot has no TLS and listens on loopback only.
pub type Certificate<'a> = Option<(&'a Path, &'a Path)>;

/// A Dovecot that serves the mailboxes of mailapi's database and delivers to them.
#[derive(Debug)]
pub struct DovecotConfiguration<'a> {
    /// The database for account look-ups.
    pub database: &'a LookupDatabase,
    /// The version that reads the files.
    pub version: DovecotVersion,
    /// The IMAP port.
    pub imap_port: u16,
    /// The user that may act as every mailbox.
    pub master_user: &'a str,
    /// The master user's password.
    pub master_password: SecretText,
    /// The separator between mailbox and master user in a login name.
    pub master_separator: &'a str,
    /// Whether mail programs log in with app passwords only.
    pub require_app_passwords: bool,
    /// Whether Dovecot applies the rules of mailboxes with Sieve.
    pub applies_rules: bool,
    /// The port of the administration interface over HTTP, and its API key.
    pub doveadm: Option<(u16, SecretText)>,
    /// The certificate shown to mail programs.
    pub certificate: Certificate<'a>,
}

// No password matches a disabled account, but the master user still finds its mailbox.
const PASSWORD: &str = "SELECT email AS \"user\", CASE WHEN active THEN password_hash ELSE '{CRYPT}*' END AS password \
    FROM mailapi_credentials WHERE email = ";
// As for a disabled account: only an app password opens the mailbox.
const NO_PASSWORD: &str = "SELECT email AS \"user\", '{CRYPT}*' AS password FROM mailapi_credentials WHERE email = ";
// One row at most, which Dovecot verifies. Only 16 bits of a hash of the typed password are part of the query, which the
// database may log: a password that no app password matches may be a mistyped main password.
const APP_PASSWORD: &str =
    "SELECT email AS \"user\", password_hash AS password FROM mailapi_app_passwords WHERE email = ";
/// The companion file with the query of app passwords, for version 2.3.
const APP_PASSWORD_FILE: &str = "mailapi-app-passwords.conf.ext";
/// The companion file of the dictionary with the rules, for version 2.3.
const RULES_FILE: &str = "mailapi-rules.conf.ext";
/// The dictionary of Sieve scripts: the name has the version of the script, and the version the script.
const RULES_MAPS: &str = "map {
  pattern = priv/sieve/name/rules
  table = mailapi_rules
  username_field = email
  value_field = version
}
map {
  pattern = priv/sieve/data/$version
  table = mailapi_rules
  username_field = email
  value_field = script
  fields {
    version = $version
  }
}
";
/// The characters of an unquoted address (RFC 5321 section 4.1.2), without the separator of the master user.
const USERNAME_CHARS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01234567890.-_@+'!#$%&/=?^`{|}~";
const ITERATE: &str = "SELECT email AS \"user\" FROM mailapi_virtual_mailboxes";

impl DovecotConfiguration<'_> {
    /// The default directory of the files on Dovecot's machine.
    pub const DIRECTORY: &'static str = "/etc/dovecot";

    /// Returns the files, for a Dovecot that reads them from `directory`.
    #[must_use]
    pub fn files(&self, directory: &str) -> Vec<PrintedFile> {
        let mut files = vec![PrintedFile::secret(
            "mailapi-master-users",
            format!("{}:{{PLAIN}}{}\n", self.master_user, self.master_password.expose()),
        )];
        let shape = Shape {
            directory,
            separator: self.master_separator,
            password: if self.require_app_passwords { NO_PASSWORD } else { PASSWORD },
            imap_port: self.imap_port,
            rules_driver: self.applies_rules.then(|| driver(self.database)),
            doveadm: self.doveadm.as_ref().map(|(port, key)| (*port, key.expose().as_str())),
            certificate: self.certificate,
        };
        let main = match self.version {
            DovecotVersion::V2_3 => {
                files.push(PrintedFile::secret("mailapi-sql.conf.ext", sql_2_3(self.database, shape.password)));
                files.push(PrintedFile::secret(APP_PASSWORD_FILE, app_passwords_2_3(self.database)));
                if self.applies_rules {
                    files.push(PrintedFile::secret(RULES_FILE, connect_line_2_3(self.database) + RULES_MAPS));
                }
                shape.main_2_3()
            }
            DovecotVersion::V2_4 => shape.main_2_4(self.database),
        };
        files.push(PrintedFile::secret("dovecot.conf", main));
        files
    }
}

const fn driver(database: &LookupDatabase) -> &'static str {
    match database {
        LookupDatabase::Sqlite(_) => "sqlite",
        LookupDatabase::Postgres(_) => "pgsql",
    }
}

fn connect_2_3(database: &LookupDatabase) -> String {
    format!("driver = {}\n{}", driver(database), connect_line_2_3(database))
}

fn connect_line_2_3(database: &LookupDatabase) -> String {
    let connect = match database {
        LookupDatabase::Sqlite(file) => file.display().to_string(),
        LookupDatabase::Postgres(place) => libpq(place),
    };
    format!("connect = {connect}\n")
}

fn app_passwords_2_3(database: &LookupDatabase) -> String {
    let connect = connect_2_3(database);
    format!("{connect}password_query = {APP_PASSWORD}'%Lu' AND lookup_key = '%{{sha256;truncate=16:password}}'\n")
}

fn sql_2_3(database: &LookupDatabase, password: &str) -> String {
    let connect = connect_2_3(database);
    format!(
        "{connect}password_query = {password}'%Lu'\n\
         user_query = SELECT email AS \"user\", COALESCE('*:bytes=' || quota_bytes, '*:storage=0') AS quota_rule \
         FROM mailapi_virtual_mailboxes WHERE email = '%Lu' AND (receives OR '%Ls' <> 'lmtp')\n\
         iterate_query = {ITERATE}\n"
    )
}

fn sql_2_4(database: &LookupDatabase) -> String {
    match database {
        LookupDatabase::Sqlite(file) => {
            format!("sql_driver = sqlite\nsqlite_path = {}\n", quoted(&file.display().to_string()))
        }
        LookupDatabase::Postgres(place) => {
            let (host, name, user) = (quoted(&place.host), quoted(&place.name), quoted(&place.user));
            let password = place.password.as_ref().map(|word| format!("    password = {}\n", quoted(word.expose())));
            format!(
                "sql_driver = pgsql\npgsql {host} {{\n  parameters {{\n    port = {}\n    dbname = {name}\n    \
                 user = {user}\n{}  }}\n}}\n",
                place.port,
                password.unwrap_or_default()
            )
        }
    }
}

/// Quotes a value for Dovecot 2.4.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns a libpq connection string with quoted values.
fn libpq(place: &PostgresPlace) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let password = place.password.as_ref().map(|password| format!(" password={}", quoted(password.expose())));
    let (host, user, name) = (quoted(&place.host), quoted(&place.user), quoted(&place.name));
    format!("host={host} port={} dbname={name} user={user}{}", place.port, password.unwrap_or_default())
}

/// The settings that both versions share.
struct Shape<'a> {
    directory: &'a str,
    separator: &'a str,
    /// The query for the password of a mailbox, without the address.
    password: &'a str,
    imap_port: u16,
    /// The driver of the dictionary with the rules, if Dovecot applies them.
    rules_driver: Option<&'static str>,
    doveadm: Option<(u16, &'a str)>,
    certificate: Certificate<'a>,
}

impl Shape<'_> {
    fn main_2_3(&self) -> String {
        let Self { directory, separator, .. } = self;
        let tls = match self.certificate {
            Some((certificate, key)) => format!(
                "ssl = required\nssl_cert = <{}\nssl_key = <{}\nlisten = *, ::\n",
                certificate.display(),
                key.display()
            ),
            None => "ssl = no\nlisten = 127.0.0.1\n".to_owned(),
        };
        let key = self.doveadm.as_ref().map(|(_, key)| format!("doveadm_api_key = {key}\n")).unwrap_or_default();
        format!(
            r#"# Dovecot 2.3 for mailapi.
protocols = imap lmtp
{tls}disable_plaintext_auth = yes

auth_mechanisms = plain login
auth_master_user_separator = {separator}
auth_username_chars = {USERNAME_CHARS}
passdb {{
  driver = passwd-file
  args = {directory}/mailapi-master-users
  master = yes
  result_success = continue
}}
passdb {{
  driver = sql
  args = {directory}/mailapi-sql.conf.ext
}}
passdb {{
  driver = sql
  args = {directory}/{APP_PASSWORD_FILE}
}}
userdb {{
  driver = sql
  args = {directory}/mailapi-sql.conf.ext
}}

mail_uid = vmail
mail_gid = vmail
first_valid_uid = 100
mail_home = /var/mail/vhosts/%d/%n
mail_location = maildir:~/Maildir
mailbox_list_index = yes
mail_max_userip_connections = 20
recipient_delimiter = +
lmtp_save_to_detail_mailbox = no
namespace inbox {{
  inbox = yes
  separator = /
{folders}}}

mail_plugins = quota
protocol imap {{
  mail_plugins = $mail_plugins imap_quota
}}
plugin {{
  quota = count:User quota
  quota_vsizes = yes
  quota_rule = *:storage=0
  quota_grace = 0
}}

{rules}{services}{key}"#,
            folders = folders(),
            rules = self.rules_2_3(),
            services = self.services("address"),
        )
    }

    /// Returns the settings of Sieve. If the look-up of a script fails, Dovecot defers the message.
    fn rules_2_3(&self) -> String {
        let Some(driver) = self.rules_driver else { return String::new() };
        format!(
            r#"protocol lmtp {{
  mail_plugins = $mail_plugins sieve
}}
dict {{
  mailapi-rules = {driver}:{directory}/{RULES_FILE}
}}
plugin {{
  sieve_before = dict:proxy::mailapi-rules;name=rules;bindir=~/.mailapi-rules
  {limits}
}}
{service}"#,
            directory = self.directory,
            limits = SIEVE_LIMITS.trim_end().replace('\n', "\n  "),
            service = dict_service(driver),
        )
    }

    fn main_2_4(&self, database: &LookupDatabase) -> String {
        let Self { directory, separator, password, .. } = self;
        let tls = match self.certificate {
            Some((certificate, key)) => format!(
                "ssl = required\nssl_server_cert_file = {}\nssl_server_key_file = {}\nlisten = *, ::\n",
                quoted(&certificate.display().to_string()),
                quoted(&key.display().to_string())
            ),
            None => "ssl = no\nlisten = 127.0.0.1\n".to_owned(),
        };
        let sql = sql_2_4(database);
        let separator = quoted(separator);
        let key = self.doveadm.map(|(_, key)| format!("doveadm_api_key = {}\n", quoted(key))).unwrap_or_default();
        format!(
            r#"# Dovecot 2.4 for mailapi.
dovecot_config_version = 2.4.0
dovecot_storage_version = 2.4.0
protocols {{
  imap = yes
  lmtp = yes
}}
{tls}auth_allow_cleartext = no

auth_mechanisms {{
  plain = yes
  login = yes
}}
auth_master_user_separator = {separator}
auth_username_chars = "{USERNAME_CHARS}"
{sql}passdb passwd-file {{
  passwd_file_path = {directory}/mailapi-master-users
  master = yes
  result_success = continue
}}
passdb sql {{
  query = {password}'%{{user | lower}}'
}}
passdb app-passwords {{
  passdb_driver = sql
  passdb_sql_query = {APP_PASSWORD}'%{{user | lower}}' \
    AND lookup_key = '%{{password | sha256 | hexlify | substr(0, 4)}}'
}}
userdb sql {{
  query = SELECT email AS "user", COALESCE(quota_bytes || 'B', 'unlimited') AS quota_storage_size \
    FROM mailapi_virtual_mailboxes WHERE email = '%{{user | lower}}' AND (receives OR '%{{protocol}}' <> 'lmtp')
  iterate_query = {ITERATE}
}}

mail_uid = vmail
mail_gid = vmail
first_valid_uid = 100
mail_home = /var/mail/vhosts/%{{user | domain}}/%{{user | username}}
mail_driver = maildir
mail_path = ~/Maildir
mail_max_userip_connections = 20
recipient_delimiter = +
namespace inbox {{
  inbox = yes
  separator = /
{folders}}}

mail_plugins {{
  quota = yes
}}
protocol imap {{
  mail_plugins {{
    imap_quota = yes
  }}
}}
quota "User quota" {{
}}
quota_storage_grace = 0

{rules}{services}{key}"#,
            folders = folders(),
            rules = self.rules_2_4(),
            services = self.services("listen"),
        )
    }

    /// As [`Shape::rules_2_3`]. The dictionary uses the database of the accounts.
    fn rules_2_4(&self) -> String {
        let Some(driver) = self.rules_driver else { return String::new() };
        format!("{RULES_2_4}{SIEVE_LIMITS}{}", dict_service(driver))
    }

    /// Returns the listeners. The versions differ only in the setting of a listener's address.
    fn services(&self, address: &str) -> String {
        let port = self.imap_port;
        // Port 0 disables a listener that Dovecot enables by default.
        let imaps = if self.certificate.is_some() { 993 } else { 0 };
        let mut text = format!(
            "service imap-login {{\n  inet_listener imap {{\n    port = {port}\n  }}\n  inet_listener imaps {{\n    port = {imaps}\n  }}\n}}\n\
             service lmtp {{\n  unix_listener /var/spool/postfix/private/dovecot-lmtp {{\n    mode = 0600\n    \
             user = postfix\n    group = postfix\n  }}\n}}\n\
             service auth {{\n  unix_listener /var/spool/postfix/private/auth {{\n    mode = 0660\n    \
             user = postfix\n    group = postfix\n  }}\n}}\n"
        );
        if let Some((port, _)) = &self.doveadm {
            text += &format!(
                "service doveadm {{\n  inet_listener http {{\n    {address} = 127.0.0.1\n    port = {port}\n  }}\n}}\n"
            );
        }
        text
    }
}

/// The rules of a mailbox forward to at most ten addresses. A sender address of the mailbox keeps SPF intact.
const SIEVE_LIMITS: &str = "sieve_max_redirects = 10\nsieve_redirect_envelope_from = recipient\n";

/// The dictionary and the script of rules for version 2.4.
const RULES_2_4: &str = "protocol lmtp {
  mail_plugins {
    sieve = yes
  }
}
dict_server {
  dict mailapi-rules {
    driver = sql
    dict_map priv/sieve/name/rules {
      sql_table = mailapi_rules
      username_field = email
      value_field version {
      }
    }
    dict_map priv/sieve/data/$version {
      sql_table = mailapi_rules
      username_field = email
      value_field script {
      }
      key_field version {
        value = $version
      }
    }
  }
}
sieve_script mailapi {
  type = before
  driver = dict
  name = rules
  bin_path = ~/.mailapi-rules
  dict proxy {
    name = mailapi-rules
  }
}
";

/// Returns the service that reads the dictionary. Root reads an SQLite file, as for look-ups of accounts.
fn dict_service(driver: &str) -> String {
    let user = if driver == "sqlite" { "  user = root\n" } else { "" };
    format!("service dict {{\n{user}  unix_listener dict {{\n    mode = 0600\n    user = vmail\n  }}\n}}\n")
}

fn folders() -> String {
    let folder =
        |(name, usage)| format!("  mailbox {name} {{\n    auto = subscribe\n    special_use = \\{usage}\n  }}\n");
    [("Drafts", "Drafts"), ("Sent", "Sent"), ("Trash", "Trash"), ("Junk", "Junk")].map(folder).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_cannot_end_its_own_quotes() {
        let place = PostgresPlace {
            host: "db.example.org".to_owned(),
            port: 5432,
            name: "mail".to_owned(),
            user: "lookup".to_owned(),
            password: Some(SecretText::new(r#"a"b\c'd #$e"#.to_owned())),
        };
        let database = LookupDatabase::Postgres(place);
        assert!(sql_2_4(&database).contains(r#"    password = "a\"b\\c'd #$e""#), "{}", sql_2_4(&database));
        assert!(
            sql_2_3(&database, PASSWORD).contains(r#" password='a"b\\c\'d #$e'"#),
            "{}",
            sql_2_3(&database, PASSWORD)
        );
    }
}
