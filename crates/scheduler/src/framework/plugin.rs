//! A plugin: a name, and an implementation of each extension point that it serves.

use std::sync::Arc;

use berth_core::{
    Assign, BindingFilter, Estimator, PlacementFilter, Point, PreFilter, PreScore, Score, Select,
};

use super::events::Registration;
use super::follow::Follow;
use super::points::{Bind, Permit, PostBind, PostFilter, PreBind, PreEnqueue, QueueSort, Reserve};

/// A plugin, created by its factory. One object may serve several extension points.
///
/// ```ignore
/// let plugin = Arc::new(CostAware { .. });
/// Plugin::new("CostAware").filter(plugin.clone()).score(plugin)
/// ```
#[derive(Clone, Debug)]
pub struct Plugin {
    pub(crate) name: Arc<str>,
    pub(crate) pre_enqueue: Option<Arc<dyn PreEnqueue>>,
    pub(crate) queue_sort: Option<Arc<dyn QueueSort>>,
    pub(crate) pre_filter: Option<Arc<dyn PreFilter>>,
    pub(crate) filter: Option<FilterPoint>,
    pub(crate) post_filter: Option<Arc<dyn PostFilter>>,
    pub(crate) pre_score: Option<Arc<dyn PreScore>>,
    pub(crate) score: Option<Arc<dyn Score>>,
    pub(crate) select: Option<Arc<dyn Select>>,
    pub(crate) assign: Option<Arc<dyn Assign>>,
    pub(crate) reserve: Option<Arc<dyn Reserve>>,
    pub(crate) permit: Option<Arc<dyn Permit>>,
    pub(crate) pre_bind: Option<Arc<dyn PreBind>>,
    pub(crate) bind: Option<Arc<dyn Bind>>,
    pub(crate) post_bind: Option<Arc<dyn PostBind>>,
    pub(crate) estimator: Option<Arc<dyn Estimator>>,
    pub(crate) follow: Option<Arc<dyn Follow>>,
    pub(crate) registrations: Vec<Registration>,
    pub(crate) needs: Needs,
}

/// Implementation of the Filter point, by its inputs.
#[derive(Clone, Debug)]
pub(crate) enum FilterPoint {
    Placement(Arc<dyn PlacementFilter>),
    Binding(Arc<dyn BindingFilter>),
}

/// Requirements of a plugin that cost memory or change the available capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Cluster objects for [`berth_core::ClusterView::object`].
    pub(crate) objects: bool,
    /// Parked and unwritten decisions count against the capacity of clusters.
    pub(crate) assumed_capacity: bool,
}

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident: $Trait:ident),+ $(,)?) => {
        $($(#[$doc])*
        #[must_use]
        pub fn $point(mut self, point: Arc<dyn $Trait>) -> Self {
            self.$point = Some(point);
            self
        })+
    };
}

impl Plugin {
    /// Creates a plugin without extension points.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            pre_enqueue: None,
            queue_sort: None,
            pre_filter: None,
            filter: None,
            post_filter: None,
            pre_score: None,
            score: None,
            select: None,
            assign: None,
            reserve: None,
            permit: None,
            pre_bind: None,
            bind: None,
            post_bind: None,
            estimator: None,
            follow: None,
            registrations: Vec::new(),
            needs: Needs::default(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    points! {
        /// Gates bindings before a cycle.
        pre_enqueue: PreEnqueue,
        /// Orders the queue.
        queue_sort: QueueSort,
        /// Inspects the binding once, before any cluster.
        pre_filter: PreFilter,
        /// Nominates victims to evict if no cluster fits.
        post_filter: PostFilter,
        /// Inspects the clusters that passed the filters, before they are scored.
        pre_score: PreScore,
        /// Scores clusters.
        score: Score,
        /// Selects clusters, instead of the in-tree plugin.
        select: Select,
        /// Assigns replicas, instead of the in-tree plugin.
        assign: Assign,
        /// Reserves resources for a decision.
        reserve: Reserve,
        /// Allows, denies or delays a decision.
        permit: Permit,
        /// Prepares the write.
        pre_bind: PreBind,
        /// Writes the decision.
        bind: Bind,
        /// Runs after the write.
        post_bind: PostBind,
        /// Estimates how many replicas fit. Not an extension point; a profile cannot disable it separately.
        estimator: Estimator,
        /// Observes all bindings. Not an extension point; a profile cannot disable it separately.
        follow: Follow,
    }

    /// Filters clusters for a binding.
    #[must_use]
    pub fn filter(mut self, filter: Arc<dyn BindingFilter>) -> Self {
        self.filter = Some(FilterPoint::Binding(filter));
        self
    }

    /// Filters clusters by the placement alone. The results are cached per placement.
    #[must_use]
    pub fn placement_filter(mut self, filter: Arc<dyn PlacementFilter>) -> Self {
        self.filter = Some(FilterPoint::Placement(filter));
        self
    }

    /// EventsToRegister: requeues bindings that this plugin stopped when the event may help.
    #[must_use]
    pub fn wakes_on(mut self, registration: Registration) -> Self {
        self.registrations.push(registration);
        self
    }

    /// Requests cluster objects, which are otherwise not kept.
    #[must_use]
    pub fn reads_objects(mut self) -> Self {
        self.needs.objects = true;
        self
    }

    /// Counts parked and unwritten decisions against the capacity of clusters, as the gate
    /// SchedulingOvercommitProtection does.
    #[must_use]
    pub fn assumes_capacity(mut self) -> Self {
        self.needs.assumed_capacity = true;
        self
    }

    /// Returns an extension point at which the implementation has a different name, and that name.
    pub(crate) fn misnamed(&self) -> Option<(Point, String)> {
        let filter = self.filter.as_ref().map(|filter| match filter {
            FilterPoint::Placement(filter) => filter.name(),
            FilterPoint::Binding(filter) => filter.name(),
        });
        let names = [
            (
                Point::PreFilter,
                self.pre_filter.as_ref().map(|one| one.name()),
            ),
            (Point::Filter, filter),
            (
                Point::PreScore,
                self.pre_score.as_ref().map(|one| one.name()),
            ),
            (Point::Score, self.score.as_ref().map(|one| one.name())),
            (Point::Select, self.select.as_ref().map(|one| one.name())),
            (Point::Assign, self.assign.as_ref().map(|one| one.name())),
        ];
        names.into_iter().find_map(|(point, name)| {
            let other = name.filter(|name| *name != &*self.name)?;
            Some((point, other.to_owned()))
        })
    }

    /// Returns the extension points that the plugin serves.
    pub fn points(&self) -> Vec<Point> {
        [
            (Point::PreEnqueue, self.pre_enqueue.is_some()),
            (Point::QueueSort, self.queue_sort.is_some()),
            (Point::PreFilter, self.pre_filter.is_some()),
            (Point::Filter, self.filter.is_some()),
            (Point::PostFilter, self.post_filter.is_some()),
            (Point::PreScore, self.pre_score.is_some()),
            (Point::Score, self.score.is_some()),
            (Point::Select, self.select.is_some()),
            (Point::Assign, self.assign.is_some()),
            (Point::Reserve, self.reserve.is_some()),
            (Point::Permit, self.permit.is_some()),
            (Point::PreBind, self.pre_bind.is_some()),
            (Point::Bind, self.bind.is_some()),
            (Point::PostBind, self.post_bind.is_some()),
        ]
        .into_iter()
        .filter_map(|(point, serves)| serves.then_some(point))
        .collect()
    }
}
