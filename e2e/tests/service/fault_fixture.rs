//! The fixture of the tests with faults: four clusters, a proxy that injects faults, and a scheduler that connects
//! through the proxy.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_component_base::kube_client::limit_silence;
use berth_e2e::proxy::{Fault, Proxy, RecordedRequest};
use berth_e2e::{BareControlPlane, RunningScheduler};
use berth_scheduler::{Options, Timeouts};

use crate::assertions::{
    Targets, assert_each_placed_once, engine_decisions, wait_for_events, wait_until_all_placed,
};
use crate::objects::{fleet, mixed};

/// Timeouts of the scheduler, which are short so that the tests end soon.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    request: Duration::from_millis(500),
    watch: Duration::from_secs(1),
};

/// Four clusters, a proxy that injects faults, and a scheduler that connects through the proxy.
pub(crate) struct FaultFixture {
    pub(crate) bare: BareControlPlane,
    pub(crate) proxy: Proxy,
    scheduler: RunningScheduler,
    expected: BTreeMap<String, Targets>,
}

/// Returns scheduler options with [`TIMEOUTS`].
pub(crate) fn short_timeouts() -> Options {
    Options {
        timeouts: TIMEOUTS,
        ..Options::embedded()
    }
}

impl FaultFixture {
    /// Starts a scheduler whose requests reach the API server without faults, and creates 20 bindings.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| Fault::None).await
    }

    /// Starts a scheduler whose requests are subject to a rule for faults, and creates 20 bindings.
    pub(crate) async fn start_with(
        rule: impl Fn(&RecordedRequest) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self::start_as(short_timeouts(), rule).await
    }

    /// Starts a scheduler with these timeouts and no faults, and creates 20 bindings.
    pub(crate) async fn start_with_timeouts(timeouts: Timeouts) -> Self {
        let options = Options {
            timeouts,
            ..Options::embedded()
        };
        Self::start_as(options, |_| Fault::None).await
    }

    async fn start_as(
        options: Options,
        rule: impl Fn(&RecordedRequest) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let bare = BareControlPlane::start(&fleet(4)).await;
        let proxy = Proxy::start(bare.client.clone());
        proxy.rule(rule);
        let mut config = proxy.config();
        limit_silence(&mut config, options.timeouts);
        let scheduler = RunningScheduler::start(options, config.try_into().unwrap());
        let mut fixture = Self {
            bare,
            proxy,
            scheduler,
            expected: BTreeMap::new(),
        };
        fixture.add("early", 20).await;
        fixture
    }

    /// Creates `count` bindings, and computes their expected clusters.
    pub(crate) async fn add(&mut self, prefix: &str, count: u32) {
        let bindings = mixed(prefix, count);
        self.expected
            .extend(engine_decisions(&self.bare, &bindings).await);
        self.bare.bind_all(&bindings).await;
    }

    /// Waits until all bindings of this fixture are placed.
    pub(crate) async fn wait_until_placed(&self) {
        wait_until_all_placed(&self.bare, &self.expected).await;
    }

    /// Waits until the scheduler has sent `count` matching requests after this call.
    pub(crate) async fn wait_for_requests(
        &self,
        count: usize,
        matches: impl Fn(&RecordedRequest) -> bool,
    ) {
        let before = self.proxy.count(&matches);
        berth_e2e::eventually("requests of the scheduler", async || {
            let seen = self.proxy.count(&matches) - before;
            if seen >= count {
                Ok(())
            } else {
                Err(format!("{seen} of {count} requests"))
            }
        })
        .await;
    }

    /// Checks that the scheduler recovers after a fault: each binding is placed as the engine decides, with exactly one
    /// write, and has an event. Prints the recovery time.
    pub(crate) async fn assert_recovers(self, fault: &str) {
        let began = Instant::now();
        let placed = wait_until_all_placed(&self.bare, &self.expected).await;
        let took = began.elapsed();
        wait_for_events(&self.bare, &self.expected, "ScheduleBindingSucceed").await;
        // A second check finds bindings that the scheduler has moved since.
        let placed_later = wait_until_all_placed(&self.bare, &self.expected).await;
        assert_each_placed_once(&placed);
        assert_each_placed_once(&placed_later);
        assert!(!self.scheduler.has_ended(), "the scheduler has ended");
        println!(
            "{fault}: {} bindings placed once each, the last one {took:.1?} after the fault; \
             {} requests, {} of them writes of bindings",
            placed.len(),
            self.proxy.count(|_| true),
            self.proxy.count(RecordedRequest::writes_a_binding),
        );
        self.scheduler.stop().await.unwrap();
        self.bare.stop().await;
    }
}
