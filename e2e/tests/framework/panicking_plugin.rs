//! A plugin for tests of panics. Its decisions equal the decisions of the in-tree plugins. It panics at NormalizeScore,
//! Select or Assign if the name of the binding is the name of this point in lower case.

use std::sync::Arc;

use berth_api::Binding;
use berth_api::feature_gates::EngineGates;
use berth_engine::{
    Assign, AssignContext, AssignReplicas, BindingContext, Candidate, ClusterView, PluginError,
    Score, Select, SelectClusters, Selection, Share,
};
use berth_scheduler::framework::{
    EventKind, Gate, Hint, Plugin, PreEnqueue, Registration, Registry,
};

/// The name of the plugin.
pub(crate) const NAME: &str = "Brittle";

#[derive(Debug)]
struct Brittle;

/// Registers the plugin, with a hint that panics for the binding `hint`.
pub(crate) fn register(registry: &mut Registry) {
    let factory = |_: &_, _: &_| {
        let plugin = Arc::new(Brittle);
        Ok(Plugin::new(NAME)
            .pre_enqueue(plugin.clone())
            .score(plugin.clone())
            .select(plugin.clone())
            .assign(plugin)
            .wakes_on(Registration::hinted(EventKind::Cluster, |binding, _| {
                panic_if_named_after(&binding.key.name, "hint");
                Hint::Skip
            })))
    };
    registry.register(NAME, factory).unwrap();
}

/// Panics if the name of the binding equals the name of the extension point.
fn panic_if_named_after(binding: &str, point: &str) {
    assert_ne!(binding, point, "requested by the test");
}

fn binding_name<'a>(context: &'a BindingContext<'_>) -> &'a str {
    &context.request().key().name
}

/// Refuses the binding `hint` until the binding has the annotation `open`.
impl PreEnqueue for Brittle {
    fn pre_enqueue(&self, binding: &Binding) -> Gate {
        if &*binding.key.name == "hint" && binding.annotation("open").is_empty() {
            return Gate::Closed("it is not open".to_owned());
        }
        Gate::Open
    }
}

impl Score for Brittle {
    fn name(&self) -> &str {
        NAME
    }

    fn score(&self, _: &BindingContext<'_>, _: &ClusterView<'_>) -> Result<i64, PluginError> {
        Ok(1)
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, context: &BindingContext<'_>, _: &mut [i64]) -> Result<(), PluginError> {
        panic_if_named_after(binding_name(context), "normalizescore");
        Ok(())
    }
}

impl Select for Brittle {
    fn name(&self) -> &str {
        NAME
    }

    fn select(
        &self,
        context: &BindingContext<'_>,
        candidates: Vec<Candidate>,
    ) -> Result<Selection, PluginError> {
        panic_if_named_after(binding_name(context), "select");
        SelectClusters::new(EngineGates::default()).select(context, candidates)
    }
}

impl Assign for Brittle {
    fn name(&self) -> &str {
        NAME
    }

    fn assign(
        &self,
        context: &AssignContext<'_>,
        selected: &mut Selection,
    ) -> Result<Vec<Share>, PluginError> {
        panic_if_named_after(binding_name(&context.binding()), "assign");
        AssignReplicas::default().assign(context, selected)
    }
}
