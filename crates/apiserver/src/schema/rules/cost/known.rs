//! The sizes of nodes: as they are written, as the schema bounds them, or as they were found out on the way.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{Expr, LiteralValue};

use super::super::types::CelType;
use super::{Entry, Estimate, Range, key};

impl Estimate<'_> {
    pub(super) fn sized(&mut self, e: &IdedExpr, size: Option<Range>) {
        if let Some(size) = size {
            self.known.insert(key(e), size);
        }
    }

    pub(super) fn same_sizes(&mut self, e: &IdedExpr, of: &IdedExpr) {
        let size = self.size(of);
        self.sized(e, size);
        if let Some(entry) = self.entry(of) {
            self.entries.insert(key(e), entry);
        }
    }

    pub(super) fn entry(&self, e: &IdedExpr) -> Option<Entry> {
        let known = self.entries.get(&key(e)).copied();
        known.or_else(|| match &e.expr {
            Expr::Ident(name) => self.local(name)?.entry,
            _ => None,
        })
    }

    pub(super) fn size_or_any(&mut self, e: &IdedExpr) -> Range {
        self.size(e).unwrap_or(Range::ANY)
    }

    pub(super) fn size(&mut self, e: &IdedExpr) -> Option<Range> {
        if let Some(known) = self.known.get(&key(e)) {
            return Some(*known);
        }
        if let Some(size) = size_as_written(e) {
            return Some(size);
        }
        if let Some(size) = self.sizes.at(&self.path(e)) {
            self.known.insert(key(e), size);
            return Some(size);
        }
        if is_scalar(&self.facts.of(key(e))) {
            return Some(Range::exactly(1));
        }
        match &e.expr {
            Expr::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }
}

fn size_as_written(e: &IdedExpr) -> Option<Range> {
    let size = match &e.expr {
        Expr::Literal(LiteralValue::String(text)) => text.inner().chars().count(),
        Expr::Literal(LiteralValue::Bytes(bytes)) => bytes.inner().len(),
        Expr::Literal(_) => 1,
        Expr::List(list) => list.elements.len(),
        Expr::Map(map) => map.entries.len(),
        _ => return None,
    };
    Some(Range::exactly(u64::try_from(size).unwrap_or(u64::MAX)))
}

fn is_scalar(of: &CelType<'_>) -> bool {
    match of {
        CelType::Bool
        | CelType::Double
        | CelType::Duration
        | CelType::Int
        | CelType::Timestamp
        | CelType::Uint => true,
        CelType::Optional(of) => is_scalar(of),
        _ => false,
    }
}
