//! The arguments of a plugin, as the configuration file gives them.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Arguments that a plugin does not understand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct ArgsError {
    /// Where in the arguments, as `weights[2].name`; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// The arguments of a plugin. Nothing was given where the configuration names none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args(Option<Value>);

impl Args {
    /// The arguments of the configuration file.
    pub fn new(value: Option<Value>) -> Self {
        Self(value)
    }

    /// Whether arguments were given.
    pub fn are_given(&self) -> bool {
        self.0.is_some()
    }

    /// The arguments in the plugin's own type; its default where none are given. A type that refuses what
    /// it does not know has `#[serde(deny_unknown_fields)]`.
    ///
    /// # Errors
    /// When they are of another shape; the error says where.
    pub fn parse<T: DeserializeOwned + Default>(&self) -> Result<T, ArgsError> {
        match &self.0 {
            None => Ok(T::default()),
            Some(_) => self.parse_required(),
        }
    }

    /// The arguments in the plugin's own type, which has no default.
    ///
    /// # Errors
    /// When there are none, or they are of another shape.
    pub fn parse_required<T: DeserializeOwned>(&self) -> Result<T, ArgsError> {
        let value = self.0.clone().ok_or_else(|| ArgsError {
            path: String::new(),
            message: "arguments are required: give them in pluginConfig".into(),
        })?;
        serde_path_to_error::deserialize(value).map_err(|error| ArgsError {
            path: match error.path().to_string() {
                path if path == "." => String::new(),
                path => path,
            },
            message: error.into_inner().to_string(),
        })
    }

    /// For a plugin that takes none.
    ///
    /// # Errors
    /// When some are given.
    pub fn expect_none(&self) -> Result<(), ArgsError> {
        match &self.0 {
            None => Ok(()),
            Some(Value::Object(fields)) if fields.is_empty() => Ok(()),
            Some(_) => Err(ArgsError {
                path: String::new(),
                message: "this plugin takes no arguments".into(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Weights {
        tiers: Vec<i64>,
    }

    #[test]
    fn absent_arguments_are_the_default() {
        assert_eq!(Args::default().parse::<Weights>(), Ok(Weights::default()));
    }

    #[test]
    fn errors_say_where() {
        let args = Args::new(Some(json!({ "tiers": [1, "two"] })));
        let error = args.parse::<Weights>().unwrap_err();
        assert_eq!(error.path, "tiers[1]");
        let args = Args::new(Some(json!({ "tier": [] })));
        let error = args.parse::<Weights>().unwrap_err();
        assert!(
            error.to_string().contains("unknown field `tier`"),
            "{error}"
        );
    }

    #[test]
    fn a_plugin_without_arguments_refuses_them() {
        assert!(Args::new(Some(json!({}))).expect_none().is_ok());
        assert!(Args::new(Some(json!({ "a": 1 }))).expect_none().is_err());
    }
}
