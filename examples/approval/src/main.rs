//! An example scheduler that stores a decision only after the approval of a ticket.
//!
//! The plugin `Approval` reads the ticket from an annotation of the binding. At PreFilter, it refuses a ticket that
//! another placed binding uses. At PreBind, it looks up the ticket in a ConfigMap on the control plane, which contains
//! the approved tickets.

use std::process::ExitCode;
use std::sync::Arc;

use berth_api::Binding;
use berth_engine::{AttemptContext, CycleState, PluginError, PreFilter, PreFilterResult};
use berth_scheduler::SchedulerCommand;
use berth_scheduler::framework::{
    Args, Decided, Event, EventKind, FactoryError, Handle, Hint, Plugin, PreBind, Registration,
    State,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde::Deserialize;

/// The arguments of the plugin in the configuration file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ApprovalArgs {
    /// Annotation with the ticket of a binding.
    annotation: String,
    /// Namespace of the ConfigMap with the approved tickets.
    namespace: String,
    /// Name of the ConfigMap. Its keys are the approved tickets.
    config_map: String,
}

impl Default for ApprovalArgs {
    fn default() -> Self {
        Self {
            annotation: "approval/ticket".to_owned(),
            namespace: "default".to_owned(),
            config_map: "approved".to_owned(),
        }
    }
}

/// The plugin, with its arguments, the state that all plugins share, and a client of the control plane.
struct Approval {
    args: ApprovalArgs,
    state: State,
    client: Client,
}

impl std::fmt::Debug for Approval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.args.fmt(f)
    }
}

/// The ticket that PreFilter passes to PreBind.
struct Ticket(String);

impl Approval {
    const NAME: &str = "Approval";

    fn create(args: &Args, handle: &Handle) -> Result<Plugin, FactoryError> {
        let plugin = Arc::new(Self {
            args: args.parse()?,
            state: handle.state(),
            client: handle.client(),
        });
        Ok(Plugin::new(Self::NAME)
            .pre_filter(plugin.clone())
            .pre_bind(plugin)
            .wakes_on(Registration::hinted(EventKind::Binding, queueing_hint))
            .wakes_on(Registration::any(EventKind::BindingGone)))
    }

    fn ticket_of<'a>(&self, binding: &'a Binding) -> Option<&'a str> {
        let ticket = binding.annotation(&self.args.annotation);
        (!ticket.is_empty()).then_some(ticket)
    }
}

/// Queues a waiting binding again if the binding itself has changed, or if another binding without clusters has changed
/// and may have released the ticket.
fn queueing_hint(binding: &Binding, event: &Event) -> Hint {
    match event {
        Event::Binding(changed)
            if changed.key == binding.key || changed.spec.clusters.is_empty() =>
        {
            Hint::Queue
        }
        _ => Hint::Skip,
    }
}

impl PreFilter for Approval {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn pre_filter(
        &self,
        context: &AttemptContext<'_>,
        state: &mut CycleState,
    ) -> Result<PreFilterResult, PluginError> {
        let key = context.request().key();
        let binding = self.state.binding(key);
        let Some(ticket) = binding.as_deref().and_then(|one| self.ticket_of(one)) else {
            let annotation = &self.args.annotation;
            let message = format!("the annotation {annotation} names no ticket");
            return Err(PluginError::unschedulable(message));
        };
        let user = self.state.bindings().into_iter().find(|other| {
            other.key != *key
                && !other.spec.clusters.is_empty()
                && self.ticket_of(other) == Some(ticket)
        });
        if let Some(user) = user {
            let message = format!("{ticket} is used by {}", user.key);
            return Err(PluginError::unschedulable(message));
        }
        state.insert(Ticket(ticket.to_owned()));
        Ok(PreFilterResult::All)
    }
}

impl PreBind for Approval {
    fn pre_bind<'a>(
        &'a self,
        _: &'a Decided,
        state: &'a mut CycleState,
    ) -> BoxFuture<'a, Result<(), PluginError>> {
        let ticket = state.remove::<Ticket>();
        async move {
            let Some(Ticket(ticket)) = ticket else {
                return Err(PluginError::failed("PreFilter has found no ticket"));
            };
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.args.namespace);
            let approved = api
                .get_opt(&self.args.config_map)
                .await
                .map_err(|error| PluginError::failed(error.to_string()))?;
            let tickets = approved
                .and_then(|approved| approved.data)
                .unwrap_or_default();
            if tickets.contains_key(&ticket) {
                Ok(())
            } else {
                Err(PluginError::failed(format!("{ticket} is not approved yet")))
            }
        }
        .boxed()
    }
}

fn main() -> ExitCode {
    SchedulerCommand::new()
        .with_plugin(Approval::NAME, Approval::create)
        .run()
}
