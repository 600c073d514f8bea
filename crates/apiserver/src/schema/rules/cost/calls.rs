//! What each function and operator costs, and how large what it gives is.

use kube_cel::cel::common::ast::{Expr, LiteralValue, operators};

use super::super::check::Signature;
use super::super::types::CelType;
use super::lists::lists;
use super::{Estimate, Node, Range, key};
use kube_cel::cel::IdedExpr;

/// For each character that is looked at.
pub(super) const CHARACTER: f64 = 0.1;
/// For each character of a pattern, and each of the text.
const PATTERN: f64 = 0.25;
pub(super) const ONE: Range = Range::exactly(1);

/// A call by one of the signatures that it fits.
pub(super) struct Call<'n, 'e> {
    pub(super) name: &'n str,
    pub(super) signature: &'static Signature,
    pub(super) target: Option<&'n Node<'e>>,
    pub(super) args: &'n [Node<'e>],
    pub(super) costs: &'n [Range],
}

/// What a call costs, and the size of what it gives, if that can be told.
pub(super) struct Found {
    pub(super) cost: Range,
    pub(super) size: Option<Range>,
}

impl Found {
    pub(super) fn cost(cost: Range) -> Self {
        Self { cost, size: None }
    }

    pub(super) fn sized(cost: Range, size: Range) -> Self {
        Self {
            cost,
            size: Some(size),
        }
    }
}

impl<'c> Estimate<'c> {
    /// What a call costs, with its arguments.
    pub(super) fn called(&mut self, e: &IdedExpr, call: &Call<'_, 'c>) -> Found {
        let args = call
            .costs
            .iter()
            .copied()
            .fold(Range::exactly(0), Range::add);
        let own = lists(self, call).or_else(|| library(self, call));
        if let Some(found) = own {
            return Found {
                cost: found.cost.add(args),
                size: found.size,
            };
        }
        match (call.name, call.costs) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                // The right side may never be looked at.
                return Found::cost(Range::between(left.min, left.add(*right).max));
            }
            (operators::CONDITIONAL, [condition, yes, no]) => {
                return self.choice(e, call, condition.add(yes.union(*no)));
            }
            _ => {}
        }
        let found = self.standard(e, call);
        Found {
            cost: found.cost.add(args),
            size: found.size,
        }
    }

    fn choice(&mut self, e: &IdedExpr, call: &Call<'_, 'c>, cost: Range) -> Found {
        let [_, yes, no] = call.args else {
            return Found::cost(cost);
        };
        let size = known(yes).union(known(no));
        if let (Some(yes), Some(no)) = (self.entry(yes.e), self.entry(no.e)) {
            self.entries.insert(key(e), yes.union(no));
        }
        Found::sized(cost, size)
    }

    /// The functions and operators of every CEL.
    fn standard(&mut self, e: &IdedExpr, call: &Call<'_, 'c>) -> Found {
        let of = call.signature.takes.first();
        match (call.name, call.target, call.args) {
            ("format", Some(target), _) => Found::cost(known(target).at(CHARACTER)),
            ("bytes", None, [text]) if matches!(of, Some(CelType::String)) => {
                let size = known(text);
                let most = size.max.wrapping_mul(4);
                Found::sized(size.at(CHARACTER), Range::between(size.min, most))
            }
            ("string", None, [bytes]) if matches!(of, Some(CelType::Bytes)) => {
                let size = known(bytes);
                Found::sized(size.at(CHARACTER), Range::between(size.min / 4, size.max))
            }
            ("strings.quote", None, [text]) => {
                let size = known(text);
                let quoted = Range::between(
                    size.min.wrapping_add(2),
                    size.max.wrapping_mul(2).wrapping_add(2),
                );
                Found::sized(size.at(CHARACTER), quoted)
            }
            ("startsWith" | "endsWith", Some(_), [part]) => Found::cost(known(part).at(CHARACTER)),
            (operators::IN, None, [_, list])
                if matches!(call.signature.takes.get(1), Some(CelType::List(..))) =>
            {
                Found::cost(known(list).at(1.0))
            }
            ("matches", Some(text), [pattern]) => Found::cost(matched(known(text), known(pattern))),
            ("contains", Some(text), [part]) => Found::cost(
                known(text)
                    .at(CHARACTER)
                    .multiply(known(part).at(CHARACTER)),
            ),
            (operators::ADD, None, [left, right])
                if matches!(
                    of,
                    Some(CelType::String | CelType::Bytes | CelType::List(..))
                ) =>
            {
                let size = known(left).add(known(right));
                if let (Some(left), Some(right)) = (self.entry(left.e), self.entry(right.e)) {
                    self.entries.insert(key(e), left.union(right));
                }
                let cost = match of {
                    Some(CelType::List(..)) => ONE,
                    _ => size.at(CHARACTER),
                };
                Found::sized(cost, size)
            }
            (operators::EQUALS | operators::NOT_EQUALS, None, [left, right]) => {
                Found::cost(compared(left, right))
            }
            (
                operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS,
                None,
                [left, right],
            ) if matches!(of, Some(CelType::String | CelType::Bytes)) => {
                Found::cost(compared(left, right))
            }
            _ => Found::cost(ONE),
        }
    }
}

fn known(node: &Node<'_>) -> Range {
    node.size.unwrap_or(Range::ANY)
}

fn compared(left: &Node<'_>, right: &Node<'_>) -> Range {
    let most = known(left).max.min(known(right).max);
    Range::between(u64::from(most > 0), most).at(CHARACTER)
}

fn matched(text: Range, pattern: Range) -> Range {
    // An empty text costs something, too.
    text.add(ONE).at(CHARACTER).multiply(pattern.at(PATTERN))
}

pub(super) fn size(estimate: &Estimate<'_>, node: &Node<'_>) -> Range {
    let at = || estimate.sizes.at(&node.path);
    node.size.or_else(at).unwrap_or(Range::ANY)
}

/// The functions that Kubernetes adds, and those of texts.
fn library(estimate: &Estimate<'_>, call: &Call<'_, '_>) -> Option<Found> {
    let size = |node: &Node<'_>| size(estimate, node);
    let scanned = |node: &Node<'_>, each: f64| Found::cost(size(node).at(each));
    // An address as bytes.
    let address = Range::between(4, 16);
    let compared = || address.add(address).at(CHARACTER);
    let parsed = |cost: Range, node: &Node<'_>| {
        if matches!(call.signature.takes.get(1), Some(CelType::String)) {
            cost.add(size(node).at(CHARACTER))
        } else {
            cost
        }
    };
    match (call.name, call.target, call.args) {
        ("check", ..) => Some(Found::cost(Range::exactly(350_000))),
        ("fieldSelector" | "labelSelector", _, [selector]) => {
            let size = size(selector);
            let requirements = size.at(0.5).at(50.0);
            Some(Found::cost(
                size.at(CHARACTER).add(requirements).add(super::NEW_LIST),
            ))
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
            Some(match element(estimate, &target.of, &target.path) {
                Some((of, found)) => {
                    let text = matches!(of, CelType::String | CelType::Bytes);
                    let each = if text {
                        ONE.add(found.at(CHARACTER))
                    } else {
                        ONE
                    };
                    Found::cost(size(target).multiply(each))
                }
                None => scanned(target, CHARACTER),
            })
        }
        ("url", _, [text]) => Some(Found::sized(size(text).at(CHARACTER), size(text))),
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            Some(Found::sized(size(text).at(CHARACTER), size(text)))
        }
        ("replace", Some(text), [from, to, ..]) => {
            let found = replaced(size(text), size(from), size(to));
            Some(Found::sized(size(text).at(2.0 * CHARACTER), found))
        }
        ("split", Some(text), args) => {
            let most = match args.get(1).map(|limit| &limit.e.expr) {
                #[expect(clippy::cast_sign_loss, reason = "less than none is any number")]
                Some(Expr::Literal(LiteralValue::Int(limit))) => *limit.inner() as u64,
                _ => size(text).max,
            };
            let parts = Range::between(0, most);
            Some(Found::sized(size(text).at(2.0 * CHARACTER), parts))
        }
        ("join", Some(list), args) => {
            let count = size(list);
            let elements = element(estimate, &list.of, &list.path);
            let mut whole = elements.map_or(Range::exactly(0), |(_, of)| count.multiply(of));
            if let Some(between) = args.first() {
                let gaps = Range::between(count.min.saturating_sub(1), count.max.saturating_sub(1));
                whole = whole.add(size(between).multiply(gaps));
            }
            Some(Found::sized(whole.at(CHARACTER), whole))
        }
        ("find" | "findAll", Some(text), [pattern, ..]) => Some(Found::sized(
            matched(size(text), size(pattern)),
            Range::between(0, size(text).max),
        )),
        (
            "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver",
            _,
            [text, ..],
        )
        | ("ip", None, [text, ..]) => Some(scanned(text, CHARACTER)),
        ("ip.isCanonical", _, [text, ..]) => Some(scanned(text, 2.0 * CHARACTER)),
        ("containsIP", _, [other, ..]) => Some(Found::cost(parsed(compared(), other))),
        ("containsCIDR", _, [other, ..]) => {
            let masked = compared().add(address.at(CHARACTER)).add(ONE);
            Some(Found::cost(parsed(masked, other)))
        }
        ("validate", _, [text, ..]) => {
            Some(Found::cost(size(text).at(CHARACTER).at(128.0 * PATTERN)))
        }
        (operators::EQUALS, _, [left, right]) => equal(left, right),
        (name, ..) if STEPS.contains(&name) => Some(Found::cost(ONE)),
        _ => None,
    }
}

/// What costs no more than a step.
const STEPS: &[&str] = &[
    "serviceAccount",
    "path",
    "group",
    "resource",
    "subresource",
    "namespace",
    "name",
    "allowed",
    "reason",
    "error",
    "errored",
    "ip",
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
];

/// Whether values of a library are equal.
fn equal(left: &Node<'_>, right: &Node<'_>) -> Option<Found> {
    let CelType::Named(name) = left.of else {
        return None;
    };
    if !left.of.is(&right.of) {
        return None;
    }
    Some(Found::cost(match name {
        "kubernetes.NamedFormat" => Range::between(1, 64).at(CHARACTER),
        "kubernetes.URL" => {
            let most = right.size.map_or(1, |size| size.max);
            Range::between(1, most).at(CHARACTER)
        }
        _ => ONE,
    }))
}

/// The type and the size of the elements of a list.
fn element<'t>(
    estimate: &Estimate<'_>,
    list: &CelType<'t>,
    path: &[String],
) -> Option<(CelType<'t>, Range)> {
    let of = match list {
        CelType::List(of, _) | CelType::Map(of, _) | CelType::Optional(of) => of.as_ref().clone(),
        _ => return None,
    };
    let mut path = path.to_vec();
    if !path.is_empty() {
        path.push("@items".to_owned());
    }
    Some((of, estimate.sizes.at(&path).unwrap_or(Range::ANY)))
}

/// How long a text is after a replacement.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "estimates are made in these numbers elsewhere, and have to come out the same; the cast saturates"
)]
fn replaced(text: Range, from: Range, to: Range) -> Range {
    let times = |length: u64, each: u64| (length as f64 / each as f64).ceil() as u64;
    let (most, kept_most) = if from.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if to.max <= from.min {
        (0, text.max)
    } else {
        (times(text.max, from.min), 0)
    };
    let (least, kept_least) = if from.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if from.max <= to.min {
        (0, text.min)
    } else {
        (times(text.min, from.max), 0)
    };
    Range::between(least, most)
        .multiply(to)
        .add(Range::between(kept_least, kept_most))
}
