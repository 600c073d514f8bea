//! The arguments that select one workload or binding.

use berth_plan::explain::NameQuery;
use clap::Args;

/// Arguments that select a workload or binding.
#[derive(Args, Clone, Debug)]
pub struct WorkloadArgs {
    /// Workload or binding: NAME, NAMESPACE/NAME, or KIND/NAME as in deployment/web; or its kind, as in deployment web
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub name: String,

    /// Name of the workload, if its kind precedes it
    #[arg(value_name = "NAME", conflicts_with = "kind")]
    pub name_after_kind: Option<String>,

    /// Kind of the workload, or ResourceBinding or ClusterResourceBinding
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,

    /// Namespace [default: that of the context]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

impl WorkloadArgs {
    /// Returns the query for the name on the command line.
    pub(crate) fn query(&self, default_namespace: &str) -> NameQuery {
        let mut namespace = self.namespace.clone();
        let (kind, text) = match &self.name_after_kind {
            Some(name) => match self.name.split_once('/') {
                // `berth status` names workloads like this.
                Some((of_kind, kind)) => {
                    namespace.get_or_insert_with(|| of_kind.to_owned());
                    (Some(kind.to_owned()), name)
                }
                None => (Some(self.name.clone()), name),
            },
            None => (self.kind.clone(), &self.name),
        };
        NameQuery::new(text, kind, namespace, default_namespace)
    }
}
