//! The flow diagram of predicted moves. Lines lead from the clusters that lose replicas through the bindings to the
//! clusters that get replicas.
//!
//! The flows to the left and to the right of a binding have the same total. Replicas that come from no cluster are new.
//! Replicas that go to no cluster are removed. The width of a line is proportional to its replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use berth_plan::what_if::{Move, Share};

use super::super::format::thousands;
use crate::html::Html;

/// Width of the picture, positions of its three columns, and width of a node.
const WIDTH: f64 = 920.0;
const LEFT: f64 = 210.0;
const MIDDLE: f64 = 455.0;
const RIGHT: f64 = 700.0;
const NODE: f64 = 10.0;

/// Height of the largest flow, and minimum height of a flow.
const MAX_FLOW_HEIGHT: f64 = 48.0;
const MIN_FLOW_HEIGHT: f64 = 2.0;

/// Height of the label above a binding, and of the space below the binding.
const LABEL: f64 = 18.0;
const GAP: f64 = 10.0;
/// Minimum height of a cluster with its label.
const MIN_CLUSTER_HEIGHT: f64 = 18.0;

/// Maximum number of flows on a side of a binding.
const MAX_FLOWS: usize = 100;
/// Maximum number of letters in a label.
const MAX_LABEL_LETTERS: usize = 30;

/// A side of the diagram. Clusters on the left lose replicas, and clusters on the right get replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// The outer end of a flow: a cluster, or no cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Cluster(String),
    /// No cluster, for new or removed replicas.
    NoCluster,
}

/// A flow of replicas between a binding and an [`End`].
#[derive(Debug)]
struct Flow {
    end: End,
    replicas: i64,
}

/// A binding with its flows. Both sides have the same total.
#[derive(Debug)]
struct BindingFlows<'a> {
    predicted: &'a Move,
    left: Vec<Flow>,
    right: Vec<Flow>,
}

impl<'a> BindingFlows<'a> {
    fn new(of: &'a Move) -> Self {
        let (from, to) = (&of.from, &of.to.clusters);
        // A resource without replicas counts as 1 on each of its clusters.
        let is_empty = from.iter().chain(to).all(|share| share.replicas == 0);
        let min_weight = i64::from(is_empty);
        let weights = |shares: &'a [Share]| -> BTreeMap<&'a str, i64> {
            let weight = |share: &Share| i64::from(share.replicas).max(min_weight);
            let shares = shares.iter();
            shares.map(|share| (&*share.name, weight(share))).collect()
        };
        let (before, after) = (weights(from), weights(to));
        let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for name in names {
            let weight = |of: &BTreeMap<&str, i64>| of.get(name).copied().unwrap_or(0);
            let change = weight(&after) - weight(&before);
            let side = if change < 0 { &mut left } else { &mut right };
            if change != 0 && side.len() < MAX_FLOWS {
                side.push(Flow {
                    end: End::Cluster(name.to_owned()),
                    replicas: change.abs(),
                });
            }
        }
        let sum = |flows: &[Flow]| flows.iter().map(|flow| flow.replicas).sum::<i64>();
        let difference = sum(&right) - sum(&left);
        let (side, replicas) = if difference > 0 {
            (&mut left, difference)
        } else {
            (&mut right, -difference)
        };
        if replicas > 0 {
            let end = End::NoCluster;
            side.push(Flow { end, replicas });
        }
        Self {
            predicted: of,
            left,
            right,
        }
    }

    fn flows(&self, side: Side) -> &[Flow] {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }
}

/// Writes the diagram of moves. The table of moves has the same content.
pub(super) fn write(html: &mut Html, moves: &[Move]) {
    let bindings: Vec<BindingFlows<'_>> = moves.iter().map(BindingFlows::new).collect();
    let bindings: Vec<BindingFlows<'_>> = bindings
        .into_iter()
        .filter(|of| !of.left.is_empty() || !of.right.is_empty())
        .collect();
    if bindings.is_empty() {
        return;
    }
    let max_replicas = bindings
        .iter()
        .flat_map(|of| of.left.iter().chain(&of.right))
        .map(|flow| flow.replicas)
        .max();
    let scale = Scale {
        max_replicas: number(max_replicas.unwrap_or(1).max(1)),
    };
    let middle = Column::of_bindings(&bindings, &scale);
    let left = Column::of_ends(&bindings, Side::Left, &scale);
    let right = Column::of_ends(&bindings, Side::Right, &scale);
    let height = [middle.height, left.height, right.height]
        .into_iter()
        .fold(0.0, f64::max);
    let frame: [(&str, &dyn Display); 4] = [
        ("class", &"flows"),
        ("role", &"region"),
        ("aria-label", &"Diagram of the moves"),
        ("tabindex", &"0"),
    ];
    html.el("div", &frame, |html| {
        let view = format!("0 0 {WIDTH} {height:.0}");
        let label = "Flows of replicas from clusters through bindings to clusters; the table below has the same content";
        let picture: [(&str, &dyn Display); 4] = [
            ("viewBox", &view),
            ("role", &"img"),
            ("aria-label", &label),
            ("width", &WIDTH),
        ];
        html.el("svg", &picture, |html| {
            for (side, ends) in [(Side::Left, &left), (Side::Right, &right)] {
                lines(html, &bindings, side, ends, &middle, &scale);
            }
            for (side, ends) in [(Side::Left, &left), (Side::Right, &right)] {
                nodes(html, side, ends);
            }
            for (of, (top, height)) in bindings.iter().zip(&middle.slots) {
                let decision = &of.predicted.to;
                let class = if decision.failure.is_some() {
                    "lost"
                } else {
                    "node"
                };
                rectangle(html, class, MIDDLE, *top, *height);
                let name = decision.key.to_string();
                label_at(html, "middle", MIDDLE + NODE / 2.0, top - 5.0, &name);
            }
        });
    });
}

/// The scale from replicas to heights. `max_replicas` is the largest number of replicas in a flow.
struct Scale {
    max_replicas: f64,
}

impl Scale {
    fn height(&self, replicas: i64) -> f64 {
        (number(replicas) / self.max_replicas * MAX_FLOW_HEIGHT).max(MIN_FLOW_HEIGHT)
    }
}

/// Converts a number of replicas. A number above `i32::MAX` is drawn as `i32::MAX`.
fn number(replicas: i64) -> f64 {
    f64::from(i32::try_from(replicas).unwrap_or(i32::MAX))
}

/// The tops and heights of the nodes of a column.
#[derive(Debug)]
struct Column {
    slots: Vec<(f64, f64)>,
    ends: BTreeMap<End, usize>,
    height: f64,
}

impl Column {
    fn of_bindings(bindings: &[BindingFlows<'_>], scale: &Scale) -> Self {
        let (mut slots, mut top) = (Vec::new(), 0.0);
        for of in bindings {
            let height = |side| {
                let flows = of.flows(side).iter();
                flows.map(|flow| scale.height(flow.replicas)).sum::<f64>()
            };
            let height = f64::max(height(Side::Left), height(Side::Right));
            slots.push((top + LABEL, height));
            top += LABEL + height + GAP;
        }
        Self {
            slots,
            ends: BTreeMap::new(),
            height: top,
        }
    }

    fn of_ends(bindings: &[BindingFlows<'_>], side: Side, scale: &Scale) -> Self {
        let mut sizes: BTreeMap<End, f64> = BTreeMap::new();
        for flow in bindings.iter().flat_map(|of| of.flows(side)) {
            *sizes.entry(flow.end.clone()).or_default() += scale.height(flow.replicas);
        }
        let (mut slots, mut ends, mut top) = (Vec::new(), BTreeMap::new(), 0.0);
        for (end, height) in sizes {
            ends.insert(end, slots.len());
            slots.push((top + LABEL / 2.0, height));
            top += height.max(MIN_CLUSTER_HEIGHT) + GAP;
        }
        Self {
            slots,
            ends,
            height: top + LABEL,
        }
    }
}

fn lines(
    html: &mut Html,
    bindings: &[BindingFlows<'_>],
    side: Side,
    ends: &Column,
    middle: &Column,
    scale: &Scale,
) {
    // The position of the next line at each end.
    let mut next_position: Vec<f64> = ends.slots.iter().map(|slot| slot.0).collect();
    for (of, (top, _)) in bindings.iter().zip(&middle.slots) {
        let mut at = *top;
        for flow in of.flows(side) {
            let height = scale.height(flow.replicas);
            let next = ends
                .ends
                .get(&flow.end)
                .and_then(|index| next_position.get_mut(*index));
            let Some(next) = next else { continue };
            let (end, inner) = (*next + height / 2.0, at + height / 2.0);
            *next += height;
            at += height;
            let (from, to) = match side {
                Side::Left => ((LEFT + NODE, end), (MIDDLE, inner)),
                Side::Right => ((MIDDLE + NODE, inner), (RIGHT, end)),
            };
            let bend = f64::midpoint(from.0, to.0);
            let curve = format!(
                "M{:.1} {:.1}C{bend:.1} {:.1} {bend:.1} {:.1} {:.1} {:.1}",
                from.0, from.1, from.1, to.1, to.0, to.1
            );
            let width = format!("{height:.1}");
            let attributes: [(&str, &dyn Display); 3] =
                [("class", &"flow"), ("d", &curve), ("stroke-width", &width)];
            html.el("path", &attributes, |html| {
                html.leaf("title", &[], describe(of.predicted, flow, side));
            });
        }
    }
}

fn describe(of: &Move, flow: &Flow, side: Side) -> String {
    let name = &of.to.key;
    let amount = match (of.to.replicas.is_some(), flow.replicas) {
        (false, _) => "the resource".to_owned(),
        (true, 1) => "1 replica".to_owned(),
        (true, replicas) => format!("{} replicas", thousands(replicas)),
    };
    match (side, &flow.end) {
        (Side::Left, End::Cluster(cluster)) => format!("{name}: {amount} from {cluster}"),
        (Side::Right, End::Cluster(cluster)) => format!("{name}: {amount} to {cluster}"),
        (Side::Left, End::NoCluster) => format!("{name}: {amount} new"),
        (Side::Right, End::NoCluster) => format!("{name}: {amount} removed"),
    }
}

fn nodes(html: &mut Html, side: Side, column: &Column) {
    for (end, index) in &column.ends {
        let Some((top, height)) = column.slots.get(*index) else {
            continue;
        };
        let (x, anchor, text) = match side {
            Side::Left => (LEFT, "end", LEFT - 8.0),
            Side::Right => (RIGHT, "start", RIGHT + NODE + 8.0),
        };
        let (class, name) = match (end, side) {
            (End::Cluster(name), _) => ("node", name.as_str()),
            (End::NoCluster, Side::Left) => ("node", "new"),
            (End::NoCluster, Side::Right) => ("lost", "no cluster"),
        };
        rectangle(html, class, x, *top, *height);
        label_at(html, anchor, text, top + height / 2.0 + 4.0, name);
    }
}

fn rectangle(html: &mut Html, class: &str, x: f64, top: f64, height: f64) {
    let (top, height) = (format!("{top:.1}"), format!("{height:.1}"));
    let attributes: [(&str, &dyn Display); 5] = [
        ("class", &class),
        ("x", &x),
        ("y", &top),
        ("width", &NODE),
        ("height", &height),
    ];
    html.void("rect", &attributes);
}

fn label_at(html: &mut Html, anchor: &str, x: f64, y: f64, text: &str) {
    let y = format!("{y:.1}");
    let attributes: [(&str, &dyn Display); 3] = [("x", &x), ("y", &y), ("text-anchor", &anchor)];
    html.el("text", &attributes, |html| {
        if text.chars().count() > MAX_LABEL_LETTERS {
            html.leaf("title", &[], text);
            let start: String = text.chars().take(MAX_LABEL_LETTERS - 1).collect();
            html.text(format_args!("{start}…"));
        } else {
            html.text(text);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::tests::moved;
    use super::*;

    fn pairs(flows: &[Flow]) -> Vec<(&str, i64)> {
        let pairs = flows.iter().map(|flow| match &flow.end {
            End::Cluster(name) => (name.as_str(), flow.replicas),
            End::NoCluster => ("", flow.replicas),
        });
        pairs.collect()
    }

    #[test]
    fn only_changed_replicas_leave_or_arrive() {
        let of = moved(
            0,
            &[("a", 3), ("b", 2), ("c", 1)],
            &[("a", 3), ("c", 2), ("d", 1)],
        );
        let flows = BindingFlows::new(&of);
        assert_eq!(pairs(&flows.left), [("b", 2)]);
        assert_eq!(pairs(&flows.right), [("c", 1), ("d", 1)]);
        // Resources without replicas.
        let of = moved(0, &[("a", 0), ("b", 0)], &[("a", 0), ("c", 0)]);
        let flows = BindingFlows::new(&of);
        assert_eq!(pairs(&flows.left), [("b", 1)]);
        assert_eq!(pairs(&flows.right), [("c", 1)]);
    }

    #[test]
    fn the_flows_of_a_binding_on_many_clusters_are_bounded() {
        let names: Vec<String> = (0..5000).map(|of| format!("m{of:04}")).collect();
        let clusters: Vec<(&str, i32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
        let of = moved(0, &clusters, &[]);
        assert_eq!(BindingFlows::new(&of).left.len(), MAX_FLOWS);
    }
}
