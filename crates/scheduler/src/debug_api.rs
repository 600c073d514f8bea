//! The debug API: the JSON documents of the debug endpoints, and the requests of these endpoints to the scheduler's
//! task.
//!
//! This module must not depend on the scheduler's task, which makes the decisions and answers the requests.

mod documents;
pub(crate) mod query;

pub use documents::{
    API_VERSION, ActiveConfiguration, CONFIGURATION_PATH, DECISIONS_PATH, DecisionDetails,
    DecisionList, DecisionSummary, QUEUES_PATH, QueueList, QueuePosition, QueueSummary,
    ResourceUse,
};
