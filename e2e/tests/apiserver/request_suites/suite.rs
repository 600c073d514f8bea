//! The parser of suites.

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

/// The first words of requests, with the method and the media type of the body.
const METHODS: [(&str, &str, Option<&str>); 12] = [
    ("GET", "GET", None),
    ("HEAD", "HEAD", None),
    ("OPTIONS", "OPTIONS", None),
    ("TRACE", "TRACE", None),
    ("POST", "POST", Some(JSON)),
    ("PUT", "PUT", Some(JSON)),
    ("DELETE", "DELETE", Some(JSON)),
    ("PATCH", "PATCH", None),
    ("MERGE", "PATCH", Some(MERGE)),
    ("STRATEGIC", "PATCH", Some(STRATEGIC)),
    ("JSON-PATCH", "PATCH", Some(JSON_PATCH)),
    ("APPLY", "PATCH", Some(APPLY)),
];

const KEYWORDS: [&str; 6] = ["not", "names", "causes", "errors", "warnings", "save"];

#[derive(Debug, Default)]
pub(super) struct Suite {
    /// The steps with which each case starts.
    pub(super) start: Vec<Step>,
    pub(super) cases: Vec<Case>,
}

#[derive(Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug)]
pub(super) enum Step {
    Let {
        name: String,
        value: String,
    },
    Install {
        definition: String,
    },
    For {
        names: Vec<String>,
        rows: Vec<Vec<String>>,
        steps: Vec<Self>,
    },
    /// Repeats the steps for each word of a text.
    ForIn {
        name: String,
        words: String,
        steps: Vec<Self>,
    },
    Request(Request),
}

impl Step {
    /// Reports whether the step compares a response with an expectation.
    pub(super) fn expects_anything(&self) -> bool {
        match self {
            Self::Let { .. } | Self::Install { .. } => false,
            Self::For { steps, .. } | Self::ForIn { steps, .. } => {
                steps.iter().any(Self::expects_anything)
            }
            Self::Request(request) => !request.expectations.is_empty(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) line: usize,
    /// The only server that gets the request.
    pub(super) only: Option<String>,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Option<String>,
    /// The line, the first word and the other text of each expectation.
    pub(super) expectations: Vec<(usize, String, String)>,
    pub(super) expects_code: bool,
    pub(super) is_repeated: bool,
    /// The name of the variable that keeps the body of the response.
    pub(super) saved: Option<String>,
}

impl Suite {
    pub(super) fn parse(text: &str) -> Self {
        let mut lines = Lines::of(text);
        let mut suite = Self {
            start: lines.steps(),
            cases: Vec::new(),
        };
        while let Some((_, line)) = lines.next() {
            suite.cases.push(Case {
                name: line.trim_start_matches("### ").to_owned(),
                steps: lines.steps(),
            });
        }
        suite
    }
}

/// Logical lines with their numbers: comments are left out, and continued lines are joined.
struct Lines(std::iter::Peekable<std::vec::IntoIter<(usize, String)>>);

impl Lines {
    fn of(text: &str) -> Self {
        let mut joined: Vec<(usize, String)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.starts_with(' ') {
                let (_, last) = joined.last_mut().unwrap();
                last.push('\n');
                last.push_str(line);
            } else if !line.starts_with('#') || line.starts_with("### ") {
                joined.push((index + 1, line.to_owned()));
            }
        }
        Self(joined.into_iter().peekable())
    }

    fn next(&mut self) -> Option<(usize, String)> {
        self.0.next()
    }

    /// Returns the steps up to the next case.
    fn steps(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((number, line)) = self.0.next_if(|(_, line)| !line.starts_with("### ")) {
            if !line.is_empty() {
                steps.push(self.step(number, &line));
            }
        }
        steps
    }

    /// Returns the steps up to the next empty line.
    fn block(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        while let Some((number, line)) = self.0.next_if(|(_, line)| !line.is_empty()) {
            steps.push(self.step(number, &line));
        }
        steps
    }

    fn step(&mut self, number: usize, line: &str) -> Step {
        let (first, rest) = word(line);
        match first {
            "let" => {
                let (name, value) = word(rest);
                Step::Let {
                    name: name.to_owned(),
                    value: value.to_owned(),
                }
            }
            "install" => Step::Install {
                definition: rest.to_owned(),
            },
            "for" if !rest.contains('\n') => {
                let (name, words) = rest.split_once(" in ").unwrap();
                Step::ForIn {
                    name: name.to_owned(),
                    words: words.to_owned(),
                    steps: self.block(),
                }
            }
            "for" => {
                let mut rows = rest.lines().map(cells);
                let names = rows.next().unwrap();
                let rows: Vec<Vec<String>> = rows.collect();
                let fits = |row: &Vec<String>| row.len() == names.len();
                assert!(rows.iter().all(fits), "line {number}: {rows:?}");
                let steps = self.block();
                Step::For { names, rows, steps }
            }
            _ => Step::Request(self.request(number, line)),
        }
    }

    fn request(&mut self, number: usize, line: &str) -> Request {
        let mut request = Request {
            line: number,
            ..Request::default()
        };
        let (mut first, mut rest) = word(line);
        if let Some(only) = first.strip_prefix('[') {
            request.only = Some(only.trim_end_matches(']').to_owned());
            (first, rest) = word(rest);
        }
        let known = METHODS.iter().find(|(name, ..)| *name == first);
        let (_, method, media_type) = known.unwrap_or_else(|| panic!("line {number}: {line}"));
        let (path, body) = word(rest);
        (*method).clone_into(&mut request.method);
        path.clone_into(&mut request.path);
        request.body = (!body.is_empty()).then(|| body.to_owned());
        while let Some((number, line)) = self.0.next_if(|(_, line)| belongs_to_request(line)) {
            request.add(number, &line);
        }
        let names_type = request
            .headers
            .iter()
            .any(|(name, _)| name == "content-type");
        if let (Some(media_type), false) = (media_type, names_type) {
            let header = ("content-type".to_owned(), (*media_type).to_owned());
            request.headers.push(header);
        }
        request
    }
}

impl Request {
    fn add(&mut self, number: usize, line: &str) {
        let (mut first, mut rest) = word(line);
        if first == "until" {
            self.is_repeated = true;
            (first, rest) = word(rest);
        }
        match first.strip_suffix(':') {
            Some(name) if self.expectations.is_empty() => {
                self.headers.push((name.to_owned(), rest.to_owned()));
            }
            _ if first == "save" => self.saved = Some(rest.to_owned()),
            _ => {
                self.expects_code |= is_code(first);
                let expectation = (number, first.to_owned(), rest.to_owned());
                self.expectations.push(expectation);
            }
        }
    }
}

/// Reports whether a word is a status code, or the variable of a status code.
pub(super) fn is_code(word: &str) -> bool {
    word == "<code>" || word.len() == 3 && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn belongs_to_request(line: &str) -> bool {
    let (first, _) = word(line);
    first == "until" || first.ends_with(':') || is_code(first) || KEYWORDS.contains(&first)
}

/// Returns the first word of a line, and the other text.
fn word(text: &str) -> (&str, &str) {
    let (first, rest) = text.split_once([' ', '\n']).unwrap_or((text, ""));
    (first, rest.trim())
}

fn cells(row: &str) -> Vec<String> {
    // The last cell may be empty.
    let row = format!("{} ", row.trim());
    row.split(" | ")
        .map(|cell| cell.trim().to_owned())
        .collect()
}
