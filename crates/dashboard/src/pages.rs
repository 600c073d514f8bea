//! The HTML pages of the dashboard, and the frame that all pages share. Each submodule writes one page, or parts of
//! several pages.

pub(crate) mod binding;
pub(crate) mod bindings;
mod explanation;
pub(crate) mod fleet;
mod format;
pub(crate) mod live;
mod parts;
pub(crate) mod what_if;

use axum::response::Html as Document;

use crate::html::Html;

/// The tab of the navigation to which a page belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tab {
    Fleet,
    Bindings,
    Live,
    WhatIf,
    None,
}

impl Tab {
    const ALL: [(Self, &'static str, &'static str); 4] = [
        (Self::Fleet, "/", "Fleet"),
        (Self::Bindings, "/bindings", "Bindings"),
        (Self::Live, "/live", "Live"),
        (Self::WhatIf, "/what-if", "What if"),
    ];
}

/// Returns a page: the frame with a title, the navigation and the content.
fn frame(title: &str, tab: Tab, content: impl FnOnce(&mut Html)) -> Document<String> {
    let mut html = Html::default();
    html.doctype();
    html.el("html", &[("lang", &"en")], |html| {
        html.el("head", &[], |html| {
            html.void("meta", &[("charset", &"utf-8")]);
            let viewport = "width=device-width, initial-scale=1";
            html.void("meta", &[("name", &"viewport"), ("content", &viewport)]);
            html.void(
                "meta",
                &[("name", &"color-scheme"), ("content", &"light dark")],
            );
            html.leaf("title", &[], format_args!("{title} · Berth"));
            html.void("link", &[("rel", &"stylesheet"), ("href", &"/style.css")]);
            html.void("link", &[("rel", &"icon"), ("href", &"/icon.svg")]);
            html.el("script", &[("src", &"/script.js"), ("defer", &"")], |_| {});
        });
        html.el("body", &[], |html| {
            html.leaf(
                "a",
                &[("class", &"skip"), ("href", &"#content")],
                "Skip to content",
            );
            html.el("header", &[], |html| {
                html.leaf("a", &[("class", &"brand"), ("href", &"/")], "Berth");
                html.el("nav", &[("aria-label", &"Views")], |html| {
                    for (of, path, name) in Tab::ALL {
                        if of == tab {
                            html.leaf("a", &[("href", &path), ("aria-current", &"page")], name);
                        } else {
                            html.leaf("a", &[("href", &path)], name);
                        }
                    }
                });
                let status = [
                    ("id", &"connection" as &dyn std::fmt::Display),
                    ("class", &"connection"),
                    ("role", &"status"),
                ];
                html.leaf("span", &status, "");
            });
            html.el("main", &[("id", &"content"), ("tabindex", &"-1")], content);
        });
    });
    Document(html.into_string())
}

/// Returns the page for an unknown path or an unknown binding.
pub(crate) fn not_found() -> Document<String> {
    frame("Not found", Tab::None, |html| {
        html.leaf("h1", &[], "Not found");
        html.leaf(
            "p",
            &[],
            "There is no such page or binding. It may have been deleted.",
        );
        html.leaf("a", &[("href", &"/bindings")], "All bindings");
    })
}

/// Returns the page for an unknown binding while the first lists are incomplete.
pub(crate) fn not_listed_yet() -> Document<String> {
    frame("Not listed yet", Tab::None, |html| {
        html.leaf("h1", &[], "Not listed yet");
        html.leaf(
            "p",
            &[],
            "The dashboard is still reading the clusters and bindings. Reload this page later.",
        );
        html.leaf("a", &[("href", &"/bindings")], "All bindings");
    })
}

#[cfg(test)]
mod tests;
