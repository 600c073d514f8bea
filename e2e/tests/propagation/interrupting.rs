//! Controllers that are killed at any moment, again and again: in the end all is as if they had not been.

use std::time::Duration;

use berth_e2e::eventually;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::fleet::Fleet;
use crate::manifests::{config_map, deployment, policy};

/// The lives that the controllers have in a run.
const LIVES: u64 = 8;
/// Resources that are made, changed and deleted meanwhile.
const RESOURCES: usize = 12;

/// Numbers that look random and are the same in each run.
struct Numbers(u64);

impl Numbers {
    /// The next number below a bound.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

fn resource(index: usize) -> Value {
    if index.is_multiple_of(2) {
        deployment(&format!("r{index}"), 1)
    } else {
        config_map(&format!("r{index}"))
    }
}

/// What a resource says after a step: its label `step`.
fn at_step(step: u64) -> Value {
    json!({ "metadata": { "labels": { "step": step.to_string() } } })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_may_be_killed_at_any_moment() {
    for seed in [1, 2, 3] {
        let mut numbers = Numbers(seed);
        let mut fleet = Fleet::start(2).await;
        for index in 0..RESOURCES {
            let resource = resource(index);
            fleet.apply(resource.clone()).await;
            fleet.apply(policy(&resource, &["m1", "m2"])).await;
        }
        let mut last = [None::<u64>; RESOURCES];
        for life in 0..LIVES {
            let pause = Duration::from_millis(numbers.below(150));
            for _ in 0..3 {
                let index = usize::try_from(numbers.below(RESOURCES as u64)).unwrap();
                // The last third of the resources is deleted in the second half.
                if last[index] != Some(u64::MAX) {
                    if index >= RESOURCES * 2 / 3 && life >= LIVES / 2 {
                        fleet.delete(&resource(index)).await;
                        last[index] = Some(u64::MAX);
                    } else {
                        fleet.edit(&resource(index), at_step(life)).await;
                        last[index] = Some(life);
                    }
                }
            }
            // Somebody is busy in a member, too.
            let victim = resource(usize::try_from(numbers.below(4)).unwrap());
            if fleet.members[0].get(&victim).await.is_some() {
                fleet.members[0].delete(&victim).await;
            }
            tokio::time::sleep(pause).await;
            fleet.kill_controllers().await;
            fleet.start_controllers();
        }
        for (index, last) in last.into_iter().enumerate() {
            let resource = resource(index);
            for member in &fleet.members {
                match last {
                    Some(u64::MAX) => member.lacks(&resource).await,
                    Some(step) => {
                        let step = json!(step.to_string());
                        member
                            .until(&resource, &format!("step {step}, seed {seed}"), |there| {
                                there["metadata"]["labels"]["step"] == step
                            })
                            .await;
                    }
                    None => drop(member.has(&resource).await),
                }
            }
        }
        let alive = last.iter().filter(|last| **last != Some(u64::MAX)).count();
        for member in ["m1", "m2"] {
            let works = fleet.works(member);
            eventually("as many works as resources", async || {
                let count = works
                    .list(&ListParams::default())
                    .await
                    .unwrap()
                    .items
                    .len();
                if count == alive {
                    Ok(())
                } else {
                    Err(format!("{count}, not {alive}"))
                }
            })
            .await;
        }
        fleet.stop().await;
    }
}
