//! What the functions of lists and sets cost that make new ones, or compare all with all.

use kube_cel::cel::common::ast::{Expr, LiteralValue};

use super::super::types::CelType;
use super::calls::{CHARACTER, Call, Found, ONE, size};
use super::{Estimate, NEW_LIST, Node, Range};

/// A number as it is written.
fn number(node: &Node<'_>, otherwise: u64) -> u64 {
    match &node.e.expr {
        Expr::Literal(LiteralValue::Int(number)) => u64::try_from(*number.inner()).unwrap_or(0),
        _ => otherwise,
    }
}

/// The functions of lists and sets that make new ones, or compare all with all.
pub(super) fn lists(estimate: &Estimate<'_>, call: &Call<'_, '_>) -> Option<Found> {
    let size = |node: &Node<'_>| size(estimate, node);
    let made =
        |each: f64, size: Range| Some(Found::sized(size.at(each).add(ONE).add(NEW_LIST), size));
    let sets = |each: f64, a: &Node<'_>, b: &Node<'_>| {
        Some(Found::cost(size(a).multiply(size(b)).at(each).add(ONE)))
    };
    let sorted = |by: &Node<'_>, of: &CelType<'_>| {
        let CelType::List(of, _) = of else {
            return None;
        };
        let text = matches!(of.as_ref(), CelType::String | CelType::Bytes);
        let each = if text { 2.0 + CHARACTER } else { 2.0 };
        made(each, size(by).multiply(size(by)))
    };
    let takes = &call.signature.takes;
    match (call.name, call.target, call.args) {
        ("sets.contains" | "sets.intersects", _, [a, b]) => sets(1.0, a, b),
        ("sets.equivalent", _, [a, b]) => sets(2.0, a, b),
        ("slice", Some(list), [start, end]) => {
            let end = number(end, size(list).max);
            made(1.0, Range::exactly(end.wrapping_sub(number(start, 0))))
        }
        ("lists.range", None, [end]) => made(1.0, Range::exactly(number(end, u64::MAX))),
        ("reverse" | "flatten", Some(list), []) => made(1.0, size(list)),
        #[expect(clippy::cast_precision_loss, reason = "a depth is a small number")]
        ("flatten", Some(list), [depth]) => made(number(depth, u64::MAX) as f64, size(list)),
        ("distinct", Some(list), []) => made(2.0, size(list).multiply(size(list))),
        ("sort", Some(list), []) => sorted(list, takes.first()?),
        ("@sortByAssociatedKeys", Some(_), [keys]) => sorted(keys, takes.get(1)?),
        _ => None,
    }
}
