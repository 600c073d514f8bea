//! The arguments of a plugin in the configuration file.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Invalid plugin arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
pub struct ArgsError {
    /// Path of the invalid field, such as `weights[2].name`. Empty if the error is about the arguments as a whole.
    pub path: String,
    /// The cause of the error.
    pub message: String,
}

/// Arguments of a plugin. Empty if the configuration has no arguments for the plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args(Option<Value>);

impl Args {
    /// Wraps the arguments of the configuration file.
    pub fn new(value: Option<Value>) -> Self {
        Self(value)
    }

    /// Reports whether the configuration has arguments.
    pub fn are_given(&self) -> bool {
        self.0.is_some()
    }

    /// Parses the arguments into a type of the plugin. Without arguments, returns the default of this type. To refuse
    /// unknown fields, add `#[serde(deny_unknown_fields)]` to the type.
    ///
    /// ```
    /// use berth_scheduler::framework::Args;
    /// use serde::Deserialize;
    /// use serde_json::json;
    ///
    /// #[derive(Debug, Default, Deserialize, PartialEq)]
    /// #[serde(default, deny_unknown_fields)]
    /// struct Settings {
    ///     zone: String,
    /// }
    ///
    /// let args = Args::new(Some(json!({ "zone": "a" })));
    /// assert_eq!(args.parse::<Settings>()?, Settings { zone: "a".to_owned() });
    /// assert_eq!(Args::new(None).parse::<Settings>()?, Settings::default());
    /// assert!(Args::new(Some(json!({ "zones": [] }))).parse::<Settings>().is_err());
    /// # Ok::<(), berth_scheduler::framework::ArgsError>(())
    /// ```
    ///
    /// # Errors
    /// When the arguments do not match the type. The error names the field.
    pub fn parse<T: DeserializeOwned + Default>(&self) -> Result<T, ArgsError> {
        match &self.0 {
            None => Ok(T::default()),
            Some(_) => self.parse_required(),
        }
    }

    /// Parses the arguments into a type of the plugin. The type needs no default, because the arguments are required.
    ///
    /// # Errors
    /// When there are no arguments, or they do not match the type.
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

    /// Checks that the configuration has no arguments for the plugin. Plugins that take no arguments call this
    /// function.
    ///
    /// # Errors
    /// When there are arguments.
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
    fn missing_arguments_are_parsed_as_the_default() {
        assert_eq!(Args::default().parse::<Weights>(), Ok(Weights::default()));
    }

    #[test]
    fn errors_name_the_field() {
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
    fn a_plugin_that_takes_no_arguments_refuses_arguments() {
        assert!(Args::new(Some(json!({}))).expect_none().is_ok());
        assert!(Args::new(Some(json!({ "a": 1 }))).expect_none().is_err());
    }
}
