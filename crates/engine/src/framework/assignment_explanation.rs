//! [`DivisionStep`]: the explanation that the assign plugin returns, with one value for each step in which it divided
//! the replicas.

use serde::{Deserialize, Serialize};

/// A step of an assignment: the division of a number of replicas among clusters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DivisionStep {
    /// The operation of the step.
    pub operation: DivisionOperation,
    /// The tier among whose clusters the step divides the replicas. Absent if the affinity term has no overflow groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<u32>,
    /// The number of replicas to divide.
    pub replicas: i64,
    /// The meaning of the weights in `shares`.
    pub weights: WeightBasis,
    /// The order of names that decides between clusters that are equal in all other respects.
    pub ties: TieBreak,
    /// The shares of the clusters in this step. If replicas were divided, the shares are sorted by cluster name.
    pub shares: Vec<DividedShare>,
    /// The replicas that clusters got in addition to the floors of their shares, in the order in which they were given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remainders: Vec<Remainder>,
}

/// The operation of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DivisionOperation {
    /// Every cluster gets all replicas.
    Copy,
    /// The clusters keep their current replicas, because the requested number is unchanged.
    Keep,
    /// All replicas are divided.
    DivideAll,
    /// The missing replicas are divided, and added to the current replicas.
    Add,
    /// Single replicas were moved, so that enough groups of the spread constraints have replicas. The shares are the
    /// result.
    Spread,
    /// The replicas were divided within the limits of the binding. The shares are the result.
    Limit,
    /// The workload shrinks. The remaining replicas are divided among its current clusters.
    Shrink,
}

/// The meaning of the weights of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WeightBasis {
    /// The step has no weights.
    None,
    /// The weight is the greatest static weight of the rules that match the cluster.
    Rules,
    /// The weight is 1 for every cluster, because no rule gives any cluster a positive weight.
    Equal,
    /// The weight is the number of further replicas that fit into the cluster.
    Free,
    /// The weight is the number of further replicas that fit into the cluster, plus its current replicas.
    Available,
    /// The weight is the number of current replicas.
    Held,
}

/// The order of names that decides between clusters that are equal in all other respects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TieBreak {
    /// The cluster whose name sorts first wins.
    FirstName,
    /// The cluster whose name sorts last wins.
    LastName,
}

/// The share of one cluster in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DividedShare {
    /// The name of the cluster.
    pub cluster: String,
    /// The weight of the cluster.
    pub weight: i64,
    /// The exact proportional share, before rounding.
    pub exact: f64,
    /// The exact share, rounded down.
    pub floor: i64,
    /// The number of replicas beyond the floor. In rare cases, this number is negative, because the method of division
    /// does not guarantee the floor.
    pub remainder: i64,
    /// The replicas that the cluster gets in this step.
    pub replicas: i64,
    /// The limit that the replicas reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitReached>,
}

/// A limit of the annotation `scheduling.berth/replica-limits` that a share reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimitReached {
    /// The minimum of the cluster.
    AtLeast(i64),
    /// The maximum of the cluster.
    AtMost(i64),
}

/// A replica that a cluster got in addition to the floor of its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remainder {
    /// The name of the cluster that got the replica.
    pub cluster: String,
    /// The claim of the cluster: `weight / (2 * replicas + 1)`. `replicas` is the number of replicas that the step had
    /// given to the cluster before. The next replica goes to the cluster with the greatest claim.
    pub claim: f64,
    /// The rule by which this claim precedes the next claim.
    pub decided_by: RemainderRule,
}

/// The rule by which a claim precedes the next claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RemainderRule {
    /// The claim is greater.
    Claim,
    /// The claims are equal, and the cluster has fewer replicas.
    FewerReplicas,
    /// The claims and the replicas are equal, and the order of names decides.
    Name,
}
