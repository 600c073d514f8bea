//! A field of an object with its path, and checks that report causes at this path.

use berth_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::error::Cause;
use crate::names;

/// Maximum length of a value in messages.
const LONGEST_SHOWN: usize = 200;

/// A value and its path; an absent value is null.
pub(super) struct Field<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl<'a> Field<'a> {
    pub(super) fn new(value: &'a Value, path: impl Into<String>) -> Self {
        Self {
            value,
            path: path.into(),
        }
    }

    /// Returns a field.
    pub(super) fn field(&self, name: &str) -> Self {
        Self::new(&self.value[name], format!("{}.{name}", self.path))
    }

    /// Returns the items of a list field.
    pub(super) fn items(&self, name: &str) -> impl Iterator<Item = Self> + use<'a> {
        self.field(name).each()
    }

    /// Returns the items of this list.
    pub(super) fn each(self) -> impl Iterator<Item = Self> + use<'a> {
        let (items, path) = (self.value.as_array(), self.path);
        items
            .into_iter()
            .flatten()
            .enumerate()
            .map(move |(i, item)| Self::new(item, format!("{path}[{i}]")))
    }

    /// Returns the entries of a map field.
    pub(super) fn entries(&self, name: &str) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let field = self.field(name);
        let (map, path) = (field.value.as_object(), field.path);
        map.into_iter()
            .flatten()
            .map(move |(key, value)| (key.as_str(), Self::new(value, format!("{path}[{key}]"))))
    }

    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Returns the text, or an empty one.
    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(super) fn quantity(&self) -> Option<Quantity> {
        self.value
            .as_str()
            .and_then(|text| Quantity::parse(text).ok())
    }

    /// Returns the number of items.
    pub(super) fn count(&self) -> usize {
        self.value.as_array().map_or(0, Vec::len)
    }

    /// Returns the value for a message: an absent one as an empty text.
    fn shown(&self) -> Value {
        if self.value.is_null() {
            json!("")
        } else {
            self.value.clone()
        }
    }

    pub(super) fn required(&self, detail: &str, causes: &mut Vec<Cause>) {
        causes.push(Cause::required(self.path.as_str(), detail));
    }

    pub(super) fn forbidden(&self, detail: &str, causes: &mut Vec<Cause>) {
        causes.push(Cause::forbidden(self.path.as_str(), detail));
    }

    pub(super) fn invalid(&self, detail: &str, causes: &mut Vec<Cause>) {
        let path = self.path.as_str();
        causes.push(if self.value.to_string().len() > LONGEST_SHOWN {
            Cause::invalid_unshown(path, detail)
        } else {
            Cause::invalid(path, &self.shown(), detail)
        });
    }

    pub(super) fn not_supported(&self, allowed: &[&str], causes: &mut Vec<Cause>) {
        let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
        causes.push(Cause::not_supported(
            self.path.as_str(),
            &self.shown(),
            &allowed,
        ));
    }

    pub(super) fn duplicate(&self, causes: &mut Vec<Cause>) {
        causes.push(Cause::duplicate(self.path.as_str(), &self.shown()));
    }

    /// Reports each problem as an invalid value.
    pub(super) fn problems(
        &self,
        problems: impl IntoIterator<Item = String>,
        causes: &mut Vec<Cause>,
    ) {
        for problem in problems {
            self.invalid(&problem, causes);
        }
    }

    /// Requires a text.
    pub(super) fn not_empty(&self, causes: &mut Vec<Cause>) {
        if self.text().is_empty() {
            self.required("", causes);
        }
    }

    /// Requires a text that follows a rule.
    pub(super) fn named(&self, rule: impl Fn(&str) -> Option<String>, causes: &mut Vec<Cause>) {
        if self.text().is_empty() {
            self.required("", causes);
        } else {
            self.problems(rule(self.text()), causes);
        }
    }

    /// Checks that the text is absent or follows a rule.
    pub(super) fn optional(&self, rule: impl Fn(&str) -> Option<String>, causes: &mut Vec<Cause>) {
        if !self.text().is_empty() {
            self.problems(rule(self.text()), causes);
        }
    }

    /// Checks a name with an optional domain.
    pub(super) fn qualified(&self, causes: &mut Vec<Cause>) {
        self.problems(names::qualified_name(self.text()), causes);
    }

    /// Checks that the value is absent or one of the allowed.
    pub(super) fn one_of(&self, allowed: &[&str], causes: &mut Vec<Cause>) {
        if self.is_set() {
            self.exactly_one_of(allowed, causes);
        }
    }

    /// Checks that the value is one of the allowed.
    pub(super) fn exactly_one_of(&self, allowed: &[&str], causes: &mut Vec<Cause>) {
        if !allowed.contains(&self.text()) {
            self.not_supported(allowed, causes);
        }
    }

    /// Checks a path with a domain prefix.
    pub(super) fn domain_path(&self, causes: &mut Vec<Cause>) {
        const USUAL: &str = "/-._~%!$&'()*+,;=:";
        match self.text().split_once('/') {
            Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
                if let Some(problem) = names::subdomain(domain) {
                    self.invalid(&problem, causes);
                }
                let usual = |c: char| c.is_ascii_alphanumeric() || USUAL.contains(c);
                if !path.chars().all(usual) {
                    let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                    self.invalid(detail, causes);
                }
            }
            _ => {
                let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                self.invalid(detail, causes);
            }
        }
    }

    /// Checks that the number is absent or not negative.
    pub(super) fn not_negative(&self, causes: &mut Vec<Cause>) {
        if self.number().is_some_and(|number| number < 0) {
            self.invalid("must be greater than or equal to 0", causes);
        }
    }

    /// Checks the number of a port.
    pub(super) fn port_number(&self, causes: &mut Vec<Cause>) {
        let number = self.number().unwrap_or(0);
        if let Some(problem) = names::port_number(number) {
            self.invalid(&problem, causes);
        }
    }

    /// Checks the name or number of a port.
    pub(super) fn port(&self, causes: &mut Vec<Cause>) {
        if self.value.is_string() {
            self.problems(names::port_name(self.text()), causes);
        } else {
            self.port_number(causes);
        }
    }

    /// Checks that the value is absent, a count or a percentage.
    pub(super) fn count_or_percent(&self, causes: &mut Vec<Cause>) {
        if self.value.is_string() {
            self.problems(names::percent(self.text()), causes);
        } else {
            self.not_negative(causes);
        }
    }

    /// Checks that a percentage is at most 100%.
    pub(super) fn at_most_all(&self, causes: &mut Vec<Cause>) {
        let share = self
            .text()
            .strip_suffix('%')
            .and_then(|d| d.parse::<u64>().ok());
        if share.is_some_and(|share| share > 100) {
            self.invalid("must not be greater than 100%", causes);
        }
    }
}
