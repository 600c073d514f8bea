//! A place in an object: what is there, how it is called, and what is said of it if it is wrong.

use berth_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::builtin::names;
use crate::error::Cause;

/// A value and the path that leads to it. What is not there is null.
pub(super) struct Place<'a> {
    pub(super) value: &'a Value,
    pub(super) path: String,
}

impl<'a> Place<'a> {
    pub(super) fn new(value: &'a Value, path: impl Into<String>) -> Self {
        Self {
            value,
            path: path.into(),
        }
    }

    /// A field of it.
    pub(super) fn field(&self, name: &str) -> Self {
        Self::new(&self.value[name], format!("{}.{name}", self.path))
    }

    /// The items of a list in it.
    pub(super) fn items(&self, name: &str) -> impl Iterator<Item = Self> + use<'a> {
        self.field(name).each()
    }

    /// The items, where it is a list.
    pub(super) fn each(self) -> impl Iterator<Item = Self> + use<'a> {
        let (items, path) = (self.value.as_array(), self.path);
        items
            .into_iter()
            .flatten()
            .enumerate()
            .map(move |(i, item)| Self::new(item, format!("{path}[{i}]")))
    }

    /// The entries of a map in it.
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

    /// The text of it; empty where there is none.
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

    /// How many items it has.
    pub(super) fn count(&self) -> usize {
        self.value.as_array().map_or(0, Vec::len)
    }

    /// The value as Go writes it: what is not there is an empty text.
    fn shown(&self) -> Value {
        if self.value.is_null() {
            json!("")
        } else {
            self.value.clone()
        }
    }

    pub(super) fn required(&self, why: &str, causes: &mut Vec<Cause>) {
        causes.push(Cause::required(self.path.as_str(), why));
    }

    pub(super) fn forbidden(&self, why: &str, causes: &mut Vec<Cause>) {
        causes.push(Cause::forbidden(self.path.as_str(), why));
    }

    pub(super) fn invalid(&self, why: &str, causes: &mut Vec<Cause>) {
        causes.push(Cause::invalid(self.path.as_str(), &self.shown(), why));
    }

    /// Another value is shown than the one that is there.
    pub(super) fn invalid_as(&self, shown: &Value, why: &str, causes: &mut Vec<Cause>) {
        causes.push(Cause::invalid(self.path.as_str(), shown, why));
    }

    /// The value is shown as Go writes it.
    pub(super) fn invalid_go(&self, shown: &str, why: &str, causes: &mut Vec<Cause>) {
        causes.push(Cause::invalid_as(self.path.as_str(), shown, why));
    }

    /// The same of a value that is there twice.
    pub(super) fn duplicate_as(&self, shown: &str, causes: &mut Vec<Cause>) {
        causes.push(Cause::duplicate_as(self.path.as_str(), shown));
    }

    pub(super) fn duplicate(&self, causes: &mut Vec<Cause>) {
        causes.push(Cause::duplicate(self.path.as_str(), &self.shown()));
    }

    /// Says of it what a rule finds.
    pub(super) fn problems(
        &self,
        problems: impl IntoIterator<Item = String>,
        causes: &mut Vec<Cause>,
    ) {
        for problem in problems {
            self.invalid(&problem, causes);
        }
    }

    /// The text may not be missing.
    pub(super) fn not_empty(&self, causes: &mut Vec<Cause>) {
        if self.text().is_empty() {
            self.required("", causes);
        }
    }

    /// It keeps to a rule for names; empty counts as missing.
    pub(super) fn named(&self, rule: impl Fn(&str) -> Option<String>, causes: &mut Vec<Cause>) {
        if self.text().is_empty() {
            self.required("", causes);
        } else {
            self.problems(rule(self.text()), causes);
        }
    }

    /// It keeps to a rule for names, where it is there at all.
    pub(super) fn optional(&self, rule: impl Fn(&str) -> Option<String>, causes: &mut Vec<Cause>) {
        if !self.text().is_empty() {
            self.problems(rule(self.text()), causes);
        }
    }

    /// A name with an optional domain.
    pub(super) fn qualified(&self, causes: &mut Vec<Cause>) {
        self.problems(names::qualified_name(self.text()), causes);
    }

    /// One of a few, where it is there at all.
    pub(super) fn one_of(&self, allowed: &[&str], causes: &mut Vec<Cause>) {
        if self.is_set() {
            self.exactly_one_of(allowed, causes);
        }
    }

    /// One of a few; what is not there is an empty text.
    pub(super) fn exactly_one_of(&self, allowed: &[&str], causes: &mut Vec<Cause>) {
        if !allowed.contains(&self.text()) {
            let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
            causes.push(Cause::not_supported(
                self.path.as_str(),
                &self.shown(),
                &allowed,
            ));
        }
    }

    /// A domain, a slash and more.
    pub(super) fn domain_path(&self, causes: &mut Vec<Cause>) {
        const USUAL: &str = "/-._~%!$&'()*+,;=:";
        match self.text().split_once('/') {
            Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
                if let Some(problem) = names::subdomain(domain) {
                    self.invalid_as(&json!(domain), &problem, causes);
                }
                let usual = |c: char| c.is_ascii_alphanumeric() || USUAL.contains(c);
                if !path.chars().all(usual) {
                    let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
                    self.invalid_as(&json!(path), why, causes);
                }
            }
            _ => {
                let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                self.invalid(why, causes);
            }
        }
    }

    /// A number that is at least zero, where it is there at all.
    pub(super) fn not_negative(&self, causes: &mut Vec<Cause>) {
        if self.number().is_some_and(|number| number < 0) {
            self.invalid("must be greater than or equal to 0", causes);
        }
    }

    /// The number of a port; missing counts as zero.
    pub(super) fn port_number(&self, causes: &mut Vec<Cause>) {
        let number = self.number().unwrap_or(0);
        if let Some(problem) = names::port_number(number) {
            self.invalid_as(&json!(number), &problem, causes);
        }
    }

    /// The name or number of a port.
    pub(super) fn port(&self, causes: &mut Vec<Cause>) {
        if self.value.is_string() {
            self.problems(names::port_name(self.text()), causes);
        } else {
            self.port_number(causes);
        }
    }

    /// A count that is at least zero, or a share in percent, where it is there at all.
    pub(super) fn count_or_percent(&self, causes: &mut Vec<Cause>) {
        if self.value.is_string() {
            self.problems(names::percent(self.text()), causes);
        } else {
            self.not_negative(causes);
        }
    }

    /// A share is at most all of it.
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

/// An object as Go writes it: all fields in their order, with the names that they have in Go.
pub(super) fn go(fields: &[(&str, &Value)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}
