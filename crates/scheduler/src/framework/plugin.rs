//! The type [`Plugin`]: a name, and the implementations of the extension points that the plugin serves.

use std::sync::Arc;

use berth_engine::{
    Assign, BindingFilter, Estimator, PlacementFilter, Point, PreFilter, PreScore, Score, Select,
};

use super::events::Registration;
use super::traits::{
    Bind, Follow, Permit, PostBind, PostFilter, PreBind, PreEnqueue, QueueSort, Reserve,
};

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

/// Implementation of the Filter extension point.
#[derive(Clone, Debug)]
pub(crate) enum FilterPoint {
    /// A filter that reads only the placement of a binding.
    Placement(Arc<dyn PlacementFilter>),
    /// A filter that reads the whole binding.
    Binding(Arc<dyn BindingFilter>),
}

/// Requirements of a plugin. A profile meets them only if a plugin needs them, because they cost memory or change the
/// available capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// True if the plugin reads Cluster objects with [`berth_engine::ClusterView::object`].
    pub(crate) objects: bool,
    /// True if the plugin reads the scores of ClusterScores with [`berth_engine::ClusterView::scores`].
    pub(crate) scores: bool,
    /// True if decisions that wait for Permit or are not written yet must reduce the free capacity of clusters.
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

    /// Returns the name of the plugin.
    pub fn name(&self) -> &str {
        &self.name
    }

    points! {
        /// Adds the point PreEnqueue, which gates bindings before a scheduling cycle.
        pre_enqueue: PreEnqueue,
        /// Adds the point QueueSort, which orders the queue.
        queue_sort: QueueSort,
        /// Adds the point PreFilter, which inspects the binding before any cluster is filtered.
        pre_filter: PreFilter,
        /// Adds the point PostFilter, which nominates victims to evict if no cluster fits.
        post_filter: PostFilter,
        /// Adds the point PreScore, which inspects the clusters that passed the filters, before these clusters are
        /// scored.
        pre_score: PreScore,
        /// Adds the point Score, which scores clusters.
        score: Score,
        /// Adds the point Select, which selects clusters in place of the in-tree plugin.
        select: Select,
        /// Adds the point Assign, which assigns replicas in place of the in-tree plugin.
        assign: Assign,
        /// Adds the point Reserve, which reserves resources for a decision.
        reserve: Reserve,
        /// Adds the point Permit, which allows, denies or delays a decision.
        permit: Permit,
        /// Adds the point PreBind, which prepares the write of a decision.
        pre_bind: PreBind,
        /// Adds the point Bind, which writes a decision.
        bind: Bind,
        /// Adds the point PostBind, which runs after the write of a decision.
        post_bind: PostBind,
        /// Adds an estimator, which estimates the number of replicas that fit into a cluster. An estimator is not an
        /// extension point, so a profile cannot disable it separately.
        estimator: Estimator,
        /// Adds an observer of all bindings. An observer is not an extension point, so a profile cannot disable it
        /// separately.
        follow: Follow,
    }

    /// Adds the point Filter, which filters clusters for a binding.
    #[must_use]
    pub fn filter(mut self, filter: Arc<dyn BindingFilter>) -> Self {
        self.filter = Some(FilterPoint::Binding(filter));
        self
    }

    /// Adds the point Filter, which filters clusters by the placement alone. The engine caches the results for each
    /// placement.
    #[must_use]
    pub fn placement_filter(mut self, filter: Arc<dyn PlacementFilter>) -> Self {
        self.filter = Some(FilterPoint::Placement(filter));
        self
    }

    /// Registers events, as EventsToRegister does in kube-scheduler. The scheduler requeues a waiting binding when such
    /// an event may make the binding schedulable.
    #[must_use]
    pub fn wakes_on(mut self, registration: Registration) -> Self {
        self.registrations.push(registration);
        self
    }

    /// Requests the Cluster objects. The scheduler keeps these objects in memory only if a plugin requests them.
    #[must_use]
    pub fn reads_objects(mut self) -> Self {
        self.needs.objects = true;
        self
    }

    /// Requests the scores of ClusterScores. The scheduler watches them only if a plugin requests them.
    #[must_use]
    pub fn reads_scores(mut self) -> Self {
        self.needs.scores = true;
        self
    }

    /// Requests that decisions that wait for Permit or are not written yet reduce the free capacity of clusters. The
    /// feature gate SchedulingOvercommitProtection has the same effect.
    #[must_use]
    pub fn assumes_capacity(mut self) -> Self {
        self.needs.assumed_capacity = true;
        self
    }

    /// Returns the first extension point whose implementation does not have the name of the plugin, with the name of
    /// this implementation.
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
