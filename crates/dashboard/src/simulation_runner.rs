//! The queue and cache of simulations: one simulation runs at a time, and the last results are kept, so that the next
//! page of a result needs no new simulation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_engine::Fleet;
use berth_plan::scheduler_configuration::DecisionConfiguration;
use berth_plan::what_if::{Change, Moves, predict_change};
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Maximum time to wait for the end of another simulation.
const MAX_WAIT: Duration = Duration::from_secs(15);
/// Maximum number of kept results.
const MAX_RESULTS: usize = 4;
/// Maximum number of moves in a kept result.
pub(crate) const MAX_MOVES: usize = 1000;
/// Maximum age of a kept result.
const MAX_AGE: Duration = Duration::from_mins(10);

/// The result of a simulation, with the time at which the simulation started.
#[derive(Clone, Debug)]
pub(crate) struct FinishedSimulation {
    change: Change,
    started: Instant,
    pub(crate) started_at: Timestamp,
    /// The first moves, at most [`MAX_MOVES`].
    pub(crate) moves: Arc<Moves>,
    /// Limits of the simulation, and remarks about the result. Each item is one sentence.
    pub(crate) remarks: Arc<[String]>,
}

/// The runner of simulations, with the last results.
pub(crate) struct SimulationRunner {
    client: Client,
    configuration: DecisionConfiguration,
    running: Arc<Semaphore>,
    /// The last results, the newest last.
    finished: Arc<Mutex<VecDeque<FinishedSimulation>>>,
}

impl SimulationRunner {
    pub(crate) fn new(client: Client, configuration: DecisionConfiguration) -> Self {
        Self {
            client,
            configuration,
            running: Arc::new(Semaphore::new(1)),
            finished: Arc::default(),
        }
    }

    /// Returns the last result for a change.
    pub(crate) fn last(&self, change: &Change) -> Option<FinishedSimulation> {
        let mut finished = self.finished.lock();
        finished.retain(|of| of.started.elapsed() < MAX_AGE);
        finished
            .iter()
            .rev()
            .find(|of| of.change == *change)
            .cloned()
    }

    /// Simulates a change. A simulation continues if the browser disconnects, and no other simulation starts before its
    /// end.
    pub(crate) async fn run(
        &self,
        fleet: Fleet,
        change: Change,
    ) -> Result<FinishedSimulation, String> {
        let permit = Arc::clone(&self.running).acquire_owned();
        let permit = tokio::time::timeout(MAX_WAIT, permit).await;
        let Ok(Ok(permit)) = permit else {
            return Err("other simulations are running; try again later".to_owned());
        };
        let (client, configuration) = (self.client.clone(), self.configuration.clone());
        let finished = Arc::clone(&self.finished);
        let task = tokio::spawn(async move {
            let (started, started_at) = (Instant::now(), Timestamp::now());
            let predicted = predict_change(&client, &configuration, fleet, &change).await;
            drop(permit);
            let (mut moves, remarks) = predicted?;
            moves.truncate(MAX_MOVES);
            let result = FinishedSimulation {
                change,
                started,
                started_at,
                moves: Arc::new(moves),
                remarks: remarks.into(),
            };
            let mut finished = finished.lock();
            if finished.len() == MAX_RESULTS {
                finished.pop_front();
            }
            finished.push_back(result.clone());
            drop(finished);
            Ok(result)
        });
        task.await.map_err(|error| error.to_string())?
    }
}
