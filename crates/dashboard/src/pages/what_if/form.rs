//! The form of the what-if page, and the change that its GET request describes.

use std::collections::BTreeMap;
use std::fmt::Display;

use berth_api::BindingKey;
use berth_api::quantity::QuantityText;
use berth_plan::what_if::{Change, FleetChange, parse_taint};

use crate::binding_query::encode;
use crate::html::Html;
use crate::store::Store;

/// Error for a taint of another form.
const TAINT_SYNTAX: &str = "the taint must be KEY=VALUE:EFFECT or KEY:EFFECT";
/// Maximum number of suggested clusters.
const MAX_SUGGESTIONS: usize = 200;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lose,
    Taint,
    Join,
    Scale,
    Capacity,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Lose,
        Self::Taint,
        Self::Join,
        Self::Scale,
        Self::Capacity,
    ];

    /// Returns the value in the URL, and the label of the kind.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Lose => ("lose", "Lose a cluster"),
            Self::Taint => ("taint", "Taint a cluster"),
            Self::Join => ("join", "Add a cluster"),
            Self::Scale => ("scale", "Scale a workload"),
            Self::Capacity => ("capacity", "Change capacity"),
        }
    }

    /// Returns the fields of the form for this kind: name, label and example.
    const fn fields(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Lose => &[("cluster", "Cluster", "name")],
            Self::Taint => &[
                ("cluster", "Cluster", "name"),
                ("taint", "Taint", "key=value:NoSchedule"),
            ],
            Self::Join => &[
                ("cluster", "Like cluster", "name of an existing cluster"),
                ("name", "Name of the new cluster", "name"),
            ],
            Self::Scale => &[
                ("binding", "Binding", "namespace/name"),
                ("replicas", "Replicas", "number"),
            ],
            Self::Capacity => &[
                ("cluster", "Cluster", "name"),
                ("resource", "Resource", "cpu, memory, pods, …"),
                ("amount", "Allocatable", "64, 256Gi, …"),
            ],
        }
    }
}

/// The values of the form.
#[derive(Debug)]
pub(crate) struct Form {
    kind: Kind,
    values: BTreeMap<&'static str, String>,
    /// True if the user sent the form.
    is_sent: bool,
    page: usize,
}

impl Form {
    pub(crate) fn new(pairs: &BTreeMap<String, String>) -> Self {
        let value = |name: &str| pairs.get(name).map_or("", |value| value.trim());
        let kinds = Kind::ALL.into_iter();
        let kind = kinds
            .rev()
            .find(|kind| kind.names().0 == value("change"))
            .unwrap_or(Kind::Lose);
        let fields = Kind::ALL.into_iter().flat_map(Kind::fields);
        Self {
            kind,
            values: fields.map(|of| (of.0, value(of.0).to_owned())).collect(),
            is_sent: value("run") == "1",
            page: value("page").parse().unwrap_or(1).max(1),
        }
    }

    pub(super) const fn page(&self) -> usize {
        self.page
    }

    /// Reports whether the request is for the second or a later page of a result.
    pub(crate) const fn continues(&self) -> bool {
        self.page > 1
    }

    fn value(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    /// Returns the change, or an error about a missing or invalid field. Returns `None` if the user did not send the
    /// form.
    pub(crate) fn change(&self) -> Option<Result<Change, String>> {
        self.is_sent.then(|| self.parse())
    }

    fn parse(&self) -> Result<Change, String> {
        let empty = self
            .kind
            .fields()
            .iter()
            .find(|of| self.value(of.0).is_empty());
        if let Some((_, label, example)) = empty {
            return Err(format!("the field {label} is empty; enter {example}"));
        }
        let cluster = self.value("cluster").to_owned();
        let change = match self.kind {
            Kind::Lose => FleetChange::Lose { cluster },
            Kind::Taint => FleetChange::Taint {
                cluster,
                taint: parse_taint(self.value("taint"), TAINT_SYNTAX)?,
            },
            Kind::Join => FleetChange::Join {
                cluster: self.value("name").to_owned(),
                like: cluster,
            },
            Kind::Scale => {
                let replicas = self.value("replicas").parse().ok().filter(|of| *of >= 0);
                return Ok(Change::Scale {
                    binding: binding(self.value("binding")),
                    replicas: replicas.ok_or("the replicas must be a number of 0 or more")?,
                });
            }
            Kind::Capacity => {
                let amount = QuantityText(self.value("amount").to_owned());
                if !amount.parse().is_ok_and(|of| of.milli_value() >= 0) {
                    let reason = format!("{:?} is not a quantity, such as 64 or 256Gi", amount.0);
                    return Err(reason);
                }
                FleetChange::Capacity {
                    cluster,
                    resource: self.value("resource").to_owned(),
                    amount,
                }
            }
        };
        Ok(Change::Fleet(change))
    }

    /// Returns the URL path of a page of the result.
    pub(super) fn path(&self, page: usize) -> String {
        let fields = self.kind.fields().iter();
        let fields: Vec<String> = fields
            .map(|of| format!("&{}={}", of.0, encode(self.value(of.0))))
            .collect();
        let kind = self.kind.names().0;
        format!(
            "/what-if?change={kind}&run=1{}&page={page}",
            fields.concat()
        )
    }

    /// Returns the `berth simulate` command that has the same result.
    pub(super) fn command(&self) -> String {
        let base = "berth simulate --against CONTEXT";
        let cluster = self.value("cluster");
        match self.kind {
            Kind::Lose => format!("{base} --without {cluster}"),
            Kind::Taint => format!("{base} --taint {cluster}={}", self.value("taint")),
            Kind::Join => format!("{base} -f FILE, where FILE has the new Cluster with its status"),
            Kind::Scale => {
                format!("{base} -f FILE, where FILE has the workload with its new replicas")
            }
            Kind::Capacity => {
                format!("{base} -f FILE, where FILE has the Cluster with its new status")
            }
        }
    }

    /// Writes the links to the kinds of change, and the fields of the selected kind.
    pub(super) fn write(&self, html: &mut Html, store: &Store) {
        let nav: [(&str, &dyn Display); 2] = [("class", &"choices"), ("aria-label", &"Change")];
        html.el("nav", &nav, |html| {
            for kind in Kind::ALL {
                let (value, label) = kind.names();
                let path = format!(
                    "/what-if?change={value}&cluster={}&binding={}",
                    encode(self.value("cluster")),
                    encode(self.value("binding"))
                );
                if kind == self.kind {
                    html.leaf("a", &[("href", &path), ("aria-current", &"true")], label);
                } else {
                    html.leaf("a", &[("href", &path)], label);
                }
            }
        });
        let label = self.kind.names().1;
        html.el(
            "form",
            &[("action", &"/what-if"), ("aria-label", &label)],
            |html| {
                hidden(html, "change", self.kind.names().0);
                hidden(html, "run", "1");
                for &(name, label, example) in self.kind.fields() {
                    self.field(html, name, label, example);
                }
                html.leaf("button", &[], "Show moves");
                suggestions(html, store);
            },
        );
    }

    fn field(&self, html: &mut Html, name: &'static str, label: &str, example: &str) {
        html.el("label", &[], |html| {
            html.leaf("span", &[], label);
            let value = self.value(name);
            let mut attributes: Vec<(&'static str, &dyn Display)> = vec![
                ("name", &name),
                ("value", &value),
                ("placeholder", &example),
                ("required", &""),
                ("autocomplete", &"off"),
            ];
            match name {
                "cluster" => attributes.push(("list", &"clusters")),
                "resource" => attributes.push(("list", &"resources")),
                "replicas" => attributes.extend([
                    ("type", &"number" as &dyn Display),
                    ("min", &"0"),
                    ("max", &"2147483647"),
                ]),
                _ => {}
            }
            html.void("input", &attributes);
        });
    }
}

fn hidden(html: &mut Html, name: &str, value: &str) {
    html.void(
        "input",
        &[("type", &"hidden"), ("name", &name), ("value", &value)],
    );
}

fn suggestions(html: &mut Html, store: &Store) {
    html.el("datalist", &[("id", &"clusters")], |html| {
        for name in store.clusters.keys().take(MAX_SUGGESTIONS) {
            html.el("option", &[("value", name)], |_| {});
        }
    });
    html.el("datalist", &[("id", &"resources")], |html| {
        for name in ["cpu", "memory", "pods"] {
            html.el("option", &[("value", &name)], |_| {});
        }
    });
}

fn binding(text: &str) -> BindingKey {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    BindingKey::new(namespace, name)
}
