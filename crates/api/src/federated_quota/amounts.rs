//! Exact amounts of several resources.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::{Add, Sub};

use berth_apimachinery::quantity::{Format, Quantity};

use crate::cluster::ResourceList;
use crate::quantity::QuantityText;

/// Exact amounts by resource name. An absent resource has the amount zero, and no amount is stored as zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, Quantity>);

impl Amounts {
    /// Returns the amounts of a list. A malformed quantity counts as zero; the schemas of all kinds refuse such
    /// quantities.
    pub fn of(list: &ResourceList) -> Self {
        let parsed = list.iter().filter_map(|(resource, text)| {
            let quantity = text.parse().ok()?;
            Some((resource.clone(), quantity))
        });
        parsed.collect::<BTreeMap<_, _>>().into()
    }

    /// Returns the amount of a resource.
    pub fn get(&self, resource: &str) -> Quantity {
        let amount = self.0.get(resource).copied().unwrap_or_default();
        amount.in_format(format_of(resource))
    }

    /// Returns the resources and their amounts, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        let resources = self.0.keys().map(String::as_str);
        resources.map(|resource| (resource, self.get(resource)))
    }

    /// Reports whether all amounts are zero.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the amounts of these resources in the notation of Kubernetes.
    pub fn to_list(&self) -> ResourceList {
        self.iter()
            .map(|(resource, amount)| (resource.to_owned(), QuantityText(amount.to_string())))
            .collect()
    }

    /// Returns all amounts, multiplied by a factor.
    #[must_use]
    pub fn times(&self, factor: i64) -> Self {
        let products = self.0.iter();
        let products = products.map(|(resource, amount)| (resource.clone(), amount.times(factor)));
        products.collect::<BTreeMap<_, _>>().into()
    }

    /// Returns the amounts of the resources that `others` contains, too.
    #[must_use]
    pub fn only(&self, others: &ResourceList) -> Self {
        let mut kept = self.0.clone();
        kept.retain(|resource, _| others.contains_key(resource));
        Self(kept)
    }

    /// Returns the amounts that are greater than zero.
    #[must_use]
    pub fn positive(mut self) -> Self {
        self.0.retain(|_, amount| *amount > Quantity::ZERO);
        self
    }

    /// Returns the greater amount of each resource.
    #[must_use]
    pub fn max(mut self, other: &Self) -> Self {
        for (resource, amount) in &other.0 {
            if self.get(resource) < *amount {
                self.0.insert(resource.clone(), *amount);
            }
        }
        Self::from(self.0)
    }
}

impl From<BTreeMap<String, Quantity>> for Amounts {
    fn from(mut amounts: BTreeMap<String, Quantity>) -> Self {
        amounts.retain(|_, amount| !amount.is_zero());
        Self(amounts)
    }
}

impl Add for Amounts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (resource, amount) in other.0 {
            let sum = self.0.entry(resource).or_default();
            *sum = *sum + amount;
        }
        self.0.into()
    }
}

impl Sub for Amounts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + other.times(-1)
    }
}

impl Sum for Amounts {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Add::add)
    }
}

/// Returns the notation that Karmada uses for sums of a resource.
fn format_of(resource: &str) -> Format {
    let is_binary =
        matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    if is_binary {
        Format::BinarySi
    } else {
        Format::DecimalSi
    }
}
