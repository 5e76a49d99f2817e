//! Settings from the environment: `MAILAPI_HTTP__LISTEN` is `listen` in the section `[http]`.

use std::ffi::OsString;

use toml::Value;

use super::ConfigError;
use super::former::{self, Former};
use super::keys::KnownKeys;

/// Prefix of every variable.
const PREFIX: &str = "MAILAPI_";
/// Separator between a section and a key.
const SEPARATOR: &str = "__";
/// Variable with the path of the configuration file; the only variable with our prefix that is no setting.
pub(crate) const CONFIG_FILE: &str = "MAILAPI_CONFIG";

/// One setting from the environment.
pub(super) struct Variable {
    /// Name of the variable, for messages.
    pub(super) name: String,
    /// Sections and key.
    pub(super) path: Vec<String>,
    /// Value, in the type of the setting.
    pub(super) value: Value,
}

/// All settings from the environment.
#[derive(Default)]
pub(super) struct Settings {
    /// Settings in the order in which they apply: a present name overrides a former name.
    pub(super) variables: Vec<Variable>,
    /// A warning for each former setting.
    pub(super) warnings: Vec<String>,
}

/// Returns the environment of this process.
pub(crate) fn of_this_process() -> Vec<(OsString, OsString)> {
    std::env::vars_os().collect()
}

/// Collects all settings among `variables`.
pub(super) fn settings(variables: &[(OsString, OsString)], known: &KnownKeys) -> Result<Settings, ConfigError> {
    let (mut settings, mut present) = (Settings::default(), Vec::new());
    for (name, value) in with_prefix(variables).filter(|(name, _)| is_setting(name, known)) {
        let path = path(name);
        let key = path.join(".");
        let Some(former) = former::find(&key) else {
            present.push(setting(name, path, value, known)?);
            continue;
        };
        settings.warnings.push(former.warning("environment variable ", &key, variable_name));
        if let Former::Moved(new) = former {
            let path = new.split('.').map(str::to_owned).collect();
            settings.variables.push(setting(name, path, value, known)?);
        }
    }
    settings.variables.append(&mut present);
    Ok(settings)
}

/// Returns variables with our prefix that are not settings, for a warning. In each pod beside a Service named
/// `mailapi`, Kubernetes sets `MAILAPI_SERVICE_HOST` and `MAILAPI_PORT_8080_TCP_ADDR`.
pub(super) fn ignored<'a>(variables: &'a [(OsString, OsString)], known: &KnownKeys) -> Vec<&'a str> {
    with_prefix(variables).map(|(name, _)| name).filter(|name| !is_setting(name, known)).collect()
}

fn with_prefix(variables: &[(OsString, OsString)]) -> impl Iterator<Item = (&str, &OsString)> {
    let named = variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value)));
    named.filter(|(name, _)| name.starts_with(PREFIX) && *name != CONFIG_FILE)
}

/// Returns whether the variable is meant as a setting: it has a separator, or is named like a setting or a section.
fn is_setting(name: &str, known: &KnownKeys) -> bool {
    let path = path(name);
    path.len() > 1 || known.get(&path).is_some() || former::find(&path.join(".")).is_some()
}

fn path(name: &str) -> Vec<String> {
    name[PREFIX.len()..].split(SEPARATOR).map(str::to_ascii_lowercase).collect()
}

fn setting(name: &str, path: Vec<String>, value: &OsString, known: &KnownKeys) -> Result<Variable, ConfigError> {
    let Some(default) = known.get(&path) else {
        let nearest = variable_name(&known.nearest(&path.join(".")));
        return Err(ConfigError::new(format!("environment variable {name}: no such setting; did you mean {nearest}?")));
    };
    let Some(text) = value.to_str() else {
        return Err(ConfigError::new(format!("environment variable {name}: the value is not UTF-8")));
    };
    let value = typed(text, default).map_err(|why| ConfigError::new(format!("environment variable {name}: {why}")))?;
    Ok(Variable { name: name.to_owned(), path, value })
}

fn typed(text: &str, default: &Value) -> Result<Value, String> {
    match default {
        Value::Integer(_) => text.parse().map(Value::Integer).map_err(|_| format!("`{text}` is not a whole number")),
        Value::Float(_) => text.parse().map(Value::Float).map_err(|_| format!("`{text}` is not a number")),
        // A setting that also takes text refuses other text itself.
        Value::Boolean(_) => Ok(text.parse().map_or_else(|_| Value::String(text.to_owned()), Value::Boolean)),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Ok(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
        }
        Value::Table(_) => Err("it names a section, not a setting".to_owned()),
        Value::String(_) | Value::Datetime(_) => Ok(Value::String(text.to_owned())),
    }
}

fn variable_name(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', SEPARATOR).to_ascii_uppercase())
}
