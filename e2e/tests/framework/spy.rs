//! A spy: a test plugin that implements all extension points. It records its calls, and a function of the test decides
//! what it does in each call.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_api::Binding;
use berth_api::feature_gates::EngineGates;
use berth_engine::{
    Assign, AssignContext, AssignReplicas, AttemptContext, BindingContext, BindingFilter,
    Candidate, ClusterView, CycleState, PluginError, PreFilter, PreFilterResult, PreScore,
    PreScoreResult, Reason, Score, Select, SelectClusters, Selection, Share,
};
use berth_scheduler::framework::{
    Bind, Bound, Decided, Gate, Handle, Nomination, Permission, Permit, Plugin, PostBind,
    PostFilter, PostFilterContext, PreBind, PreEnqueue, QueueSort, Rank, Registry, Report, Reserve,
    Waiting,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// The reaction of a spy to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Continue with the next plugin.
    Pass,
    /// Return an error.
    Fail,
    /// Refuse the binding or the decision.
    Refuse,
    Panic,
    /// Wait at Permit for at most this time.
    Wait(Duration),
    /// Store the decision at Bind.
    Store,
}

/// A call of a spy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    /// The extension point.
    pub(crate) point: &'static str,
    /// The name of the binding.
    pub(crate) binding: &'a str,
    /// The number of earlier calls of this spy at this point for this binding.
    pub(crate) before: usize,
}

/// The function of the test that decides the reaction to a call.
type Script = dyn Fn(&Call<'_>) -> Action + Send + Sync;

/// The calls of all spies of a test in order, each in the form `A.PreBind web`.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallLog(Arc<Mutex<Vec<String>>>);

impl CallLog {
    pub(crate) fn calls(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Adds a call, and returns the number of earlier equal calls.
    fn add(&self, call: String) -> usize {
        let mut calls = self.0.lock().unwrap();
        let before = calls.iter().filter(|known| **known == call).count();
        calls.push(call);
        before
    }
}

/// Registers a spy as a plugin with this name, at all points except QueueSort, Select and Assign.
pub(crate) fn register(
    registry: &mut Registry,
    name: &'static str,
    log: &CallLog,
    script: impl Fn(&Call<'_>) -> Action + Send + Sync + 'static,
) {
    register_with(registry, name, log, script, |plugin, _| plugin);
}

/// Registers a spy at all points. A profile can have one such spy, because QueueSort, Select and Assign need exactly one
/// plugin. The decisions equal those of the in-tree plugins.
pub(crate) fn register_at_all_points(
    registry: &mut Registry,
    name: &'static str,
    log: &CallLog,
    script: impl Fn(&Call<'_>) -> Action + Send + Sync + 'static,
) {
    register_with(registry, name, log, script, |plugin, spy| {
        plugin
            .queue_sort(spy.clone())
            .select(spy.clone())
            .assign(spy)
    });
}

fn register_with(
    registry: &mut Registry,
    name: &'static str,
    log: &CallLog,
    script: impl Fn(&Call<'_>) -> Action + Send + Sync + 'static,
    add_points: fn(Plugin, Arc<Spy>) -> Plugin,
) {
    let (log, script): (_, Arc<Script>) = (log.clone(), Arc::new(script));
    let factory = move |_: &_, handle: &Handle| {
        let spy = Arc::new(Spy {
            name,
            log: log.clone(),
            script: Arc::clone(&script),
            client: handle.client(),
        });
        let plugin = Plugin::new(name)
            .pre_enqueue(spy.clone())
            .pre_filter(spy.clone())
            .filter(spy.clone())
            .post_filter(spy.clone())
            .pre_score(spy.clone())
            .score(spy.clone())
            .reserve(spy.clone())
            .permit(spy.clone())
            .pre_bind(spy.clone())
            .bind(spy.clone())
            .post_bind(spy.clone());
        Ok(add_points(plugin, spy))
    };
    registry.register(name, factory).unwrap();
}

/// Registers a QueueSort plugin that panics whenever it is called.
pub(crate) fn register_panicking_queue_sort(registry: &mut Registry) {
    #[derive(Debug)]
    struct PanickingQueueSort;

    impl QueueSort for PanickingQueueSort {
        fn rank(&self, _: &Binding) -> Rank {
            panic!("requested by the test");
        }
    }

    let factory = |_: &_, _: &_| {
        Ok(Plugin::new("PanickingQueueSort").queue_sort(Arc::new(PanickingQueueSort)))
    };
    registry.register("PanickingQueueSort", factory).unwrap();
}

struct Spy {
    name: &'static str,
    log: CallLog,
    script: Arc<Script>,
    client: Client,
}

impl fmt::Debug for Spy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Spy {
    /// Records a call, and returns the reaction to it. Panics if the reaction is [`Action::Panic`].
    fn record(&self, point: &'static str, binding: &str) -> Action {
        let before = self.log.add(format!("{}.{point} {binding}", self.name));
        let act = (self.script)(&Call {
            point,
            binding,
            before,
        });
        assert!(act != Action::Panic, "requested by the test");
        act
    }

    /// Records a call, and returns the reaction as a result, for the extension points that return a result.
    fn record_result(&self, point: &'static str, binding: &str) -> Result<(), PluginError> {
        match self.record(point, binding) {
            Action::Fail => Err(PluginError::failed("requested by the test")),
            Action::Refuse => Err(PluginError::unschedulable("requested by the test")),
            _ => Ok(()),
        }
    }
}

impl PreEnqueue for Spy {
    fn pre_enqueue(&self, binding: &Binding) -> Gate {
        match self.record("PreEnqueue", &binding.key.name) {
            Action::Refuse => Gate::Closed("requested by the test".to_owned()),
            _ => Gate::Open,
        }
    }
}

impl QueueSort for Spy {
    fn rank(&self, binding: &Binding) -> Rank {
        self.record("QueueSort", &binding.key.name);
        Rank::default()
    }
}

impl PreFilter for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn pre_filter(
        &self,
        context: &AttemptContext<'_>,
        _: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError> {
        self.record_result("PreFilter", &context.request().key().name)
            .map(|()| PreFilterResult::All)
    }
}

impl BindingFilter for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn check(&self, context: &BindingContext<'_>, _: &ClusterView<'_>) -> Result<(), Reason> {
        self.record_result("Filter", &context.request().key().name)
            .map_err(|error| error.to_string().into())
    }
}

impl PostFilter for Spy {
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        _: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        self.record_result("PostFilter", &context.binding.key.name)
            .map(|()| None)
    }
}

impl PreScore for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn pre_score(
        &self,
        context: &AttemptContext<'_>,
        _: &[Candidate],
        _: &mut CycleState,
    ) -> Result<PreScoreResult, PluginError> {
        self.record_result("PreScore", &context.request().key().name)
            .map(|()| PreScoreResult::Score)
    }
}

impl Score for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn score(&self, context: &BindingContext<'_>, _: &ClusterView<'_>) -> Result<i64, PluginError> {
        self.record_result("Score", &context.request().key().name)
            .map(|()| 1)
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, context: &BindingContext<'_>, _: &mut [i64]) -> Result<(), PluginError> {
        self.record_result("NormalizeScore", &context.request().key().name)
    }
}

impl Select for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn select(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
    ) -> Result<Selection, PluginError> {
        self.record_result("Select", &context.request().key().name)?;
        SelectClusters::new(EngineGates::default()).select(context, candidates)
    }
}

impl Assign for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn assign(
        &self,
        context: &AssignContext<'_>,
        selected: &mut Selection,
    ) -> Result<Vec<Share>, PluginError> {
        self.record_result("Assign", &context.binding().request().key().name)?;
        AssignReplicas::default().assign(context, selected)
    }
}

impl Reserve for Spy {
    fn reserve(&self, decided: &Decided, _: &mut CycleState) -> Result<(), PluginError> {
        self.record_result("Reserve", &decided.binding.key.name)
    }

    fn unreserve(&self, decided: &Decided, _: &mut CycleState) {
        self.record("Unreserve", &decided.binding.key.name);
    }
}

impl Permit for Spy {
    fn permit(
        &self,
        decided: &Decided,
        _: &mut CycleState,
        waiting: &mut Waiting<'_>,
    ) -> Permission {
        match self.record("Permit", &decided.binding.key.name) {
            Action::Wait(timeout) => Permission::Wait(timeout),
            Action::Refuse => Permission::Deny("requested by the test".to_owned()),
            _ => {
                // A permitted decision also allows all waiting decisions.
                let others: Vec<_> = waiting.iter().map(|d| d.binding.key.clone()).collect();
                for other in &others {
                    waiting.allow(other);
                }
                Permission::Allow
            }
        }
    }

    fn rejected(&self, binding: &Binding, _: &mut Waiting<'_>) {
        self.record("Rejected", &binding.key.name);
    }
}

impl PreBind for Spy {
    fn pre_bind<'a>(
        &'a self,
        decided: &'a Decided,
        _: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<(), PluginError>> {
        async { self.record_result("PreBind", &decided.binding.key.name) }.boxed()
    }
}

impl Bind for Spy {
    fn bind<'a>(
        &'a self,
        decided: &'a Decided,
        _: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<Bound, PluginError>> {
        async {
            let key = &decided.binding.key;
            match self.record("Bind", &key.name) {
                Action::Fail => Err(PluginError::failed("requested by the test")),
                Action::Store => {
                    let namespace = key.namespace.as_deref().unwrap();
                    let api: Api<berth_api::ResourceBinding> =
                        Api::namespaced(self.client.clone(), namespace);
                    let patch = json!({ "metadata": { "annotations": { "stored-by": self.name } },
                        "spec": { "clusters": *decided.targets } });
                    api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
                        .await
                        .map_err(|error| PluginError::failed(error.to_string()))?;
                    Ok(Bound::Stored)
                }
                _ => Ok(Bound::Skip),
            }
        }
        .boxed()
    }
}

impl PostBind for Spy {
    fn post_bind<'a>(
        &'a self,
        decided: &'a Decided,
        _: &'a mut CycleState,
        report: &'a Report,
    ) -> BoxFuture<'a, ()> {
        assert!(report.result_landed());
        async {
            self.record("PostBind", &decided.binding.key.name);
        }
        .boxed()
    }
}
