//! The explanation that an Assign plugin gives: how it divided the replicas, step by step.

use serde::{Deserialize, Serialize};

/// A step of an assignment: one division of a number of replicas among clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DivisionStep {
    /// The operation.
    pub operation: DivisionOperation,
    /// The tier whose clusters take part, if the term has overflow groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
    /// The replicas to divide.
    pub replicas: i64,
    /// The meaning of the weights.
    pub weights: WeightBasis,
    /// The order of names that breaks the last ties.
    pub ties: TieBreak,
    /// The clusters that take part, by name.
    pub shares: Vec<DividedShare>,
    /// The replicas beyond the floors, in the order in which they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remainders: Vec<Remainder>,
}

/// The operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DivisionOperation {
    /// Every cluster gets all replicas.
    Copy,
    /// The clusters keep the replicas that they hold, because the number is unchanged.
    Keep,
    /// All replicas are divided.
    DivideAll,
    /// The missing replicas are divided and added to the held ones.
    Add,
    /// The workload shrinks: the remaining replicas are divided among the clusters that hold it.
    Shrink,
}

/// The meaning of the weights of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WeightBasis {
    /// Nothing is weighted.
    None,
    /// The greatest static weight of the rules that match the cluster.
    Rules,
    /// 1 for every cluster, because no rule matches any cluster.
    Equal,
    /// The free capacity.
    Free,
    /// The free capacity plus the held replicas.
    Available,
    /// The held replicas.
    Held,
}

/// The order of names that decides between otherwise equal clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TieBreak {
    /// The first name wins.
    FirstName,
    /// The last name wins.
    LastName,
}

/// The part of one cluster in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DividedShare {
    /// The cluster.
    pub cluster: String,
    /// The weight.
    pub weight: i64,
    /// The exact proportional share.
    pub exact: f64,
    /// The exact share, rounded down.
    pub floor: i64,
    /// The replicas beyond the floor; rarely negative, because the method does not guarantee the floor.
    pub remainder: i64,
    /// The replicas given in this step.
    pub replicas: i64,
}

/// A replica beyond the floors.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remainder {
    /// The cluster that got it.
    pub cluster: String,
    /// The claim: `weight / (2 * replicas + 1)`, with the replicas that the cluster had at that time. The greatest
    /// claim gets the next replica.
    pub claim: f64,
    /// The rule that decided against the next cluster in order.
    pub decided_by: RemainderRule,
}

/// The rule that gave a remainder to one cluster rather than to the next in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RemainderRule {
    /// The greater claim.
    Claim,
    /// Equal claims: the cluster with fewer replicas.
    FewerReplicas,
    /// Equal claims and replicas: the order of names.
    Name,
}
