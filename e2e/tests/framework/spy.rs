//! A plugin that serves every point, writes down when it is called, and does what the test wants.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_core::{
    BindingContext, BindingFilter, Candidate, ClusterView, CycleContext, CycleState, PluginError,
    PreFilter, PreFilterResult, PreScore, PreScoreResult, Reason, Score,
};
use berth_scheduler::binding::Binding;
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

/// What the plugin does when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Pass,
    Fail,
    Refuse,
    Panic,
    Wait(Duration),
    Store,
}

/// A call: at which point, for which binding, and how many there have been of this kind before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call<'a> {
    pub(crate) point: &'static str,
    pub(crate) binding: &'a str,
    pub(crate) before: usize,
}

type Script = dyn Fn(&Call<'_>) -> Act + Send + Sync;

/// What all spies of a test write down, as `A.PreBind web`, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Book(Arc<Mutex<Vec<String>>>);

impl Book {
    pub(crate) fn calls(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Adds a call, and says how many of its kind there have been before.
    fn add(&self, call: String) -> usize {
        let mut calls = self.0.lock().unwrap();
        let before = calls.iter().filter(|known| **known == call).count();
        calls.push(call);
        before
    }
}

/// Registers a spy.
pub(crate) fn register(
    registry: &mut Registry,
    name: &'static str,
    book: &Book,
    script: impl Fn(&Call<'_>) -> Act + Send + Sync + 'static,
) {
    let (book, script): (_, Arc<Script>) = (book.clone(), Arc::new(script));
    let factory = move |_: &_, handle: &Handle| {
        let spy = Arc::new(Spy {
            name,
            book: book.clone(),
            script: Arc::clone(&script),
            client: handle.client(),
        });
        Ok(Plugin::new(name)
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
            .post_bind(spy))
    };
    registry.register(name, factory).unwrap();
}

/// Registers a plugin that orders the queue, and panics when it is asked to.
pub(crate) fn register_disorder(registry: &mut Registry) {
    #[derive(Debug)]
    struct Disorder;

    impl QueueSort for Disorder {
        fn rank(&self, _: &Binding) -> Rank {
            panic!("no order");
        }
    }

    let factory = |_: &_, _: &_| Ok(Plugin::new("Disorder").queue_sort(Arc::new(Disorder)));
    registry.register("Disorder", factory).unwrap();
}

struct Spy {
    name: &'static str,
    book: Book,
    script: Arc<Script>,
    client: Client,
}

impl fmt::Debug for Spy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Spy {
    fn act(&self, point: &'static str, binding: &str) -> Act {
        let before = self.book.add(format!("{}.{point} {binding}", self.name));
        let act = (self.script)(&Call {
            point,
            binding,
            before,
        });
        assert!(act != Act::Panic, "as the test wants");
        act
    }

    /// For points that pass, fail or refuse.
    fn result(&self, point: &'static str, binding: &str) -> Result<(), PluginError> {
        match self.act(point, binding) {
            Act::Fail => Err(PluginError::failed("the test wants it")),
            Act::Refuse => Err(PluginError::unschedulable("the test wants it")),
            _ => Ok(()),
        }
    }
}

impl PreEnqueue for Spy {
    fn pre_enqueue(&self, binding: &Binding) -> Gate {
        match self.act("PreEnqueue", &binding.key.name) {
            Act::Refuse => Gate::Closed("the test wants it".to_owned()),
            _ => Gate::Open,
        }
    }
}

impl PreFilter for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn pre_filter(
        &self,
        context: &CycleContext<'_>,
        _: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError> {
        self.result("PreFilter", &context.request().name().name)
            .map(|()| PreFilterResult::All)
    }
}

impl BindingFilter for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn check(&self, context: &BindingContext<'_>, _: &ClusterView<'_>) -> Result<(), Reason> {
        self.result("Filter", &context.request().name().name)
            .map_err(|error| error.to_string().into())
    }
}

impl PostFilter for Spy {
    fn post_filter(
        &self,
        context: &mut PostFilterContext<'_>,
        _: &mut CycleState,
    ) -> Result<Option<Nomination>, PluginError> {
        self.result("PostFilter", &context.binding.key.name)
            .map(|()| None)
    }
}

impl PreScore for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn pre_score(
        &self,
        context: &CycleContext<'_>,
        _: &[Candidate],
        _: &mut CycleState,
    ) -> Result<PreScoreResult, PluginError> {
        self.result("PreScore", &context.request().name().name)
            .map(|()| PreScoreResult::Score)
    }
}

impl Score for Spy {
    fn name(&self) -> &str {
        self.name
    }

    fn score(&self, context: &BindingContext<'_>, _: &ClusterView<'_>) -> Result<i64, PluginError> {
        self.result("Score", &context.request().name().name)
            .map(|()| 1)
    }
}

impl Reserve for Spy {
    fn reserve(&self, decided: &Decided, _: &mut CycleState) -> Result<(), PluginError> {
        self.result("Reserve", &decided.binding.key.name)
    }

    fn unreserve(&self, decided: &Decided, _: &mut CycleState) {
        self.act("Unreserve", &decided.binding.key.name);
    }
}

impl Permit for Spy {
    fn permit(
        &self,
        decided: &Decided,
        _: &mut CycleState,
        waiting: &mut Waiting<'_>,
    ) -> Permission {
        match self.act("Permit", &decided.binding.key.name) {
            Act::Wait(patience) => Permission::Wait(patience),
            Act::Refuse => Permission::Deny("the test wants it".to_owned()),
            _ => {
                // Whoever passes takes along those that wait.
                let others: Vec<_> = waiting.iter().map(|d| d.binding.key.clone()).collect();
                for other in &others {
                    waiting.allow(other);
                }
                Permission::Allow
            }
        }
    }

    fn rejected(&self, binding: &Binding, _: &mut Waiting<'_>) {
        self.act("Rejected", &binding.key.name);
    }
}

impl PreBind for Spy {
    fn pre_bind<'a>(
        &'a self,
        decided: &'a Decided,
        _: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<(), PluginError>> {
        async { self.result("PreBind", &decided.binding.key.name) }.boxed()
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
            match self.act("Bind", &key.name) {
                Act::Fail => Err(PluginError::failed("the test wants it")),
                Act::Store => {
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
            self.act("PostBind", &decided.binding.key.name);
        }
        .boxed()
    }
}
