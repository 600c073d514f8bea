use serde_json::json;

use super::*;

/// Runs the function `f` of a script with arguments.
fn run(script: &str, arguments: &[Value]) -> Result<Returned, ScriptError> {
    let arguments: Vec<&Value> = arguments.iter().collect();
    let [result] = call(&Program::new(script), "f", &arguments)?;
    Ok(result)
}

/// Evaluates an expression, and returns its value as text.
fn evaluate(expression: &str) -> Result<String, ScriptError> {
    match run(
        &format!("function f() return {{ tostring({expression}) }} end"),
        &[],
    )? {
        Returned::Table(value) => Ok(value[0].as_str().unwrap_or_default().to_owned()),
        other => Ok(other.type_name().to_owned()),
    }
}

fn message(result: Result<impl std::fmt::Debug, ScriptError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn a_round_trip_through_lua_drops_nulls_and_makes_empty_objects_lists() {
    for (value, expected) in [
        (
            json!({"a": 1, "b": "x", "c": true}),
            json!({"a": 1, "b": "x", "c": true}),
        ),
        (
            json!({"a": [1, 2.5, "x", {"b": [false]}]}),
            json!({"a": [1, 2.5, "x", {"b": [false]}]}),
        ),
        (
            json!({"a": 2_147_483_648_u64, "b": -7}),
            json!({"a": 2_147_483_648_u64, "b": -7}),
        ),
        // Whole numbers become integers, and nulls disappear.
        (json!({"a": 3.0, "b": null}), json!({"a": 3})),
        (json!({"a": [1, null, 2]}), json!({"a": [1, 2]})),
        (
            json!({"a": "\u{e9}\u{1f600}"}),
            json!({"a": "\u{e9}\u{1f600}"}),
        ),
        (json!({"a": {}, "b": []}), json!({"a": [], "b": []})),
    ] {
        let returned = run("function f(x) return x end", &[value]).unwrap();
        assert_eq!(returned, Returned::Table(expected));
    }
}

#[test]
fn results_other_than_tables_keep_their_type() {
    for (expression, expected) in [
        ("nil", Returned::Nil),
        ("1 == 1", Returned::Bool(true)),
        ("7 / 2", Returned::Number(3.5)),
        ("'x'", Returned::Other("string")),
        ("f", Returned::Other("function")),
    ] {
        let returned = run(&format!("function f() return {expression} end"), &[]);
        assert_eq!(returned.unwrap(), expected, "{expression}");
    }
}

#[test]
fn tables_without_a_json_form_are_errors() {
    for (body, expected) in [
        ("return {1, nil, 3}", "a list has gaps"),
        ("return {[0.5] = 1}", "a list has gaps"),
        ("return {[-1] = 1}", "a list has gaps"),
        ("return {1, a = 2}", "mixes names and indices"),
        ("return {[true] = 1}", "mixes names and indices"),
        ("return {f = print}", "a function has no JSON form"),
        ("return {n = 0/0}", "is not a JSON number"),
        ("return {n = 1/0}", "is not a JSON number"),
        (
            "local t = {1} return {a = t, b = t}",
            "occurs more than once",
        ),
        ("local t = {} t.t = t return t", "occurs more than once"),
        (
            "local t = {} for i = 1, 1000 do t = {t} end return t",
            "more than 128 levels",
        ),
    ] {
        let error = message(run(&format!("function f() {body} end"), &[]));
        assert!(error.contains(expected), "{body}: {error}");
    }
}

#[test]
fn scripts_can_call_only_the_functions_that_karmada_provides() {
    for (expression, expected) in [
        ("math.floor(2.7)", "2"),
        ("string.format('%d-%s', 3, 'x')", "3-x"),
        ("('Ab'):upper()", "AB"),
        ("string.match('nginx:1.2', ':(.*)$')", "1.2"),
        ("select('#', 1, 2)", "2"),
        ("tonumber('0x10')", "16"),
        ("unpack({4})", "4"),
        ("#{1, 2}", "2"),
        ("pcall(error, 'x')", "false"),
        ("select(2, pcall(error, 'x'))", "x"),
        ("select(2, pcall(math.max, 1, 2))", "2"),
        ("select(2, pcall(nil))", "attempt to call a nil value"),
        (
            "select(2, xpcall(function() error('x', 0) end, string.upper))",
            "X",
        ),
        ("table.concat({1, 2}, ',')", "1,2"),
        (
            "(function() local t = {'b', 'a', 'c'} table.sort(t) return table.concat(t) end)()",
            "abc",
        ),
        (
            "(function() local t = {1, 3, 2} table.sort(t, function(a, b) return a > b end) return t[1] end)()",
            "3",
        ),
        (
            "(function() local n = 0 for a in ('a,b'):gmatch('%a') do n = n + 1 end return n end)()",
            "2",
        ),
        ("type(require('kube').resourceAdd)", "function"),
        (
            "os.date('!%Y-%m-%dT%H:%M:%SZ', 86400)",
            "1970-01-02T00:00:00Z",
        ),
        (
            "os.time({year = 1970, month = 14, day = 1, hour = 0})",
            "34214400",
        ),
        ("os.time() > 1700000000", "true"),
        // These libraries and functions are absent.
        ("io", "nil"),
        ("debug", "nil"),
        ("package", "nil"),
        ("coroutine", "nil"),
        ("os.execute", "nil"),
        ("os.getenv", "nil"),
    ] {
        assert_eq!(evaluate(expression).unwrap(), expected, "{expression}");
    }
    for expression in [
        "load('return 1')",
        "loadstring('return 1')",
        "dofile('/etc/passwd')",
        "loadfile('/etc/passwd')",
        "getmetatable('')",
        "setmetatable({}, {})",
        "rawset({}, 1, 1)",
        "setfenv(1, {})",
        "getfenv(0)",
        "newproxy(true)",
        "collectgarbage()",
        "string.rep('x', 10)",
        "string.dump(f)",
        "require('io')",
        "string.find(('a'):lower(), string.format('%1001s', 'x'))",
        "table.insert({}, -2147483648, 1)",
    ] {
        assert!(evaluate(expression).is_err(), "{expression}");
    }
}

#[test]
fn calls_do_not_share_globals() {
    let script = "count = (count or 0) + 1 function f() string.lower = nil return count end";
    for _ in 0..2 {
        assert_eq!(run(script, &[]).unwrap(), Returned::Number(1.0));
    }
}

#[test]
fn scripts_that_exceed_a_limit_are_stopped() {
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function g() return pcall(g) end while true do g() end",
    ] {
        let started = std::time::Instant::now();
        let result = run(&format!("function f() {body} end"), &[]);
        assert!(
            matches!(result, Err(ScriptError::Timeout(_))),
            "{body}: {result:?}"
        );
        assert!(started.elapsed().as_secs() < 20, "{body}");
    }
    let error = message(run(
        "function f() local s = 'x' while true do s = s .. s end end",
        &[],
    ));
    assert!(error.contains("MiB of memory"), "{error}");
    // On a busy machine, the time limit may be reached first.
    let many = "function f() local t = {} while true do t[#t + 1] = {1, 2, 3} end end";
    let result = run(many, &[]);
    assert!(
        matches!(
            result,
            Err(ScriptError::Memory(_) | ScriptError::Timeout(_))
        ),
        "{result:?}"
    );
    // Single calls of C functions are short, so the deadline stops loops of them.
    for body in [
        "local s = 'a' for i = 1, 11 do s = s .. s end while true do s:find('.-[b-cd-ef-g]') end",
        "local t = {} for i = 1, 100000 do t[i] = -i end while true do table.insert(t, 1, 1) end",
        "local s = 'ab' for i = 1, 18 do s = s .. s end while true do local u = s:upper() end",
        "local s = 'ab' for i = 1, 18 do s = s .. s end
            while true do for _ in s:gmatch('c') do end end",
        "local s = 'ab' for i = 1, 20 do s = s .. s end
            local t = {} for i = 1, 100000 do t[i] = s end table.sort(t)",
        "local kube = require('kube') while true do pcall(kube.resourceAdd, '1') end",
    ] {
        let started = std::time::Instant::now();
        let result = run(&format!("function f() {body} end"), &[]);
        assert!(
            matches!(result, Err(ScriptError::Timeout(_))),
            "{body}: {result:?}"
        );
        assert!(started.elapsed().as_secs() < 10, "{body}");
    }
    for (body, expected) in [
        (
            "local s = 'a' for i = 1, 13 do s = s .. s end local set = 'b'
                for i = 1, 9 do set = set .. set end return s:find('.-[' .. set .. ']')",
            "too many repetitions",
        ),
        (
            "local t = {} for i = 1, 100001 do t[i] = i end table.sort(t)",
            "more than 100000 items",
        ),
        ("table.sort({1, 'a'})", "attempt to compare"),
    ] {
        let error = message(run(&format!("function f() {body} end"), &[]));
        assert!(error.contains(expected), "{body}: {error}");
    }
    let error = message(run("function f() return f() + 1 end", &[]));
    assert!(error.contains("stack overflow"), "{error}");
    let ambiguous = "local s = 'a' for i = 1, 12 do s = s .. s end return s:find('.-.-.-.-.-x')";
    let error = message(run(&format!("function f() {ambiguous} end"), &[]));
    assert!(error.contains("too many repetitions"), "{error}");
}

#[test]
fn errors_of_scripts_have_one_line_that_states_the_cause() {
    for (script, expected) in [
        ("function f(", "the script does not compile: script:1: "),
        (
            "x = 1\nfunction f() return y.z end",
            "script:2: attempt to index global 'y'",
        ),
        (
            "function g() end",
            "does not declare function f; its value is nil",
        ),
        ("f = 3", "does not declare function f; its value is number"),
        ("error('boom')", "boom"),
        ("\u{1b}Lua", "does not compile"),
    ] {
        let error = message(run(script, &[]));
        assert!(
            error.contains(expected) && !error.contains('\n'),
            "{script:?}: {error}"
        );
    }
    assert!(check_syntax("function f() return 1 end").is_ok());
    assert!(message(check_syntax("function f(")).contains("script:1:"));
}

#[test]
fn the_kube_library_returns_quantities_requirements_and_dependencies() {
    for (call, expected) in [
        ("kube.resourceAdd('500m', '1', nil)", json!("1500m")),
        ("kube.resourceAdd('1Gi', '512Mi')", json!("1536Mi")),
        ("kube.resourceAdd()", json!("0")),
        ("kube.getResourceQuantity('250m')", json!(0.25)),
        ("kube.getResourceQuantity('2Ki')", json!(2048)),
        ("kube.getResourceQuantity(nil)", json!(0)),
        (
            "kube.accuratePodRequirements({spec = {nodeSelector = {a = 'b'}, containers = {
                {name = 'c', resources = {requests = {cpu = '1', memory = '1Gi'}}, env = {}}}}})",
            json!({"nodeClaim": {"nodeSelector": {"a": "b"}}, "resourceRequest": {"cpu": "1", "memory": "1Gi"}}),
        ),
        (
            "kube.accuratePodRequirements({spec = {containers = {{name = 'c'}}}})",
            Value::Null,
        ),
        (
            "kube.getPodDependencies({spec = {containers = {}, serviceAccountName = 's',
                volumes = {{name = 'v', configMap = {name = 'c'}}}}}, 'n')",
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": "c"},
                {"apiVersion": "v1", "kind": "ServiceAccount", "namespace": "n", "name": "s"}]),
        ),
    ] {
        let script = format!("local kube = require('kube') function f() return {{r = {call}}} end");
        let returned = run(&script, &[]).unwrap();
        let expected = match expected {
            Value::Null => json!([]),
            expected => json!({"r": expected}),
        };
        assert_eq!(returned, Returned::Table(expected), "{call}");
    }
    for call in [
        "kube.resourceAdd('many')",
        "kube.resourceAdd(1)",
        "kube.getResourceQuantity('-1')",
        "kube.getResourceQuantity()",
        "kube.accuratePodRequirements('x')",
        "kube.accuratePodRequirements({spec = {containers = 'x'}})",
        "kube.getPodDependencies({})",
    ] {
        let script = format!("local kube = require('kube') function f() return {call} end");
        assert!(run(&script, &[]).is_err(), "{call}");
    }
}
