//! Tests of the pages of the dashboard in a browser.

use std::fmt::Write as _;
use std::fs;

use berth_test_requirements::needs;

use crate::browser::Browser;
use crate::dashboard::Page;
use crate::program::{Up, root};

/// JavaScript that lists the elements that are wider than the page, and the texts whose contrast is below the minimum
/// of WCAG AA.
const FLAWS: &str = "(() => {
  const flaws = [];
  if (document.documentElement.scrollWidth > innerWidth) {
    for (const of of document.querySelectorAll('main *, header *')) {
      if (of.getBoundingClientRect().right > innerWidth) flaws.push('too wide: ' + of.outerHTML.slice(0, 200));
    }
    flaws.push('the page scrolls sideways');
  }
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = (color) => {
    const [r, g, b] = parse(color).map((of) => of / 255)
      .map((of) => (of <= 0.04045 ? of / 12.92 : ((of + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (of) => {
    for (; of; of = of.parentElement) {
      const color = getComputedStyle(of).backgroundColor;
      if ((parse(color)[3] ?? 1) === 1) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const check = (of, color, text) => {
    const [a, b] = [luminance(color), luminance(background(of))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) flaws.push(`contrast ${contrast.toFixed(1)}: ${text}`);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const of = texts.currentNode.parentElement;
    if (texts.currentNode.data.trim() && of.checkVisibility()) {
      check(of, getComputedStyle(of).color, texts.currentNode.data);
    }
  }
  for (const of of document.querySelectorAll('[placeholder]')) {
    check(of, getComputedStyle(of, '::placeholder').color, of.placeholder);
  }
  return flaws.join('\\n');
})()";

/// Number of ConfigMaps, so that the list of bindings needs a second page. One page has 100 rows.
const SETTINGS: usize = 101;

/// Returns the manifests of the ConfigMaps, and of a policy that places them in member2.
fn settings() -> String {
    let mut text = String::from(
        "apiVersion: policy.karmada.io/v1alpha1\nkind: PropagationPolicy\nmetadata: {name: settings}\nspec:\n  \
         resourceSelectors: [{apiVersion: v1, kind: ConfigMap}]\n  \
         placement: {clusterAffinity: {clusterNames: [member2]}}\n",
    );
    for index in 0..SETTINGS {
        write!(
            text,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings-{index:03}}}\n"
        )
        .unwrap();
    }
    text
}

/// Asserts that no element is too wide and that every text has enough contrast. Checks the widths of a phone and of
/// desktops, with light and dark colours.
pub(crate) fn is_readable(browser: &mut Browser) {
    for (width, scheme) in [
        (400, "light"),
        (400, "dark"),
        (1920, "light"),
        (1280, "dark"),
        (1280, "light"),
    ] {
        browser.display(width, scheme);
        let view = browser.evaluate("location.pathname");
        let flaws = browser.evaluate(FLAWS);
        assert_eq!(flaws, "", "{view} with {width} px, {scheme}");
    }
}

#[needs(kubectl, chromium)]
#[test]
fn a_browser_shows_the_fleet_the_bindings_and_one_binding() {
    let up = Up::start(&[]);
    let page = Page::of(&up);
    let nginx = root().join("examples/nginx.yaml");
    let many = up.home.path().join("settings.yaml");
    fs::write(&many, settings()).unwrap();
    let (nginx, many) = (nginx.to_str().unwrap(), many.to_str().unwrap());
    up.kubectl(&["apply", "-f", nginx, "-f", many]);
    let taint = r#"{"spec":{"taints":[{"key":"disk","value":"slow","effect":"NoSchedule"}]}}"#;
    up.kubectl(&["patch", "cluster", "member3", "--type=merge", "-p", taint]);

    let mut browser = Browser::start();
    browser.open(&page.url("/"));
    overview(&mut browser);
    browser.open(&page.url("/fleet"));
    fleet(&mut browser);
    browser.open(&page.url("/clusters/member1"));
    browser.shows(&["Conditions", "default/nginx-deployment"]);
    is_readable(&mut browser);
    browser.open(&page.url("/policies/default/nginx-propagation"));
    browser.shows(&["Deployment (1)", "member1"]);
    is_readable(&mut browser);
    browser.open(&page.url("/bindings"));
    bindings(&mut browser);
    browser.open(&page.url("/bindings/default/nginx-deployment"));
    one_binding(&mut browser);
    browser.evaluate("document.querySelector('a[href$=\"/members\"]').click()");
    browser.shows(&["2 of 2 copies equal the wanted object", "Compare again"]);
    is_readable(&mut browser);
}

fn overview(browser: &mut Browser) {
    let total = SETTINGS + 1;
    browser.shows(&[
        "The fleet is well",
        &format!("{total} workloads: {total} well"),
    ]);
    browser.shows(&["GiB free of", "Nothing moves.", &format!("{total} placed")]);
    is_readable(browser);
    browser.evaluate("document.querySelector('a[href=\"/bindings?health=well\"]').click()");
    browser.shows(&[&format!("{total} of {total} workloads match")]);
}

fn fleet(browser: &mut Browser) {
    browser.shows(&[
        "member1",
        "member2",
        "member3",
        "Ready",
        "disk=slow:NoSchedule",
    ]);
    browser.shows(&["3 of 3 ready", "GiB free of"]);
    browser.wait("document.querySelectorAll('.map a.cell').length == 3");
    // Each of the three clusters has a bar for CPU, memory and pods. The filled part of a bar must not exceed the
    // track.
    browser.wait(
        "(() => {
          const bars = [...document.querySelectorAll('tbody svg.bar')];
          const width = (bar, part) => bar.querySelector(part).getBoundingClientRect().width;
          return bars.length == 9 && bars.every((bar) => width(bar, '.track') > 80
            && width(bar, '.fill') <= width(bar, '.track') && bar.getAttribute('aria-label').includes('free'));
        })()",
    );
    is_readable(browser);
}

fn bindings(browser: &mut Browser) {
    let rows = |count: usize| format!("document.querySelectorAll('tbody tr').length == {count}");
    let total = SETTINGS + 1;
    browser.shows(&[&format!("{total} of {total} workloads match")]);
    browser.shows(&[&format!("1 to 100 of {total}"), "well"]);
    browser.wait(&rows(100));
    is_readable(browser);
    browser.evaluate("document.querySelector('a[rel=next]').click()");
    browser.shows(&[&format!("101 to {total} of {total}")]);
    browser.wait(&rows(2));
    browser.evaluate("document.querySelector('a[rel=prev]').click()");
    browser.wait(&rows(100));
    browser.evaluate(
        "document.querySelector('input[name=q]').value = 'NGINX';
         document.querySelector('form').requestSubmit()",
    );
    browser.shows(&["1 of", "default/nginx-deployment", "nginx-propagation"]);
    browser.wait(&rows(1));
    browser.evaluate(
        "document.querySelector('input[name=q]').value = '';
         document.querySelector('input[name=cluster]').value = 'member1';
         document.querySelector('form').requestSubmit()",
    );
    browser.wait("location.search.includes('cluster=member1')");
    browser.wait(&rows(1));
    browser.evaluate(
        "document.querySelector('select[name=health]').value = 'broken';
         document.querySelector('form').requestSubmit()",
    );
    browser.shows(&["No workload matches"]);
}

fn one_binding(browser: &mut Browser) {
    browser.shows(&[
        "2 of 2 replicas are ready in 2 clusters",
        "from its record",
        "Clusters by stage",
        "Division of replicas",
        "Works",
        "Events",
    ]);
    // The page's script loads these parts after the page.
    browser.shows(&[
        "ScheduleBindingSucceed",
        "Manifest has been successfully applied",
        "A cluster would get the workload with one of these changes",
        "the scheduler: each cluster's share",
        "Compare with the members",
    ]);
    let rows = browser.evaluate(
        "[...[...document.querySelectorAll('table')].find((of) => of.caption.innerText == 'Clusters by stage').tBodies[0].rows]
           .map((row) => [...row.cells].map((cell) => cell.innerText.split('\\n')[0]).join('|')).join('\\n')",
    );
    let rows: Vec<&str> = rows.as_str().unwrap().lines().collect();
    let [one, two, three] = rows[..] else {
        panic!("the table of clusters does not have three rows: {rows:?}");
    };
    assert!(
        one.starts_with("member1|passed|") && one.contains("|yes|1|"),
        "{one}"
    );
    assert!(
        two.starts_with("member2|passed|") && two.contains("|yes|1|"),
        "{two}"
    );
    // The scheduler may have decided before it saw the taint.
    let filters = ["member3|TaintToleration|", "member3|ClusterAffinity|"];
    assert!(filters.iter().any(|of| three.starts_with(of)), "{three}");
    let shares = "[...document.querySelectorAll('.share svg .fill')].map((of) => of.getAttribute('width')).join()";
    // Each cluster has a bar with two parts: all of its replicas, and the replicas that it kept in the decision.
    assert_eq!(browser.evaluate(shares), "500,0,500,0");
    is_readable(browser);
}

#[needs(kubectl, chromium)]
#[test]
fn an_open_page_shows_a_new_placement() {
    let up = Up::start(&["--members=2"]);
    let mut browser = Browser::start();
    browser.open(&Page::of(&up).url("/live"));
    browser.shows(&["No binding was placed or moved yet."]);
    browser.wait("document.getElementById('connection').textContent == 'live'");
    browser.evaluate("window.isSamePage = true");
    let nginx = root().join("examples/nginx.yaml");
    up.kubectl(&["apply", "-f", nginx.to_str().unwrap()]);
    browser.shows(&[
        "Placed",
        "default/nginx-deployment",
        "member1 1",
        "member2 1",
    ]);
    up.kubectl(&["delete", "-f", nginx.to_str().unwrap()]);
    browser.shows(&["Removed"]);
    assert_eq!(
        browser.evaluate("window.isSamePage"),
        true,
        "the page was loaded again"
    );
    is_readable(&mut browser);
}
