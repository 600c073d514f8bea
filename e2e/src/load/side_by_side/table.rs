//! The table of the scenario, in Markdown. A cell lists the figures of the turns in their order.

use std::collections::BTreeMap;
use std::fmt;

use super::{SideBySide, Turn};

/// Requests with fewer than this number for each Deployment in all turns have no row.
const SHOWN: f64 = 0.1;

pub(super) struct Table {
    deployments: u32,
    members: u16,
    sides: Vec<String>,
    /// The cells of each row, in the order of the sides. Each cell contains the figures of the turns.
    rows: Vec<(String, Vec<Vec<String>>)>,
    /// The number of turns of each side.
    turns: Vec<usize>,
    /// The numbers of requests for each Deployment, by request, side and turn.
    requests: BTreeMap<String, Vec<Vec<f64>>>,
}

impl Table {
    pub(super) fn new(load: &SideBySide) -> Self {
        let mut sides: Vec<String> = Vec::new();
        for program in &load.programs {
            if !sides.contains(&program.side) {
                sides.push(program.side.clone());
            }
        }
        Self {
            deployments: load.deployments,
            members: load.members,
            turns: vec![0; sides.len()],
            sides,
            rows: Vec::new(),
            requests: BTreeMap::new(),
        }
    }

    /// Adds the figures of a turn.
    pub(super) fn add(&mut self, side: &str, turn: &Turn) {
        let Some(column) = self.sides.iter().position(|name| name == side) else {
            return;
        };
        for (name, figure) in turn.figures(self.deployments) {
            let at = self.rows.iter().position(|(row, _)| row == name);
            let at = at.unwrap_or_else(|| {
                let cells = vec![Vec::new(); self.sides.len()];
                self.rows.push((name.to_owned(), cells));
                self.rows.len() - 1
            });
            self.rows[at].1[column].push(figure);
        }
        let turn_number = self.turns[column];
        self.turns[column] += 1;
        for (request, count) in turn.requests.iter() {
            let each = count / f64::from(self.deployments.max(1));
            let sides = self.requests.entry(request.to_owned());
            let sides = sides.or_insert_with(|| vec![Vec::new(); self.sides.len()]);
            sides[column].resize(turn_number, 0.0);
            sides[column].push(each);
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line =
            |f: &mut fmt::Formatter<'_>, cells: &[String]| writeln!(f, "| {} |", cells.join(" | "));
        let heading = format!("{} Deployments, {} members", self.deployments, self.members);
        let head: Vec<String> = [heading].into_iter().chain(self.sides.clone()).collect();
        line(f, &head)?;
        line(f, &vec!["---".to_owned(); head.len()])?;
        for (name, cells) in &self.rows {
            let cells = cells.iter().map(|figures| figures.join(", "));
            line(
                f,
                &[name.clone()].into_iter().chain(cells).collect::<Vec<_>>(),
            )?;
        }
        let has_row = |sides: &Vec<Vec<f64>>| sides.iter().flatten().any(|each| *each >= SHOWN);
        for (request, sides) in self.requests.iter().filter(|(_, sides)| has_row(sides)) {
            let cells = sides.iter().zip(&self.turns).map(|(figures, turns)| {
                let missing = std::iter::repeat(&0.0);
                let figures = figures.iter().chain(missing).take(*turns);
                let figures: Vec<String> = figures.map(|each| format!("{each:.1}")).collect();
                figures.join(", ")
            });
            let name = format!("{request}, each");
            line(f, &[name].into_iter().chain(cells).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::api_requests::ApiRequests;
    use super::*;

    #[test]
    fn a_row_has_the_turns_of_each_side() {
        let program = |text: &str| text.parse().unwrap();
        let load = SideBySide {
            programs: vec![
                program("theirs=a {kubeconfig}"),
                program("ours=b {kubeconfig}"),
            ],
            rounds: 2,
            members: 3,
            deployments: 10,
            timeout: 1,
        };
        let turn = |requests: u32| Turn {
            applied: 9,
            took: Duration::from_secs(3),
            latencies: vec![Duration::from_secs(1), Duration::from_secs(2)],
            processor: Duration::from_millis(50),
            peak_mib: 7,
            requests: ApiRequests::parse(&format!(
                "apiserver_request_total{{code=\"200\",resource=\"works\",subresource=\"status\",verb=\"PATCH\"}} {requests}"
            )),
        };
        let mut table = Table::new(&load);
        table.add("theirs", &turn(40));
        table.add("ours", &turn(20));
        table.add("ours", &turn(0));
        let expected = "\
| 10 Deployments, 3 members | theirs | ours |
| --- | --- | --- |
| applied | 9 | 9, 9 |
| all applied after, s | 3.0 | 3.0, 3.0 |
| Deployments/s | 3.0 | 3.0, 3.0 |
| created to applied p50, s | 1.00 | 1.00, 1.00 |
| created to applied p99, s | 2.00 | 2.00, 2.00 |
| processor time each, ms | 5.0 | 5.0, 5.0 |
| peak memory, MiB | 7 | 7, 7 |
| writes each | 4.0 | 2.0, 0.0 |
| PATCH works/status, each | 4.0 | 2.0, 0.0 |
";
        assert_eq!(table.to_string(), expected);
    }
}
