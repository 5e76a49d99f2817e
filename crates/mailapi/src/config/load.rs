//! Assembles the configuration: defaults, overridden by a file, overridden by the environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;
use toml::{Table, Value};

use super::environment::{self, Variable};
use super::former;
use super::keys::{KnownKeys, path_at};
use super::{Config, ConfigError};
use crate::named_file;

/// File in the working directory that is read if it exists and none is named.
const USUAL_FILE: &str = "mailapi.toml";

impl Config {
    /// Reads the file that `named` or `MAILAPI_CONFIG` names, or `mailapi.toml` in the working directory if it
    /// exists. Then reads the environment, and checks all settings.
    ///
    /// # Errors
    /// Reports in one line which key in which file and line, or which variable, is wrong, and why.
    pub(crate) fn load(named: Option<&Path>, environment: &[(OsString, OsString)]) -> Result<Self, ConfigError> {
        let text = file_to_read(named, environment)
            .map(|path| match named_file::read_configuration(&path) {
                Ok(text) => Ok((path, text)),
                Err(error) => Err(ConfigError::new(format!("{} cannot be read: {error}", path.display()))),
            })
            .transpose()?;
        let file = text.as_ref().map(|(path, text)| (path.display().to_string(), text.as_str()));
        let mut config = Self::from_layers(file.as_ref().map(|(name, text)| (name.as_str(), *text)), environment)?;
        config.check()?;
        config.file = text.map(|(path, _)| path);
        Ok(config)
    }

    /// Returns names of environment variables with our prefix that are not settings. They are ignored.
    pub(crate) fn ignored_variables(environment: &[(OsString, OsString)]) -> Vec<&str> {
        environment::ignored(environment, &KnownKeys::new(Self::default().to_table()))
    }

    /// Merges the layers: `file` is its name and its text.
    pub(crate) fn from_layers(
        file: Option<(&str, &str)>,
        environment: &[(OsString, OsString)],
    ) -> Result<Self, ConfigError> {
        let known = KnownKeys::new(Self::default().to_table());
        let mut warnings = Vec::new();
        let mut settings = match file {
            Some((name, text)) => read_file(name, text, &known, &mut warnings)?,
            None => Table::new(),
        };
        let mut from_environment = environment::settings(environment, &known)?;
        warnings.append(&mut from_environment.warnings);
        for variable in from_environment.variables {
            let (name, path) = (variable.name.clone(), variable.path.clone());
            insert(&mut settings, variable);
            // The settings are applied one by one, so that the message can name the wrong variable.
            Self::deserialize(settings.clone()).map_err(|error| {
                let example = known.example(&path).unwrap_or_default();
                ConfigError::new(format!("environment variable {name}: {}{example}", in_words(error.message())))
            })?;
        }
        let config = Self::deserialize(settings).map_err(|error| ConfigError::new(error.message().to_owned()))?;
        Ok(Self { warnings, ..config })
    }

    /// Returns all settings; secrets are redacted.
    pub(crate) fn to_table(&self) -> Table {
        Table::try_from(self).expect("every setting is a TOML value")
    }
}

fn file_to_read(named: Option<&Path>, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    let from_environment = || {
        let (_, value) = environment.iter().find(|(name, _)| name == environment::CONFIG_FILE)?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    };
    let usual = || Some(PathBuf::from(USUAL_FILE)).filter(|path| path.exists());
    named.map(Path::to_owned).or_else(from_environment).or_else(usual)
}

fn read_file(name: &str, text: &str, known: &KnownKeys, warnings: &mut Vec<String>) -> Result<Table, ConfigError> {
    let at = |start: usize| format!("{name}:{}", 1 + text[..start].matches('\n').count());
    let wrong = |error: toml::de::Error| {
        let place = error.span().map_or_else(|| name.to_owned(), |span| at(span.start));
        ConfigError::new(format!("{place}: {}", error.message().replace('\n', ", ")))
    };
    let mut table = DeTable::parse(text).map_err(wrong)?;
    for value in former::take(table.get_mut()) {
        let place = format!("{}: ", at(value.span.start));
        warnings.push(value.former.warning(&place, &value.key, str::to_owned));
        value.put_into(table.get_mut());
    }
    if let Some(unknown) = known.find_unknown(table.get_ref()) {
        let (place, nearest) = (at(unknown.span.start), known.nearest(&unknown.key));
        return Err(ConfigError::new(format!("{place}: unknown key `{}`; did you mean `{nearest}`?", unknown.key)));
    }
    // The file is parsed twice: into the typed settings, for messages with a line, and into a table for the
    // overlays.
    Config::deserialize(toml::Deserializer::from(table.clone())).map_err(|error| {
        let path = error.span().map_or_else(Vec::new, |span| path_at(table.get_ref(), span.start));
        let ConfigError(message) = wrong(error);
        let (key, example) = (path.join("."), known.example(&path).unwrap_or_default());
        match message.strip_prefix(name).and_then(|rest| rest.split_once(": ")) {
            Some((line, why)) if !key.is_empty() => {
                ConfigError::new(format!("{name}{line}: {key}: {}{example}", in_words(why)))
            }
            _ => ConfigError::new(message),
        }
    })?;
    Table::deserialize(toml::Deserializer::from(table)).map_err(wrong)
}

/// Rewrites serde's message about a value of another type.
fn in_words(message: &str) -> String {
    let wrong = ["invalid type: ", "invalid value: "].iter().find_map(|start| message.strip_prefix(start));
    match wrong.and_then(|wrong| wrong.split_once(", expected ")) {
        Some((found, expected)) => {
            let expected = match expected {
                "a boolean" => "true or false",
                section if section.starts_with("struct ") => "a section",
                other => other,
            };
            format!("must be {expected}, not {found}")
        }
        None => message.to_owned(),
    }
}

fn insert(settings: &mut Table, variable: Variable) {
    let mut path = variable.path;
    let Some(key) = path.pop() else { return };
    let mut table = settings;
    for section in path {
        let inner = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = inner else { return };
        table = inner;
    }
    table.insert(key, variable.value);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn from_file(text: &str) -> Result<Config, String> {
        Config::from_layers(Some(("mailapi.toml", text)), &[]).map_err(|error| error.to_string())
    }

    fn from_environment(name: &str, value: &str) -> Result<Config, String> {
        Config::from_layers(None, &[(name.into(), value.into())]).map_err(|error| error.to_string())
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line_and_the_nearest_key() {
        let error = from_file("data_dir = \"x\"\n\n[http]\nlisen = \"127.0.0.1:1\"\n").unwrap_err();
        assert_eq!(error, "mailapi.toml:4: unknown key `http.lisen`; did you mean `http.listen`?");
        let error = from_file("[htp]\n").unwrap_err();
        assert_eq!(error, "mailapi.toml:1: unknown key `htp`; did you mean `http`?");
        let error = from_file("http.requests_per_minute = 5").unwrap_err();
        assert_eq!(
            error,
            "mailapi.toml:1: unknown key `http.requests_per_minute`; did you mean `limits.requests_per_minute`?"
        );
        let error = from_environment("MAILAPI_HTTP__LISEN", "x").unwrap_err();
        assert_eq!(
            error,
            "environment variable MAILAPI_HTTP__LISEN: no such setting; did you mean MAILAPI_HTTP__LISTEN?"
        );
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_with_its_place() {
        for (text, place, why) in [
            ("\n[http]\nlisten = \"everywhere\"", "mailapi.toml:3: http.listen: ", "such as 127.0.0.1:8080"),
            ("[http]\nlisten = 8080", "mailapi.toml:2: http.listen: ", "the default is \"127.0.0.1:8080\""),
            ("mail.embedded.imap_listen = \"mx:143\"", "mailapi.toml:1: mail.embedded.imap_listen: ", "such as"),
            ("http = 3", "mailapi.toml:1: http: ", "must be a section, not integer `3`"),
            ("[auth]\nsession_lifetime = \"long\"", "mailapi.toml:2: auth.session_lifetime: ", "such as"),
            ("[auth]\nlogin_attempts = \"few\"", "mailapi.toml:2: auth.login_attempts: ", "the default is 5"),
            ("[auth]\nadmins = [\"nobody\"]", "mailapi.toml:2: auth.admins: ", ""),
            ("[limits]\nmax_message_bytes = -1", "mailapi.toml:2: limits.max_message_bytes: ", "negative"),
            ("[http\n", "mailapi.toml:1: ", ""),
        ] {
            let error = from_file(text).unwrap_err();
            assert!(error.starts_with(place) && error.contains(why) && error.lines().count() == 1, "{error}");
        }
        let error = from_environment("MAILAPI_AUTH__LOGIN_ATTEMPTS", "many").unwrap_err();
        assert_eq!(error, "environment variable MAILAPI_AUTH__LOGIN_ATTEMPTS: `many` is not a whole number");
        let error = from_environment("MAILAPI_MAIL__EMBEDDED__INBOUND__GREYLIST", "yes").unwrap_err();
        assert!(error.ends_with(": must be true or false, not string \"yes\"; the default is false"), "{error}");
        let error = from_environment("MAILAPI_HTTP__LISTEN", "everywhere").unwrap_err();
        assert!(error.starts_with("environment variable MAILAPI_HTTP__LISTEN: "), "{error}");
        let error = from_environment("MAILAPI_HTTP", "x").unwrap_err();
        assert_eq!(error, "environment variable MAILAPI_HTTP: it names a section, not a setting");
    }

    #[test]
    fn variables_of_other_programs_are_ignored_and_named() {
        let names = [
            "MAILAPI_SERVICE_HOST",
            "MAILAPI_PORT",
            "MAILAPI_PORT_8080_TCP_ADDR",
            "MAILAPI_HTTP_LISTEN",
            "MAILAPI_CONFIG",
            "MAILAPI_DATA_DIR",
            "MAILAPI_HTTP__LISTEN",
            "HOME",
        ];
        let environment: Vec<_> = names.iter().map(|name| (name.into(), "127.0.0.1:1".into())).collect();
        let config = Config::from_layers(None, &environment).unwrap();
        assert_eq!(config.data_dir, PathBuf::from("127.0.0.1:1"), "a setting without a section is read");
        assert_eq!(Config::ignored_variables(&environment), names[..4]);
    }

    #[test]
    fn the_environment_overrides_the_file_and_it_the_defaults() {
        let file = "data_dir = \"from-file\"\n[auth]\nlogin_attempts = 7\nadmins = [\"a@example.org\"]";
        let environment = [
            ("MAILAPI_AUTH__LOGIN_ATTEMPTS", "8"),
            ("MAILAPI_AUTH__ADMINS", "b@example.org, c@example.org"),
            ("MAILAPI_LIMITS__MAX_MESSAGE_BYTES", "1048576"),
            ("MAILAPI_CONFIG", "not a setting"),
            ("HOME", "/"),
        ]
        .map(|(name, value)| (name.into(), value.into()));
        let config = Config::from_layers(Some(("mailapi.toml", file)), &environment).unwrap();
        assert_eq!(config.data_dir, PathBuf::from("from-file"));
        assert_eq!(config.auth.login_attempts, 8);
        assert_eq!(config.auth.admins.len(), 2);
        assert_eq!(config.limits.max_message_bytes.0, 1 << 20);
        assert_eq!(config.auth.login_lockout, Config::default().auth.login_lockout);
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused_in_one_line(
            text in r#"(\[[a-z.]{0,9}\]\n|(listen|url|level|x|admins) = ("[^\n]{0,9}"|[0-9]{0,25}|\[.{0,9}\])\n|.{0,9}){0,6}"#
        ) {
            if let Err(error) = from_file(&text) {
                prop_assert_eq!(error.lines().count(), 1, "{}", error);
            }
        }

        #[test]
        fn any_variable_is_read_or_refused(name in "[A-Z_]{0,30}", value in ".{0,30}") {
            let _ = from_environment(&format!("MAILAPI_{name}"), &value);
        }

        #[test]
        fn every_known_variable_takes_or_refuses_any_value(
            index in any::<prop::sample::Index>(), value in "([0-9]{0,25}(ms|s|d|MiB|KB)?|.{0,30})"
        ) {
            const NAMES: [&str; 6] = [
                "SHUTDOWN_GRACE", "HTTP__LISTEN", "TRUSTED_PROXIES", "AUTH__ADMINS", "LIMITS__MAX_MESSAGE_BYTES",
                "AUTH__LOGIN_ATTEMPTS",
            ];
            let _ = from_environment(&format!("MAILAPI_{}", index.get(&NAMES)), &value);
        }
    }
}
