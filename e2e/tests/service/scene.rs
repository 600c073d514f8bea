//! The stage of the fault tests: a fleet, a proxy, and a scheduler behind it that has placed some bindings.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use berth_e2e::proxy::{Fault, Proxy, RecordedRequest};
use berth_e2e::{Bare, Running};
use berth_scheduler::connect::limit_silence;
use berth_scheduler::{Options, Timeouts};

use crate::objects::{fleet, mixed};
use crate::watching::{Placed, all_decided, all_placed, all_told, each_written_once};

/// How long the scheduler of these tests waits for an answer.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    request: Duration::from_millis(500),
    watch: Duration::from_secs(1),
};

/// A fleet, a proxy, and a scheduler behind it.
pub(crate) struct Scene {
    pub(crate) bare: Bare,
    pub(crate) proxy: Proxy,
    scheduler: Running,
    wanted: BTreeMap<String, Placed>,
}

/// The options of a scheduler that soon notices what is wrong.
pub(crate) fn impatient() -> Options {
    Options {
        timeouts: TIMEOUTS,
        ..Options::embedded()
    }
}

impl Scene {
    /// A scheduler that has placed 20 bindings without a fault.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| Fault::None).await
    }

    /// A scheduler that meets this rule from its first request on, and 20 bindings.
    pub(crate) async fn start_with(
        rule: impl Fn(&RecordedRequest) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self::start_as(impatient(), rule).await
    }

    /// A scheduler that waits for answers as long as it does by itself, and 20 bindings.
    pub(crate) async fn start_patient() -> Self {
        Self::start_as(Options::embedded(), |_| Fault::None).await
    }

    async fn start_as(
        options: Options,
        rule: impl Fn(&RecordedRequest) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let bare = Bare::start(&fleet(4)).await;
        let proxy = Proxy::start(bare.client.clone());
        proxy.rule(rule);
        let mut config = proxy.config();
        limit_silence(&mut config, options.timeouts);
        let scheduler = Running::start(options, config.try_into().unwrap());
        let mut scene = Self {
            bare,
            proxy,
            scheduler,
            wanted: BTreeMap::new(),
        };
        scene.add("early", 20).await;
        scene
    }

    /// Creates more bindings.
    pub(crate) async fn add(&mut self, prefix: &str, count: u32) {
        let bindings = mixed(prefix, count);
        self.wanted.extend(all_decided(&self.bare, &bindings).await);
        self.bare.bind_all(&bindings).await;
    }

    /// Waits until all bindings so far are placed.
    pub(crate) async fn settled(&self) {
        all_placed(&self.bare, &self.wanted).await;
    }

    /// Waits until the scheduler has asked so many such things since now.
    pub(crate) async fn asks(&self, count: usize, which: impl Fn(&RecordedRequest) -> bool) {
        let before = self.proxy.count(&which);
        berth_e2e::eventually("the scheduler to ask", async || {
            let asked = self.proxy.count(&which) - before;
            if asked >= count {
                Ok(())
            } else {
                Err(format!("{asked} of {count} requests"))
            }
        })
        .await;
    }

    /// The fault is over. Holds that every binding ends where the engine puts it, that each was moved by one
    /// write only, and that each has its event; says how long it took.
    pub(crate) async fn recovers(self, fault: &str) {
        let began = Instant::now();
        let placed = all_placed(&self.bare, &self.wanted).await;
        let took = began.elapsed();
        all_told(&self.bare, &self.wanted, "ScheduleBindingSucceed").await;
        // What flaps does so when it has had time to.
        let placed_later = all_placed(&self.bare, &self.wanted).await;
        each_written_once(&placed);
        each_written_once(&placed_later);
        assert!(!self.scheduler.has_ended(), "the scheduler has given up");
        println!(
            "{fault}: {} bindings placed once each, the last {took:.1?} after the fault; \
             {} requests, {} of them writes of bindings",
            placed.len(),
            self.proxy.count(|_| true),
            self.proxy.count(RecordedRequest::writes_a_binding),
        );
        self.scheduler.stop().await.unwrap();
        self.bare.stop().await;
    }
}
