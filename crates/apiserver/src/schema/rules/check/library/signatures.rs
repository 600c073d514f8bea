//! The signatures of all functions and operators, as they are written down.

pub(super) const ORDERED: [&str; 8] = [
    "int",
    "uint",
    "double",
    "bool",
    "duration",
    "timestamp",
    "string",
    "bytes",
];
pub(super) const COMPARABLE: [&str; 14] = [
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
pub(super) const OF_TIMES: &[&str] = &[
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
pub(super) const OF_DURATIONS: &[&str] =
    &["getHours", "getMinutes", "getSeconds", "getMilliseconds"];

/// Capital letters are types that are found out by the call.
pub(super) const GLOBAL: &str = "
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
pub(super) const MEMBER: &str = "
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
