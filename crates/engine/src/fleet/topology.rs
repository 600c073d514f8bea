//! The columns of a snapshot that change rarely: the names of clusters and the properties that filters read, such as
//! labels and taints. Free capacity changes often, and is in [`super::cluster_block`].
//!
//! Each property is stored as a column with one value for each cluster, or as a set of clusters. A filter can therefore
//! evaluate the whole fleet at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::api_numbers::Catalogue;
use super::row::{RepellingTaint, Row};
use super::symbols::{NONE, Symbol, Symbols};
use crate::cluster_set::Bits;

/// One value for each cluster, indexed by ordinal.
pub(crate) type Column = Arc<Vec<Symbol>>;

/// The names of clusters and the properties that filters read, indexed by ordinal.
#[derive(Clone, Debug)]
pub(crate) struct Topology {
    /// The names of the clusters, in ascending order.
    pub(crate) names: Arc<Vec<Arc<str>>>,
    pub(crate) symbols: Symbols,
    /// The column of values of each label key.
    pub(crate) labels: BTreeMap<Symbol, Column>,
    pub(crate) providers: Column,
    pub(crate) regions: Column,
    /// The zones of each cluster.
    pub(crate) zones: Arc<Vec<Arc<[Symbol]>>>,
    /// The index of each cluster's taints in `taint_lists`.
    pub(crate) taint_list_of: Column,
    /// The distinct lists of taints. The first list is empty.
    pub(crate) taint_lists: Arc<Vec<Arc<[RepellingTaint]>>>,
    pub(crate) catalogue: Arc<Catalogue>,
    /// The clusters that serve each API resource, indexed by the number of the resource in `catalogue`.
    pub(crate) served_by: Arc<Vec<Arc<Bits>>>,
    /// The clusters whose reported API resources are complete.
    pub(crate) apis_complete: Arc<Bits>,
    /// The clusters that are being deleted.
    pub(crate) deleting: Arc<Bits>,
}

impl Topology {
    /// Builds the columns from rows that are sorted by name.
    pub(crate) fn new<'a>(
        rows: impl ExactSizeIterator<Item = &'a Row> + Clone,
        symbols: Symbols,
        taint_lists: Arc<Vec<Arc<[RepellingTaint]>>>,
        catalogue: Arc<Catalogue>,
    ) -> Self {
        let len = rows.len();
        let optional =
            |interned: &Option<super::row::Interned>| interned.as_ref().map_or(NONE, |i| i.symbol);
        let mut labels: BTreeMap<Symbol, Vec<Symbol>> = BTreeMap::new();
        let mut served_by = vec![Bits::none(len); catalogue.len()];
        for (ordinal, row) in rows.clone().enumerate() {
            for (key, value) in &row.labels {
                labels.entry(key.symbol).or_insert_with(|| vec![NONE; len])[ordinal] = value.symbol;
            }
            for &api in row.apis.iter() {
                if let Some(clusters) = served_by.get_mut(api as usize) {
                    clusters.insert(ordinal);
                }
            }
        }
        Self {
            names: Arc::new(rows.clone().map(|row| Arc::clone(&row.name)).collect()),
            symbols,
            labels: labels
                .into_iter()
                .map(|(key, column)| (key, Arc::new(column)))
                .collect(),
            providers: Arc::new(rows.clone().map(|row| optional(&row.provider)).collect()),
            regions: Arc::new(rows.clone().map(|row| optional(&row.region)).collect()),
            zones: Arc::new(rows.clone().map(zone_symbols).collect()),
            taint_list_of: Arc::new(rows.clone().map(|row| row.taint_list).collect()),
            taint_lists,
            catalogue,
            served_by: Arc::new(served_by.into_iter().map(Arc::new).collect()),
            apis_complete: Arc::new(Bits::from_column(
                &rows
                    .clone()
                    .map(|row| row.apis_complete)
                    .collect::<Vec<_>>(),
                |complete| complete,
            )),
            deleting: Arc::new(Bits::from_column(
                &rows.map(|row| row.deleting).collect::<Vec<_>>(),
                |deleting| deleting,
            )),
        }
    }

    /// Returns the number of clusters.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the ordinal of a cluster.
    pub(crate) fn ordinal(&self, name: &str) -> Option<usize> {
        self.names
            .binary_search_by(|candidate| (**candidate).cmp(name))
            .ok()
    }

    /// Updates one cluster. Copies only the columns that change.
    pub(crate) fn update(&mut self, ordinal: usize, old: &Row, new: &Row) {
        let len = self.len();
        for (key, _) in &old.labels {
            if !new
                .labels
                .iter()
                .any(|(other, _)| other.symbol == key.symbol)
                && let Some(column) = self.labels.get_mut(&key.symbol)
            {
                Arc::make_mut(column)[ordinal] = NONE;
                if column.iter().all(|&value| value == NONE) {
                    self.labels.remove(&key.symbol);
                }
            }
        }
        for (key, value) in &new.labels {
            let column = self
                .labels
                .entry(key.symbol)
                .or_insert_with(|| Arc::new(vec![NONE; len]));
            write(column, ordinal, value.symbol);
        }
        let optional =
            |interned: &Option<super::row::Interned>| interned.as_ref().map_or(NONE, |i| i.symbol);
        write(&mut self.providers, ordinal, optional(&new.provider));
        write(&mut self.regions, ordinal, optional(&new.region));
        write(&mut self.taint_list_of, ordinal, new.taint_list);
        if old.zones != new.zones {
            Arc::make_mut(&mut self.zones)[ordinal] = zone_symbols(new);
        }
        if old.apis != new.apis {
            let served_by = Arc::make_mut(&mut self.served_by);
            let len = self.names.len();
            served_by.resize_with(self.catalogue.len(), || Arc::new(Bits::none(len)));
            for (apis, member) in [(&old.apis, false), (&new.apis, true)] {
                for &api in apis.iter() {
                    if let Some(clusters) = served_by.get_mut(api as usize)
                        && clusters.contains(ordinal) != member
                    {
                        Arc::make_mut(clusters).set(ordinal, member);
                    }
                }
            }
        }
        if old.apis_complete != new.apis_complete {
            Arc::make_mut(&mut self.apis_complete).set(ordinal, new.apis_complete);
        }
        if old.deleting != new.deleting {
            Arc::make_mut(&mut self.deleting).set(ordinal, new.deleting);
        }
    }
}

fn zone_symbols(row: &Row) -> Arc<[Symbol]> {
    row.zones.iter().map(|zone| zone.symbol).collect()
}

/// Writes a value into a column. Copies the column only if the value differs.
fn write(column: &mut Column, ordinal: usize, value: Symbol) {
    if column.get(ordinal) != Some(&value)
        && let Some(current) = Arc::make_mut(column).get_mut(ordinal)
    {
        *current = value;
    }
}
