//! A plugin that decides as the in-tree ones do, and panics where the name of a binding says so.

use std::sync::Arc;

use berth_core::{
    Assign, AssignContext, AssignReplicas, BindingContext, Candidate, ClusterView, Gates,
    PluginError, Score, Select, SelectClusters, Selection, Share,
};
use berth_scheduler::binding::Binding;
use berth_scheduler::framework::{
    EventKind, Gate, Hint, Plugin, PreEnqueue, Registration, Registry,
};

/// Its name.
pub(crate) const NAME: &str = "Brittle";

#[derive(Debug)]
struct Brittle;

/// Registers it.
pub(crate) fn register(registry: &mut Registry) {
    let factory = |_: &_, _: &_| {
        let plugin = Arc::new(Brittle);
        Ok(Plugin::new(NAME)
            .pre_enqueue(plugin.clone())
            .score(plugin.clone())
            .select(plugin.clone())
            .assign(plugin)
            .wakes_on(Registration::hinted(EventKind::Cluster, |binding, _| {
                breaks(&binding.key.name, "hint");
                Hint::Skip
            })))
    };
    registry.register(NAME, factory).unwrap();
}

/// Panics if the binding is named after this point.
fn breaks(binding: &str, point: &str) {
    assert_ne!(binding, point, "as the test wants");
}

fn of<'a>(context: &'a BindingContext<'_>) -> &'a str {
    &context.request().name().name
}

/// Closed to the binding `hint` until it has a label.
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
        breaks(of(context), "normalizescore");
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
        breaks(of(context), "select");
        SelectClusters::new(Gates::default()).select(context, candidates)
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
        breaks(of(&context.binding()), "assign");
        AssignReplicas.assign(context, selected)
    }
}
