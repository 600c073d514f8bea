//! A field of an object with its path. Problems of the field are reported as causes with this path.

use std::cell::RefCell;

use berth_apimachinery::quantity::Quantity;
use serde_json::{Value, json};

use crate::error::Cause;

/// The causes that the validation of an object has found so far.
pub(super) type Causes = RefCell<Vec<Cause>>;

/// The value and path of a field. The value of an absent field is null.
#[derive(Clone)]
pub(super) struct Field<'a> {
    pub(super) value: &'a Value,
    /// The value before an update. `None` for new objects, and for items of lists and entries of maps.
    pub(super) old: Option<&'a Value>,
    pub(super) path: String,
    pub(super) causes: &'a Causes,
}

impl<'a> Field<'a> {
    /// Returns a field for a whole object.
    pub(super) fn root(value: &'a Value, old: Option<&'a Value>, causes: &'a Causes) -> Self {
        Self {
            value,
            old,
            path: String::new(),
            causes,
        }
    }

    /// Returns a field with the same path and another value.
    pub(super) fn with(&self, value: &'a Value) -> Self {
        let field = self.clone();
        Self {
            value,
            old: None,
            ..field
        }
    }

    /// Returns a field with the same value and another path, under which problems are reported.
    pub(super) fn reported_at(self, path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            ..self
        }
    }

    /// Returns the field at a path below this field, such as `template.spec`.
    pub(super) fn get(&self, path: &str) -> Self {
        let mut path_here = self.path.clone();
        if !path_here.is_empty() {
            path_here.push('.');
        }
        let step = |value: &'a Value| path.split('.').fold(value, |value, step| &value[step]);
        Self {
            value: step(self.value),
            old: self.old.map(step),
            path: path_here + path,
            causes: self.causes,
        }
    }

    /// Returns the items of the list at a path below this field.
    pub(super) fn items(&self, path: &str) -> impl Iterator<Item = Self> + use<'a> {
        self.get(path).each()
    }

    /// Returns the items of this field, which is a list.
    pub(super) fn each(&self) -> impl Iterator<Item = Self> + use<'a> {
        let list = self.clone();
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items.map(move |(i, item)| {
            let path = format!("{}[{i}]", list.path);
            list.with(item).reported_at(path)
        })
    }

    /// Returns the keys and entries of the map at a path below this field.
    pub(super) fn entries(&self, path: &str) -> impl Iterator<Item = (&'a str, Self)> + use<'a> {
        let map = self.get(path);
        let entries = map.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| (key.as_str(), map.entry(key, value)))
    }

    /// Returns a field for an entry of this field, which is a map.
    pub(super) fn entry(&self, key: &str, value: &'a Value) -> Self {
        self.with(value)
            .reported_at(format!("{}[{key}]", self.path))
    }

    /// Calls a function with each field that a path names. In a path, `name[]` names all items of a list, and `name{}`
    /// all entries of a map. An empty path names this field.
    pub(super) fn visit(&self, path: &str, call: &mut dyn FnMut(&Self)) {
        if path.is_empty() {
            return call(self);
        }
        let (step, rest) = path.split_once('.').unwrap_or((path, ""));
        if let Some(list) = step.strip_suffix("[]") {
            self.items(list).for_each(|item| item.visit(rest, call));
        } else if let Some(map) = step.strip_suffix("{}") {
            self.entries(map)
                .for_each(|(_, value)| value.visit(rest, call));
        } else {
            self.get(step).visit(rest, call);
        }
    }

    pub(super) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Reports whether the value is absent, or is an empty text, list or map.
    pub(super) fn is_empty(&self) -> bool {
        match self.value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        }
    }

    /// Returns the text of this field. The result is empty if the value is not a text.
    pub(super) fn text(&self) -> &'a str {
        self.value.as_str().unwrap_or_default()
    }

    /// Returns the text of the field at a path below this field. The result is empty if the value is not a text.
    pub(super) fn text_of(&self, path: &str) -> &'a str {
        self.get(path).text()
    }

    pub(super) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(super) fn quantity(&self) -> Option<Quantity> {
        Quantity::parse(self.value.as_str()?).ok()
    }

    /// Returns the number of items of this field. The number is 0 if the value is not a list.
    pub(super) fn count(&self) -> usize {
        self.value.as_array().map_or(0, Vec::len)
    }

    /// Returns the texts of the items of this list.
    pub(super) fn texts(&self) -> Vec<&'a str> {
        self.each().map(|item| item.text()).collect()
    }

    /// Returns the value for a message. An absent value becomes an empty text.
    fn shown(&self) -> Value {
        match self.value {
            Value::Null => json!(""),
            value => value.clone(),
        }
    }

    pub(super) fn report(&self, cause: Cause) {
        self.causes.borrow_mut().push(cause);
    }

    pub(super) fn required(&self, detail: &str) {
        self.report(Cause::required(self.path.as_str(), detail));
    }

    pub(super) fn forbidden(&self, detail: &str) {
        self.report(Cause::forbidden(self.path.as_str(), detail));
    }

    pub(super) fn invalid(&self, detail: &str) {
        let path = self.path.as_str();
        self.report(Cause::invalid(path, &self.shown(), detail));
    }

    /// Reports a problem that a rule found, if there is one.
    pub(super) fn problem(&self, problem: Option<String>) {
        if let Some(problem) = problem {
            self.invalid(&problem);
        }
    }

    pub(super) fn not_supported(&self, allowed: &[&str]) {
        let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
        let path = self.path.as_str();
        self.report(Cause::not_supported(path, &self.shown(), &allowed));
    }

    /// Reports that the field refers to a name that does not exist.
    pub(super) fn not_found(&self) {
        self.report(Cause::not_found(self.path.as_str(), self.value));
    }

    pub(super) fn duplicate(&self) {
        self.report(Cause::duplicate(self.path.as_str(), &self.shown()));
    }
}
