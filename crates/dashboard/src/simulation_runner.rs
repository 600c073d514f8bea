//! The queue and cache of simulations: one simulation runs at a time, and the last results are kept, so that the next
//! page of a result needs no new simulation.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_core::Fleet;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::simulation::{Change, Simulate, Simulation};

/// Maximum time to wait for the end of another simulation.
const MAX_WAIT: Duration = Duration::from_secs(15);
/// Maximum number of kept results.
const MAX_RESULTS: usize = 4;
/// Maximum age of a kept result.
const MAX_AGE: Duration = Duration::from_mins(10);

/// The result of a simulation, with the time at which the simulation started.
#[derive(Clone, Debug)]
pub(crate) struct FinishedSimulation {
    change: Change,
    started: Instant,
    pub(crate) started_at: Timestamp,
    pub(crate) simulation: Arc<Simulation>,
}

/// The runner of simulations, with the last results.
#[derive(Debug)]
pub(crate) struct SimulationRunner {
    simulator: Arc<dyn Simulate>,
    running: Arc<Semaphore>,
    /// The last results, the newest last.
    finished: Arc<Mutex<VecDeque<FinishedSimulation>>>,
}

impl SimulationRunner {
    pub(crate) fn new(simulator: Arc<dyn Simulate>) -> Self {
        Self {
            simulator,
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
        let (simulator, finished) = (Arc::clone(&self.simulator), Arc::clone(&self.finished));
        let task = tokio::spawn(async move {
            let (started, started_at) = (Instant::now(), Timestamp::now());
            let simulation = simulator.simulate(fleet, change.clone()).await;
            drop(permit);
            let result = FinishedSimulation {
                change,
                started,
                started_at,
                simulation: Arc::new(simulation?),
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
