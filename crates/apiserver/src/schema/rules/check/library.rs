//! The functions and operators of rules, with what they take and give.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use super::super::types::CelType;

/// One way to call a function.
#[derive(Debug)]
pub(in crate::schema::rules) struct Signature {
    /// Called on its first argument.
    pub(super) member: bool,
    pub(in crate::schema::rules) takes: Vec<CelType<'static>>,
    pub(super) gives: CelType<'static>,
    /// So many types it leaves open.
    pub(super) open: usize,
}

/// What the selection of a field that may be absent is.
pub(super) fn optional_select() -> &'static Signature {
    static SELECT: LazyLock<Signature> = LazyLock::new(|| Signature {
        member: false,
        takes: vec![CelType::Dyn, CelType::String],
        gives: CelType::optional(CelType::Dyn),
        open: 0,
    });
    &SELECT
}

/// The names of all functions and operators.
#[cfg(test)]
pub(in crate::schema::rules) fn names() -> impl Iterator<Item = &'static str> {
    LIBRARY.keys().map(String::as_str)
}

/// The ways to call a function; none if there is no such function.
pub(super) fn signatures(name: &str) -> Option<&'static [Signature]> {
    LIBRARY.get(name).map(Vec::as_slice)
}

/// The type that a global name stands for.
pub(super) fn type_named(name: &str) -> Option<CelType<'static>> {
    let list = || CelType::list(CelType::Dyn);
    let map = || CelType::map(CelType::Dyn, CelType::Dyn);
    let named = match name {
        "type" => return Some(CelType::Type(None)),
        "bool" => CelType::Bool,
        "bytes" => CelType::Bytes,
        "double" => CelType::Double,
        "int" => CelType::Int,
        "list" => list(),
        "map" => map(),
        "null_type" => CelType::Null,
        "string" => CelType::String,
        "uint" => CelType::Uint,
        "optional_type" => CelType::optional(CelType::Dyn),
        "google.protobuf.Duration" => CelType::Duration,
        "google.protobuf.Timestamp" => CelType::Timestamp,
        "net.IP" => CelType::Named("net.IP"),
        "net.CIDR" => CelType::Named("net.CIDR"),
        _ => return None,
    };
    Some(CelType::Type(Some(Arc::new(named))))
}

static LIBRARY: LazyLock<HashMap<String, Vec<Signature>>> = LazyLock::new(|| {
    let mut library: HashMap<String, Vec<Signature>> = HashMap::new();
    let mut add = |line: &str, member: bool| {
        if let Some((name, signature)) = parse(line, member) {
            library.entry(name).or_default().push(signature);
        }
    };
    for line in lines(GLOBAL) {
        add(line, false);
    }
    for line in lines(MEMBER) {
        add(line, true);
    }
    for operator in ["<", "<=", ">", ">="] {
        for pair in COMPARABLE {
            add(&format!("_{operator}_({pair}) -> bool"), false);
        }
    }
    for (names, of) in [(OF_TIMES, "timestamp"), (OF_DURATIONS, "duration")] {
        for name in names {
            add(&format!("{name}({of}) -> int"), true);
            if of == "timestamp" {
                add(&format!("{name}({of}, string) -> int"), true);
            }
        }
    }
    for of in ORDERED {
        for (name, gives) in [("isSorted", "bool"), ("min", of), ("max", of)] {
            add(&format!("{name}(list({of})) -> {gives}"), true);
        }
        add(&format!("sort(list({of})) -> list({of})"), true);
        add(
            &format!("@sortByAssociatedKeys(list(A), list({of})) -> list(A)"),
            true,
        );
    }
    library
});

fn lines(table: &'static str) -> impl Iterator<Item = &'static str> {
    table.lines().map(str::trim).filter(|line| !line.is_empty())
}

const ORDERED: [&str; 8] = [
    "int",
    "uint",
    "double",
    "bool",
    "duration",
    "timestamp",
    "string",
    "bytes",
];
const COMPARABLE: [&str; 14] = [
    "bool, bool",
    "int, int",
    "int, double",
    "int, uint",
    "uint, uint",
    "uint, double",
    "uint, int",
    "double, double",
    "double, int",
    "double, uint",
    "string, string",
    "bytes, bytes",
    "timestamp, timestamp",
    "duration, duration",
];
const OF_TIMES: &[&str] = &[
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];
const OF_DURATIONS: &[&str] = &["getHours", "getMinutes", "getSeconds", "getMilliseconds"];

/// Capital letters are types that are found out by the call.
const GLOBAL: &str = "
    _?_:_(bool, A, A) -> A
    _&&_(bool, bool) -> bool
    _||_(bool, bool) -> bool
    !_(bool) -> bool
    @not_strictly_false(bool) -> bool
    _==_(A, A) -> bool
    _!=_(A, A) -> bool
    _+_(bytes, bytes) -> bytes
    _+_(double, double) -> double
    _+_(duration, duration) -> duration
    _+_(duration, timestamp) -> timestamp
    _+_(timestamp, duration) -> timestamp
    _+_(int, int) -> int
    _+_(list(A), list(A)) -> list(A)
    _+_(string, string) -> string
    _+_(uint, uint) -> uint
    _-_(double, double) -> double
    _-_(duration, duration) -> duration
    _-_(int, int) -> int
    _-_(timestamp, duration) -> timestamp
    _-_(timestamp, timestamp) -> duration
    _-_(uint, uint) -> uint
    _*_(double, double) -> double
    _*_(int, int) -> int
    _*_(uint, uint) -> uint
    _/_(double, double) -> double
    _/_(int, int) -> int
    _/_(uint, uint) -> uint
    _%_(int, int) -> int
    _%_(uint, uint) -> uint
    -_(double) -> double
    -_(int) -> int
    _[_](list(A), int) -> A
    _[_](map(A, B), A) -> B
    _[_](optional(list(A)), int) -> optional(A)
    _[_](optional(map(A, B)), A) -> optional(B)
    _[?_](list(A), int) -> optional(A)
    _[?_](optional(list(A)), int) -> optional(A)
    _[?_](map(A, B), A) -> optional(B)
    _[?_](optional(map(A, B)), A) -> optional(B)
    @in(A, list(A)) -> bool
    @in(A, map(A, B)) -> bool
    size(bytes) -> int
    size(list(A)) -> int
    size(map(A, B)) -> int
    size(string) -> int
    type(A) -> type(A)
    dyn(A) -> dyn
    bool(bool) -> bool
    bool(string) -> bool
    bytes(bytes) -> bytes
    bytes(string) -> bytes
    double(double) -> double
    double(int) -> double
    double(string) -> double
    double(uint) -> double
    duration(duration) -> duration
    duration(string) -> duration
    duration(int) -> duration
    int(int) -> int
    int(double) -> int
    int(duration) -> int
    int(string) -> int
    int(timestamp) -> int
    int(uint) -> int
    string(string) -> string
    string(bool) -> string
    string(bytes) -> string
    string(double) -> string
    string(duration) -> string
    string(int) -> string
    string(timestamp) -> string
    string(uint) -> string
    string(net.IP) -> string
    string(net.CIDR) -> string
    timestamp(timestamp) -> timestamp
    timestamp(int) -> timestamp
    timestamp(string) -> timestamp
    uint(uint) -> uint
    uint(double) -> uint
    uint(int) -> uint
    uint(string) -> uint
    matches(string, string) -> bool
    optional.of(A) -> optional(A)
    optional.ofNonZeroValue(A) -> optional(A)
    optional.none() -> optional(A)
    optional.unwrap(list(optional(A))) -> list(A)
    sets.contains(list(A), list(A)) -> bool
    sets.equivalent(list(A), list(A)) -> bool
    sets.intersects(list(A), list(A)) -> bool
    lists.range(int) -> list(int)
    strings.quote(string) -> string
    cel.@mapInsert(map(A, B), A, B) -> map(A, B)
    cel.@mapInsert(map(A, B), map(A, B)) -> map(A, B)
    url(string) -> kubernetes.URL
    isURL(string) -> bool
    quantity(string) -> kubernetes.Quantity
    isQuantity(string) -> bool
    sign(kubernetes.Quantity) -> int
    ip(string) -> net.IP
    ip.isCanonical(string) -> bool
    isIP(string) -> bool
    cidr(string) -> net.CIDR
    isCIDR(string) -> bool
    semver(string) -> kubernetes.Semver
    semver(string, bool) -> kubernetes.Semver
    isSemver(string) -> bool
    isSemver(string, bool) -> bool
    format.named(string) -> optional(kubernetes.NamedFormat)
    format.dns1123Label() -> kubernetes.NamedFormat
    format.dns1123Subdomain() -> kubernetes.NamedFormat
    format.dns1035Label() -> kubernetes.NamedFormat
    format.qualifiedName() -> kubernetes.NamedFormat
    format.dns1123LabelPrefix() -> kubernetes.NamedFormat
    format.dns1123SubdomainPrefix() -> kubernetes.NamedFormat
    format.dns1035LabelPrefix() -> kubernetes.NamedFormat
    format.labelValue() -> kubernetes.NamedFormat
    format.uri() -> kubernetes.NamedFormat
    format.uuid() -> kubernetes.NamedFormat
    format.byte() -> kubernetes.NamedFormat
    format.date() -> kubernetes.NamedFormat
    format.datetime() -> kubernetes.NamedFormat
";

/// The first type is what the function is called on.
const MEMBER: &str = "
    size(bytes) -> int
    size(list(A)) -> int
    size(map(A, B)) -> int
    size(string) -> int
    contains(string, string) -> bool
    endsWith(string, string) -> bool
    startsWith(string, string) -> bool
    matches(string, string) -> bool
    value(optional(A)) -> A
    hasValue(optional(A)) -> bool
    or(optional(A), optional(A)) -> optional(A)
    orValue(optional(A), A) -> A
    first(list(A)) -> optional(A)
    last(list(A)) -> optional(A)
    unwrapOpt(list(optional(A))) -> list(A)
    charAt(string, int) -> string
    indexOf(string, string) -> int
    indexOf(string, string, int) -> int
    indexOf(list(A), A) -> int
    lastIndexOf(string, string) -> int
    lastIndexOf(string, string, int) -> int
    lastIndexOf(list(A), A) -> int
    lowerAscii(string) -> string
    upperAscii(string) -> string
    replace(string, string, string) -> string
    replace(string, string, string, int) -> string
    split(string, string) -> list(string)
    split(string, string, int) -> list(string)
    substring(string, int) -> string
    substring(string, int, int) -> string
    trim(string) -> string
    format(string, list(dyn)) -> string
    join(list(string)) -> string
    join(list(string), string) -> string
    find(string, string) -> string
    findAll(string, string) -> list(string)
    findAll(string, string, int) -> list(string)
    sum(list(int)) -> int
    sum(list(uint)) -> uint
    sum(list(double)) -> double
    sum(list(duration)) -> duration
    slice(list(A), int, int) -> list(A)
    flatten(list(list(A))) -> list(A)
    flatten(list(dyn), int) -> list(dyn)
    reverse(list(A)) -> list(A)
    distinct(list(A)) -> list(A)
    getScheme(kubernetes.URL) -> string
    getHost(kubernetes.URL) -> string
    getHostname(kubernetes.URL) -> string
    getPort(kubernetes.URL) -> string
    getEscapedPath(kubernetes.URL) -> string
    getQuery(kubernetes.URL) -> map(string, list(string))
    isGreaterThan(kubernetes.Quantity, kubernetes.Quantity) -> bool
    isLessThan(kubernetes.Quantity, kubernetes.Quantity) -> bool
    compareTo(kubernetes.Quantity, kubernetes.Quantity) -> int
    asApproximateFloat(kubernetes.Quantity) -> double
    asInteger(kubernetes.Quantity) -> int
    isInteger(kubernetes.Quantity) -> bool
    add(kubernetes.Quantity, kubernetes.Quantity) -> kubernetes.Quantity
    add(kubernetes.Quantity, int) -> kubernetes.Quantity
    sub(kubernetes.Quantity, kubernetes.Quantity) -> kubernetes.Quantity
    sub(kubernetes.Quantity, int) -> kubernetes.Quantity
    isGreaterThan(kubernetes.Semver, kubernetes.Semver) -> bool
    isLessThan(kubernetes.Semver, kubernetes.Semver) -> bool
    compareTo(kubernetes.Semver, kubernetes.Semver) -> int
    major(kubernetes.Semver) -> int
    minor(kubernetes.Semver) -> int
    patch(kubernetes.Semver) -> int
    family(net.IP) -> int
    isUnspecified(net.IP) -> bool
    isLoopback(net.IP) -> bool
    isLinkLocalMulticast(net.IP) -> bool
    isLinkLocalUnicast(net.IP) -> bool
    isGlobalUnicast(net.IP) -> bool
    containsIP(net.CIDR, string) -> bool
    containsIP(net.CIDR, net.IP) -> bool
    containsCIDR(net.CIDR, string) -> bool
    containsCIDR(net.CIDR, net.CIDR) -> bool
    ip(net.CIDR) -> net.IP
    prefixLength(net.CIDR) -> int
    masked(net.CIDR) -> net.CIDR
    validate(kubernetes.NamedFormat, string) -> optional(list(string))
    path(kubernetes.authorization.Authorizer, string) -> kubernetes.authorization.PathCheck
    group(kubernetes.authorization.Authorizer, string) -> kubernetes.authorization.GroupCheck
    serviceAccount(kubernetes.authorization.Authorizer, string, string) -> kubernetes.authorization.Authorizer
    resource(kubernetes.authorization.GroupCheck, string) -> kubernetes.authorization.ResourceCheck
    subresource(kubernetes.authorization.ResourceCheck, string) -> kubernetes.authorization.ResourceCheck
    namespace(kubernetes.authorization.ResourceCheck, string) -> kubernetes.authorization.ResourceCheck
    name(kubernetes.authorization.ResourceCheck, string) -> kubernetes.authorization.ResourceCheck
    fieldSelector(kubernetes.authorization.ResourceCheck, string) -> kubernetes.authorization.ResourceCheck
    labelSelector(kubernetes.authorization.ResourceCheck, string) -> kubernetes.authorization.ResourceCheck
    check(kubernetes.authorization.PathCheck, string) -> kubernetes.authorization.Decision
    check(kubernetes.authorization.ResourceCheck, string) -> kubernetes.authorization.Decision
    errored(kubernetes.authorization.Decision) -> bool
    error(kubernetes.authorization.Decision) -> string
    allowed(kubernetes.authorization.Decision) -> bool
    reason(kubernetes.authorization.Decision) -> string
";

/// The types of libraries; the `true` ones are declared as objects, without fields.
const NAMED: [(&str, bool); 11] = [
    ("kubernetes.URL", true),
    ("kubernetes.Quantity", true),
    ("kubernetes.Semver", true),
    ("kubernetes.NamedFormat", true),
    ("kubernetes.authorization.Authorizer", true),
    ("kubernetes.authorization.PathCheck", true),
    ("kubernetes.authorization.GroupCheck", true),
    ("kubernetes.authorization.ResourceCheck", true),
    ("kubernetes.authorization.Decision", true),
    ("net.IP", false),
    ("net.CIDR", false),
];

/// Whether fields of this type can be asked for, though there are none.
pub(super) fn is_declared_as_object(name: &str) -> bool {
    NAMED.contains(&(name, true))
}

/// Reads `name(type, …) -> type`.
fn parse(line: &str, member: bool) -> Option<(String, Signature)> {
    let (call, gives) = line.rsplit_once(" -> ")?;
    let open = call.find('(')?;
    let inside = call[open..].strip_prefix('(')?.strip_suffix(')')?;
    let mut letters = BTreeMap::new();
    let takes: Option<Vec<CelType<'static>>> = split(inside)
        .map(|written| parse_type(written, &mut letters))
        .collect();
    let gives = parse_type(gives, &mut letters)?;
    let signature = Signature {
        member,
        takes: takes?,
        gives,
        open: letters.len(),
    };
    Some((call[..open].to_owned(), signature))
}

/// The types between brackets.
fn split(inside: &str) -> impl Iterator<Item = &str> {
    let mut rest = inside;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut depth = 0_usize;
        let end = rest.find(|c: char| {
            depth = match c {
                '(' => depth + 1,
                ')' => depth.saturating_sub(1),
                _ => depth,
            };
            c == ',' && depth == 0
        });
        let (first, others) = rest.split_at(end.unwrap_or(rest.len()));
        rest = others.trim_start_matches([',', ' ']);
        Some(first.trim())
    })
}

fn parse_type(written: &str, letters: &mut BTreeMap<String, usize>) -> Option<CelType<'static>> {
    if let Some(open) = written.find('(') {
        let inside = written[open..].strip_prefix('(')?.strip_suffix(')')?;
        let inner: Option<Vec<CelType<'static>>> = split(inside)
            .map(|written| parse_type(written, letters))
            .collect();
        let mut inner = inner?.into_iter();
        let first = inner.next()?;
        return match &written[..open] {
            "list" => Some(CelType::list(first)),
            "map" => Some(CelType::map(first, inner.next()?)),
            "optional" => Some(CelType::optional(first)),
            "type" => Some(CelType::Type(Some(Arc::new(first)))),
            _ => None,
        };
    }
    Some(match written {
        "dyn" => CelType::Dyn,
        "bool" => CelType::Bool,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "double" => CelType::Double,
        "string" => CelType::String,
        "bytes" => CelType::Bytes,
        "duration" => CelType::Duration,
        "timestamp" => CelType::Timestamp,
        letter if letter.len() == 1 => {
            let next = letters.len();
            CelType::Variable(*letters.entry(letter.to_owned()).or_insert(next))
        }
        name => CelType::Named(NAMED.iter().find(|(known, _)| *known == name)?.0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_signature() {
        let letters = regex::Regex::new(r"\b[AB]\b").unwrap();
        for (table, member) in [(GLOBAL, false), (MEMBER, true)] {
            for line in lines(table) {
                let (name, signature) = parse(line, member).expect(line);
                let takes: Vec<String> = signature.takes.iter().map(ToString::to_string).collect();
                let written = format!("{name}({}) -> {}", takes.join(", "), signature.gives);
                let optional = line.replace("optional(", "optional_type(");
                let expected = letters.replace_all(&optional, |letter: &regex::Captures<'_>| {
                    if &letter[0] == "A" { "_var0" } else { "_var1" }
                });
                assert_eq!(written, expected);
            }
        }
        assert!(signatures("_<_").is_some_and(|s| s.len() == COMPARABLE.len()));
        assert!(signatures("getHours").is_some_and(|s| s.len() == 3));
        assert!(signatures("greatest").is_none());
    }
}
