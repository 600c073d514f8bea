//! Tests that run the commands of the installation pages in the order of the page.

use berth_test_requirements::needs;

use crate::blocks::{Block, blocks};
use crate::read;
use crate::site::Site;

/// Subcommands of kubectl that only read. A block with no other commands is repeated until it succeeds.
const READS: [&str; 4] = [" get ", " wait ", " describe ", "diff "];

fn only_reads(script: &str) -> bool {
    let mut lines = script.lines();
    lines.all(|line| READS.iter().any(|verb| format!(" {line}").contains(verb)))
}

/// The choice of the blocks of a page that a test runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockSelection {
    /// All `sh` blocks.
    AllShell,
    /// The `bash` block with `helm upgrade`, and all `sh` blocks except the block that applies an overlay.
    Chart,
}

impl BlockSelection {
    fn contains(self, block: &Block) -> bool {
        let is_chart = block.language == "bash" && block.text.starts_with("helm upgrade");
        let is_overlay = block.text.contains("-k deploy/overlays/");
        match self {
            Self::AllShell => block.language == "sh",
            Self::Chart => is_chart || (block.language == "sh" && !is_overlay),
        }
    }
}

/// Runs the `sh` blocks between the headings `from` and `to`, or up to the end of the page if `to` is `None`. Before
/// each block and at the end, [`Site::reconcile`] adapts the local processes to the Deployments on the host.
fn run_sections(site: &mut Site, page: &str, from: &str, to: Option<&str>) {
    run_selected_blocks(BlockSelection::AllShell, site, page, from, to);
}

fn run_selected_blocks(
    selection: BlockSelection,
    site: &mut Site,
    page: &str,
    from: &str,
    to: Option<&str>,
) {
    let text = read(page);
    let start = text.find(&format!("\n{from}\n")).unwrap();
    let end = to.map_or(text.len(), |to| text.find(&format!("\n{to}\n")).unwrap());
    let mut count = 0;
    for block in blocks(&text[start..end]) {
        if !selection.contains(&block) {
            continue;
        }
        site.reconcile();
        if only_reads(&block.text) {
            site.until(page, || site.attempt(&block.text));
        } else {
            site.run(&block.text);
        }
        count += 1;
    }
    site.reconcile();
    assert!(count > 0, "{page} has no commands after {from}");
}

/// Returns a site with the Deployments of Karmada's scheduler and controller manager, and with ready members.
fn site_with_karmada() -> Site {
    let mut site = Site::start();
    site.add_karmada_program("karmada-scheduler");
    site.add_karmada_program("karmada-controller-manager");
    site.reconcile();
    site.until("the members to be ready", || {
        site.attempt(
            "kubectl wait --for=condition=Ready --timeout=5s clusters.cluster.karmada.io --all",
        )
    });
    site
}

/// The commands of the page install Berth's scheduler in three ways. The last command restores Karmada's Deployment.
#[needs(helm, kubectl)]
#[test]
fn a_scheduler_beside_karmada_is_installed_and_removed() {
    let page = "docs/install-beside-karmada.md";
    let mut site = site_with_karmada();
    let before = site.deployment("karmada-scheduler")["spec"].clone();
    run_sections(&mut site, page, "## Before", Some("### By overlay"));
    let container =
        &site.deployment("karmada-scheduler")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "berth:latest");
    assert!(
        container["command"].to_string().contains("--v=4"),
        "{container}"
    );
    site.run("kubectl --context karmada-host -n karmada-system rollout undo deployment/karmada-scheduler");
    run_sections(&mut site, page, "### By overlay", Some("### By chart"));
    let berth = site.deployment("karmada-scheduler")["spec"].clone();
    let container = &berth["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "berth:latest");
    assert!(
        !container["command"].to_string().contains("--v=4"),
        "{container}"
    );
    run_sections(&mut site, page, "### By chart", Some("## When it fails"));
    assert_eq!(site.deployment("karmada-scheduler")["spec"], before);
    let deployments =
        site.run("kubectl --context karmada-host -n karmada-system get deployments -o name");
    assert!(!deployments.contains("berth-scheduler"), "{deployments}");
}

/// The commands of the page replace Karmada's components by Berth, and restore Karmada's Deployments at the end.
#[needs(kubectl)]
#[test]
fn karmadas_components_are_replaced_and_restored() {
    let page = "docs/migrate.md";
    let mut site = site_with_karmada();
    let before = site.deployment("karmada-controller-manager");
    site.run("kubectl apply -f examples/dependencies.yaml");
    run_sections(&mut site, page, "## Check before", None);
    let restored = site.deployment("karmada-controller-manager");
    assert_eq!(restored["spec"], before["spec"]);
    let deployments =
        site.run("kubectl --context karmada-host -n karmada-system get deployments -o name");
    assert!(!deployments.contains("berth"), "{deployments}");
}

/// Each of two Deployments is scheduled by the scheduler that its policy names.
#[needs(helm, kubectl)]
#[test]
fn a_second_scheduler_decides_for_its_policies() {
    let page = "docs/second-scheduler.md";
    let mut site = site_with_karmada();
    run_sections(
        &mut site,
        page,
        "## Start the second scheduler",
        Some("## Build a scheduler with your own plugin"),
    );
    for (workload, scheduler) in [
        ("nginx", "default-scheduler"),
        ("nginx-my-scheduler", "my-scheduler"),
    ] {
        site.until("the event", || {
            let events = site.attempt(&format!("kubectl describe deployment {workload}"))?;
            let mut lines = events.lines();
            let found = lines
                .any(|line| line.contains("ScheduleBindingSucceed") && line.contains(scheduler));
            if found { Ok(()) } else { Err(events) }
        });
    }
    run_sections(
        &mut site,
        page,
        "## Build a scheduler with your own plugin",
        Some("## When it fails"),
    );
}

/// All `sh` blocks of `docs/install-stand-alone.md` succeed.
#[needs(kubectl)]
#[test]
fn a_stand_alone_control_plane_is_installed_and_removed() {
    let page = "docs/install-stand-alone.md";
    let mut site = Site::start();
    // The commands of the page create this namespace.
    site.run("kubectl --context karmada-host delete namespace karmada-system");
    site.use_context("karmada-host");
    run_sections(&mut site, page, "## Install", Some("## When it fails"));
    site.use_context("karmada-apiserver");
    run_sections(&mut site, page, "## An API server of its own", None);
}

/// The chart creates the Deployments of both components. The commands of the page delete the objects of the chart, and
/// the Secret of the webhook.
#[needs(helm, kubectl)]
#[test]
fn a_stand_alone_control_plane_is_installed_by_chart() {
    let page = "docs/install-stand-alone.md";
    let mut site = Site::start();
    site.run("kubectl --context karmada-host delete namespace karmada-system");
    site.use_context("karmada-host");
    run_selected_blocks(
        BlockSelection::Chart,
        &mut site,
        page,
        "## Install",
        Some("## Go back"),
    );
    let names = site.run("kubectl -n karmada-system get deployments -o name");
    assert_eq!(
        names.lines().collect::<Vec<_>>(),
        [
            "deployment.apps/berth-controllers",
            "deployment.apps/berth-scheduler"
        ]
    );
    // As the webhook creates it: the chart does not know this Secret.
    site.run("kubectl -n karmada-system create secret generic berth-webhook-cert");
    let text = read(page);
    let removal = blocks(&text)
        .into_iter()
        .find(|block| block.text.starts_with("helm uninstall"))
        .unwrap();
    site.run(&removal.text);
    let remaining = site.run(
        "kubectl get deployments,serviceaccounts,clusterroles -A -o name \
         -l app.kubernetes.io/instance=berth",
    );
    assert_eq!(remaining, "");
    assert_eq!(
        site.run("kubectl -n karmada-system get secrets -o name"),
        ""
    );
}
