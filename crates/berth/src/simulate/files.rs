//! Simulation without a server: everything is in the manifests.

use std::collections::BTreeMap;

use berth_api::Cluster;
use berth_scheduler::binding::{Binding, BindingKey};

use super::args::SimulateArgs;
use super::decide::{self, Decider, Decision};
use super::detect::{Bindings, Detector};
use super::error::{Problem, SimulateError};
use super::fleet_change::{self, Clusters};
use super::idle_policies::{self, Apis};
use super::manifest::{Manifest, Role};
use super::moves::{Move, Moves};
use super::notes::Notes;
use super::progress::Progress;
use super::sandbox::Sandbox;
use super::typing::{self, Typed};
use crate::members::is_simulated;

/// A fleet, and the bindings over it.
#[derive(Default)]
pub(crate) struct State {
    /// The clusters.
    pub(crate) clusters: Clusters,
    /// The bindings.
    pub(crate) bindings: BTreeMap<BindingKey, Binding>,
}

/// What the manifests say.
///
/// # Errors
/// Every manifest that cannot be used.
pub(crate) async fn state(
    manifests: Vec<Manifest>,
    args: &SimulateArgs,
    mut problems: Vec<Problem>,
    notes: &mut Notes,
) -> Result<State, SimulateError> {
    let mut sandbox = Sandbox::start(!args.no_validate).await?;
    let namespace = args.namespace.as_deref().unwrap_or("default");
    let typed = typing::typed(
        manifests,
        &sandbox,
        None,
        namespace,
        args,
        &mut problems,
        notes,
    )
    .await?;
    let mut detector = Detector::new(args);
    let mut state = State::default();
    let mut bindings = Bindings::new();
    let mut templates = Vec::new();
    let mut progress = Progress::start();
    let all = typed.len();
    for (done, typed) in typed.into_iter().enumerate() {
        progress.say(format_args!("checked {done} of {all} manifests"));
        let object = match typing::admit(&mut sandbox, &typed, &typed.manifest.object, None).await {
            Ok(object) => object,
            // Without validation a template that no server would store is taken as it stands.
            Err(_) if args.no_validate && typed.manifest.role == Role::Template => {
                typed.manifest.object.clone()
            }
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let Typed { manifest, kind, .. } = typed;
        match manifest.role {
            Role::Cluster => match serde_json::from_value::<Cluster>(object) {
                Ok(mut cluster) => {
                    serve_apis(&mut cluster, &sandbox);
                    state.clusters.insert(manifest.name, cluster);
                }
                Err(error) => problems.push(Problem::new(&manifest.place, error)),
            },
            Role::Policy(kind) => notes.extend(detector.policy_applied(kind, object)),
            Role::Override(kind) => {
                detector.override_policy(kind, &manifest.namespace, &manifest.name);
            }
            Role::Binding(kind) => {
                bindings.insert(typing::binding_key(kind, &manifest), object);
            }
            Role::Template => templates.push((kind, object)),
            Role::Aside => {}
        }
    }
    if !problems.is_empty() {
        return Err(SimulateError::Manifests(problems));
    }
    if state.clusters.is_empty() {
        return Err(SimulateError::NoFleet);
    }
    for (kind, object) in templates {
        detector.template_applied(&kind, object, &bindings);
    }
    detector.settle(&mut bindings);
    notes.detected(&detector);
    let apis = Apis {
        defined: sandbox.catalogue(),
        live: None,
    };
    notes.idle_policies(idle_policies::find(&detector, apis).await?);
    state.bindings = read_all(&bindings)?;
    Ok(state)
}

/// Gives a cluster that a simulated member stands for the APIs of such a member, unless its manifest lists others:
/// `berth up --fleet` would collect them from the member.
fn serve_apis(cluster: &mut Cluster, sandbox: &Sandbox) {
    if is_simulated(cluster) {
        let status = cluster.status.get_or_insert_default();
        if status.api_enablements.is_empty() {
            status.api_enablements = sandbox.member_apis().to_vec();
        }
    }
}

/// What becomes of every binding.
///
/// # Errors
/// When the engine refuses its options.
pub(crate) async fn decisions(
    state: &State,
    args: &SimulateArgs,
    notes: &mut Notes,
) -> Result<Vec<Decision>, SimulateError> {
    let mut decider = Decider::new(args, state, None)?;
    notes.extend(std::mem::take(&mut decider.capacity_faults));
    let mut progress = Progress::start();
    let mut decisions = Vec::with_capacity(state.bindings.len());
    for binding in state.bindings.values() {
        decisions.push(decider.decide(binding).await);
        let (done, all) = (decisions.len(), state.bindings.len());
        progress.say(format_args!("decided {done} of {all} bindings"));
    }
    Ok(decisions)
}

/// What the flags that change the fleet change about the decisions: each binding is decided with and
/// without the change, from what the manifests say.
///
/// # Errors
/// When a flag names a cluster that does not exist, or the engine refuses its options.
pub(crate) async fn moves(
    state: &State,
    args: &SimulateArgs,
    notes: &mut Notes,
) -> Result<Moves, SimulateError> {
    let changed = State {
        clusters: fleet_change::changed(&state.clusters, args)?,
        bindings: state.bindings.clone(),
    };
    let before = decisions(state, args, notes).await?;
    let after = decisions(&changed, args, &mut Notes::default()).await?;
    let mut moves = Moves::default();
    for (before, after) in before.into_iter().zip(after) {
        let was_schedulable = before.failure.is_none();
        moves.look_at(Move::new(before.clusters, was_schedulable, after));
    }
    Ok(moves)
}

/// Reads bindings.
///
/// # Errors
/// When one does not have the shape of a binding.
pub(crate) fn read_all(
    bindings: &Bindings,
) -> Result<BTreeMap<BindingKey, Binding>, SimulateError> {
    let mut read = BTreeMap::new();
    let mut problems = Vec::new();
    for (key, object) in bindings {
        match decide::binding(key, object) {
            Ok(binding) => {
                read.insert(key.clone(), binding);
            }
            Err(reason) => problems.push(Problem::new(format!("{} {key}", key.kind()), reason)),
        }
    }
    if problems.is_empty() {
        Ok(read)
    } else {
        Err(SimulateError::Manifests(problems))
    }
}
