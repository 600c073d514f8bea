//! The map of the fleet: one tile for each cluster, grouped by region. It shows a thousand clusters on one screen.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Display;

use super::{View, load_tone};
use crate::html::Html;
use crate::pages::format::{cluster_path, count, counted};
use crate::pages::parts::Tone;
use crate::store::{ClusterHealth, ClusterRow};

/// Maximum number of clusters with a tile of their own. In a larger fleet, each region has one tile.
const MAX_TILES: usize = 1500;
/// Maximum number of clusters whose tiles have names.
const MAX_NAMED: usize = 60;
/// Maximum number of clusters with tiles of medium size.
const MAX_MEDIUM: usize = 300;
/// Maximum number of clusters of a region in 10 columns.
const MAX_NARROW: usize = 120;
/// Maximum number of clusters of a region in 20 columns.
const MAX_MIDDLE: usize = 400;
/// The classes of the colours, the worst first, then those of versions.
const CLASSES: [&str; 11] = [
    "worst", "bad", "warning", "info", "neutral", "good", "v0", "v1", "v2", "v3", "v4",
];
/// Number of colours for versions. Further versions share the last one.
const VERSION_COLOURS: usize = 5;

/// The property of a cluster that its colour shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colour {
    Health,
    /// The largest used share of CPU, memory and pods.
    Load,
    Version,
}

impl Colour {
    pub(super) const ALL: [Self; 3] = [Self::Health, Self::Load, Self::Version];

    /// Returns the value in the URL, and the label.
    pub(super) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Health => ("", "Health"),
            Self::Load => ("load", "Load"),
            Self::Version => ("version", "Version"),
        }
    }

    /// Reads the value in the URL. An unknown value stands for the health.
    pub(super) fn parse(value: &str) -> Self {
        let mut all = Self::ALL.into_iter();
        all.find(|of| of.names().0 == value).unwrap_or(Self::Health)
    }
}

/// The colours of the clusters of a map.
enum Palette<'a> {
    Health,
    Load,
    /// The versions with their number of clusters, the most frequent first.
    Version(Vec<(&'a str, usize)>),
}

impl<'a> Palette<'a> {
    fn new(rows: &[(&'a String, &'a ClusterRow)], colour: Colour) -> Self {
        match colour {
            Colour::Health => Self::Health,
            Colour::Load => Self::Load,
            Colour::Version => {
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for (_, row) in rows {
                    *counts.entry(&row.version).or_default() += 1;
                }
                let mut counts: Vec<_> = counts.into_iter().collect();
                counts.sort_by_key(|(_, number)| Reverse(*number));
                Self::Version(counts)
            }
        }
    }

    /// Returns the class of a cluster's colour, and the property in words.
    fn of(&self, row: &ClusterRow) -> (&'static str, String) {
        match self {
            Self::Health => {
                let health = row.health();
                let tone = Tone::of_cluster(health);
                (tone.class(), health.names().1.to_lowercase())
            }
            Self::Load => {
                let load = row.load_permille();
                let words = load.map_or_else(
                    || "load unknown".to_owned(),
                    |permille| format!("{} % used", permille / 10),
                );
                (load_tone(load).class(), words)
            }
            Self::Version(versions) => {
                let place = versions.iter().position(|(name, _)| *name == row.version);
                let words = match &*row.version {
                    "" => "version unknown".to_owned(),
                    version => version.to_owned(),
                };
                (version_class(place.unwrap_or_default()), words)
            }
        }
    }
}

const fn version_class(place: usize) -> &'static str {
    match place {
        0 => "v0",
        1 => "v1",
        2 => "v2",
        3 => "v3",
        _ => "v4",
    }
}

/// Writes the map of these clusters, with its legend.
pub(super) fn write(html: &mut Html, rows: &[(&String, &ClusterRow)], view: &View) {
    let palette = Palette::new(rows, view.colour);
    legend(html, rows, &palette, view);
    let mut regions: BTreeMap<(&str, &str), Vec<(&String, &ClusterRow)>> = BTreeMap::new();
    for (name, row) in rows {
        let region = (&*row.provider, &*row.region);
        regions.entry(region).or_default().push((name, row));
    }
    let size = if rows.len() <= MAX_NAMED {
        "map large"
    } else if rows.len() <= MAX_MEDIUM {
        "map medium"
    } else {
        "map"
    };
    let section: [(&str, &dyn Display); 2] =
        [("class", &size), ("aria-label", &"Map of the clusters")];
    html.el("section", &section, |html| {
        for (names, mut clusters) in regions {
            let path = view.path_of_region(names.0, names.1);
            if rows.len() > MAX_TILES {
                region_tile(html, names, &path, &clusters, &palette);
                continue;
            }
            clusters.sort_by_key(|(name, _)| *name);
            region(html, names, &path, &clusters, (&palette, rows.len()));
        }
    });
}

fn region_label((provider, region): (&str, &str)) -> String {
    match (provider, region) {
        ("", "") => "No region".to_owned(),
        ("", region) => region.to_owned(),
        (provider, "") => provider.to_owned(),
        (provider, region) => format!("{provider} / {region}"),
    }
}

fn region(
    html: &mut Html,
    names: (&str, &str),
    path: &str,
    clusters: &[(&String, &ClusterRow)],
    (palette, all): (&Palette<'_>, usize),
) {
    let width = if clusters.len() <= MAX_NARROW {
        "cells narrow"
    } else if clusters.len() <= MAX_MIDDLE {
        "cells middle"
    } else {
        "cells"
    };
    html.el("div", &[("class", &"region")], |html| {
        html.el("h3", &[], |html| {
            html.leaf("a", &[("href", &path)], region_label(names));
            let ready = clusters.iter().filter(|(_, row)| row.is_ready()).count();
            let ready = format_args!(" {}/{} ready", count(ready), count(clusters.len()));
            html.leaf("span", &[("class", &"muted")], ready);
        });
        html.el("div", &[("class", &width)], |html| {
            for (name, row) in clusters {
                let (class, words) = palette.of(row);
                let class = format_args!("cell {class}");
                let title = format_args!("{name}: {words}");
                let attributes: [(&str, &dyn Display); 3] = [
                    ("class", &class),
                    ("href", &cluster_path(name)),
                    ("title", &title),
                ];
                html.el("a", &attributes, |html| {
                    if all <= MAX_NAMED {
                        html.text(name);
                    }
                });
            }
        });
    });
}

/// Writes one tile for a region. A bar shows the shares of the colours among its clusters, and the edge has the colour of
/// the worst cluster, or of the most frequent version.
fn region_tile(
    html: &mut Html,
    names: (&str, &str),
    path: &str,
    clusters: &[(&String, &ClusterRow)],
    palette: &Palette<'_>,
) {
    let mut counts = [0; CLASSES.len()];
    for (_, row) in clusters {
        let (class, _) = palette.of(row);
        let position = CLASSES.iter().position(|of| *of == class);
        if let Some(count) = position.and_then(|position| counts.get_mut(position)) {
            *count += 1;
        }
    }
    let present = || CLASSES.iter().zip(counts).filter(|(_, number)| *number > 0);
    let edge = match palette {
        Palette::Version(_) => present().max_by_key(|(_, number)| *number),
        Palette::Health | Palette::Load => present().next(),
    };
    let class = format_args!("cell named {}", edge.map_or("neutral", |(class, _)| class));
    let attributes: [(&str, &dyn Display); 2] = [("class", &class), ("href", &path)];
    html.el("a", &attributes, |html| {
        html.leaf("b", &[], region_label(names));
        let ready = clusters.iter().filter(|(_, row)| row.is_ready()).count();
        let ready = format_args!("{} of {} ready", count(ready), count(clusters.len()));
        html.leaf("span", &[("class", &"sub")], ready);
        let attributes: [(&str, &dyn Display); 4] = [
            ("class", &"bar"),
            ("viewBox", &"0 0 1000 10"),
            ("preserveAspectRatio", &"none"),
            ("aria-hidden", &"true"),
        ];
        html.el("svg", &attributes, |html| {
            let mut end = 0;
            for (class, number) in present() {
                let start = end * 1000 / clusters.len().max(1);
                end += number;
                let width = end * 1000 / clusters.len().max(1) - start;
                let class = format_args!("part {class}");
                let attributes: [(&str, &dyn Display); 4] = [
                    ("class", &class),
                    ("x", &start),
                    ("width", &width),
                    ("height", &10),
                ];
                html.void("rect", &attributes);
            }
        });
    });
}

/// Writes the colours with their meaning and the number of clusters.
fn legend(html: &mut Html, rows: &[(&String, &ClusterRow)], palette: &Palette<'_>, view: &View) {
    html.el("p", &[("class", &"legend")], |html| match palette {
        Palette::Health => {
            for health in ClusterHealth::WORST_FIRST {
                let number = rows.iter().filter(|(_, row)| row.health() == health);
                let (_, label) = health.names();
                let label = format!("{} {}", count(number.count()), label.to_lowercase());
                let path = view.path_of_state(health);
                key(html, Tone::of_cluster(health).class(), &label, Some(&path));
            }
        }
        Palette::Load => {
            for (tone, label) in [
                (Tone::Worst, "95 % used or more"),
                (Tone::Warning, "80 % or more"),
                (Tone::Info, "50 % or more"),
                (Tone::Good, "less"),
                (Tone::Neutral, "unknown"),
            ] {
                let of_tone = |row: &ClusterRow| load_tone(row.load_permille()) == tone;
                let number = rows.iter().filter(|(_, row)| of_tone(row)).count();
                let label = format!("{label}: {}", count(number));
                key(html, tone.class(), &label, None);
            }
        }
        Palette::Version(versions) => {
            let (shown, rest) = match versions.len() {
                ..=VERSION_COLOURS => (&versions[..], &[][..]),
                _ => versions.split_at(VERSION_COLOURS - 1),
            };
            for (place, (version, number)) in shown.iter().enumerate() {
                let name = if version.is_empty() {
                    "unknown"
                } else {
                    version
                };
                let path = view.path_of_version(version);
                let label = format!("{name}: {}", count(*number));
                key(html, version_class(place), &label, Some(&path));
            }
            if !rest.is_empty() {
                let number = rest.iter().map(|(_, number)| number).sum();
                let label = format!(
                    "{}: {}",
                    counted(rest.len(), "other version"),
                    count(number)
                );
                key(html, version_class(VERSION_COLOURS - 1), &label, None);
            }
        }
    });
}

fn key(html: &mut Html, class: &str, label: &str, path: Option<&str>) {
    html.el("span", &[("class", &"key")], |html| {
        let class = format_args!("cell {class}");
        html.leaf("span", &[("class", &class)], "");
        match path {
            Some(path) => html.leaf("a", &[("href", &path)], label),
            None => html.text(label),
        }
    });
}
