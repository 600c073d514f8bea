//! Limits on Lua's C functions for patterns, strings and tables. The time limit of a call cannot interrupt such a
//! function, so the cost of one function is limited, and each function first checks the time.

use mlua::{Function, Lua, MultiValue, Table, Value, Variadic};

use super::budget::Budget;
use super::convert::type_name;

/// Maximum length of a string in which a pattern is searched, as in Karmada.
const MAX_TEXT: usize = 1_000_000;
/// Maximum length of a pattern. The matcher recurses for each item of the pattern.
const MAX_PATTERN: usize = 1_000;
/// Maximum number of steps of one match, estimated for the worst case.
const MAX_STEPS: f64 = 1e8;
/// Maximum length of a list that is sorted.
const MAX_SORTED: usize = 100_000;

/// Replaces the functions of the libraries `string` and `table`: each call checks the time of the script, and functions
/// whose cost is unlimited check their arguments.
pub(super) fn restrict(lua: &Lua, budget: &Budget) -> mlua::Result<()> {
    let strings: Table = lua.globals().raw_get("string")?;
    // Karmada lacks `gsub` and `rep`, which create long strings. `dump` would return bytecode.
    for name in ["gsub", "rep", "dump"] {
        strings.raw_set(name, refusal(lua, name)?)?;
    }
    for name in ["find", "match", "gmatch", "gfind"] {
        checked(lua, &strings, name, check_match)?;
    }
    let tables: Table = lua.globals().raw_get("table")?;
    checked(lua, &tables, "insert", check_insert)?;
    bound_sort(lua, &tables, budget)?;
    timed(lua, &strings, budget)?;
    timed(lua, &tables, budget)?;
    for name in ["gmatch", "gfind"] {
        time_iterator(lua, &strings, name, budget)?;
    }
    Ok(())
}

/// Makes every function of a library check the time of the script first.
pub(super) fn timed(lua: &Lua, library: &Table, budget: &Budget) -> mlua::Result<()> {
    let functions: Vec<(String, Function)> = library
        .pairs::<String, Value>()
        .filter_map(|pair| match pair {
            Ok((name, Value::Function(function))) => Some((name, function)),
            _ => None,
        })
        .collect();
    for (name, function) in functions {
        library.raw_set(name, time_function(lua, function, budget)?)?;
    }
    Ok(())
}

fn time_function(lua: &Lua, function: Function, budget: &Budget) -> mlua::Result<Function> {
    let budget = budget.clone();
    lua.create_function(move |_, arguments: MultiValue| {
        budget.check()?;
        function.call::<MultiValue>(arguments)
    })
}

/// Makes the iterator that a function returns check the time of the script in each step.
fn time_iterator(lua: &Lua, library: &Table, name: &str, budget: &Budget) -> mlua::Result<()> {
    let Value::Function(function) = library.raw_get(name)? else {
        return Ok(());
    };
    let budget = budget.clone();
    let timed = lua.create_function(move |lua, arguments: MultiValue| {
        let iterator: Function = function.call(arguments)?;
        time_function(lua, iterator, &budget)
    })?;
    library.raw_set(name, timed)
}

/// Makes a function check its arguments first.
fn checked(
    lua: &Lua,
    library: &Table,
    name: &str,
    check: fn(&MultiValue) -> mlua::Result<()>,
) -> mlua::Result<()> {
    let Value::Function(original) = library.raw_get(name)? else {
        return Ok(());
    };
    let checked = lua.create_function(move |_, arguments: MultiValue| {
        check(&arguments)?;
        original.call::<MultiValue>(arguments)
    })?;
    library.raw_set(name, checked)
}

/// Limits the length of the lists that `table.sort` sorts, and makes each comparison check the time of the script.
fn bound_sort(lua: &Lua, tables: &Table, budget: &Budget) -> mlua::Result<()> {
    let sort: Function = tables.raw_get("sort")?;
    let budget = budget.clone();
    let is_less = lua.create_function(move |_, (a, b): (Value, Value)| {
        budget.check()?;
        match (&a, &b) {
            (Value::String(a), Value::String(b)) => Ok(*a.as_bytes() < *b.as_bytes()),
            _ => match (number(&a), number(&b)) {
                (Some(a), Some(b)) => Ok(a < b),
                _ => Err(mlua::Error::runtime(format!(
                    "attempt to compare a {} with a {}",
                    type_name(&a),
                    type_name(&b)
                ))),
            },
        }
    })?;
    let sorted = lua.create_function(move |_, (list, order): (Table, Option<Function>)| {
        if list.raw_len() > MAX_SORTED {
            return Err(mlua::Error::runtime(format!(
                "the list has more than {MAX_SORTED} items"
            )));
        }
        sort.call::<()>((list, order.unwrap_or_else(|| is_less.clone())))
    })?;
    tables.raw_set("sort", sorted)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "numbers of Lua 5.1 are doubles")]
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// Returns a function that always raises an error.
pub(super) fn refusal(lua: &Lua, name: &'static str) -> mlua::Result<Function> {
    lua.create_function(move |_, _: Variadic<Value>| -> mlua::Result<()> {
        Err(mlua::Error::runtime(format!(
            "function {name} is not available to scripts of customizations"
        )))
    })
}

/// Rejects positions before the start of the list. `table.insert` would take a step for each index between such a
/// position and the list.
fn check_insert(arguments: &MultiValue) -> mlua::Result<()> {
    if arguments.len() < 3 {
        return Ok(());
    }
    if number(&arguments[1]).is_some_and(|position| position < 1.0) {
        return Err(mlua::Error::runtime("position out of bounds"));
    }
    Ok(())
}

fn check_match(arguments: &MultiValue) -> mlua::Result<()> {
    let mut arguments = arguments.iter();
    let (Some(Value::String(text)), Some(Value::String(pattern))) =
        (arguments.next(), arguments.next())
    else {
        // Numbers are short as strings, and the original function rejects other types.
        return Ok(());
    };
    let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
    if text.len() > MAX_TEXT {
        return Err(mlua::Error::runtime(format!(
            "the string has more than {MAX_TEXT} bytes"
        )));
    }
    if pattern.len() > MAX_PATTERN {
        return Err(mlua::Error::runtime(format!(
            "the pattern has more than {MAX_PATTERN} bytes"
        )));
    }
    if worst_steps(text.len(), &pattern) > MAX_STEPS {
        return Err(mlua::Error::runtime(
            "the pattern has too many repetitions for a string of this length",
        ));
    }
    Ok(())
}

/// Estimates the steps of a match: the number of ways to divide the text among the repetitions of the pattern, from
/// each start, times the steps to match one item of the pattern.
fn worst_steps(length: usize, pattern: &[u8]) -> f64 {
    let mut repetitions = u32::from(pattern.first() != Some(&b'^'));
    let mut longest_set = 1_usize;
    let mut at = 0;
    while let Some(byte) = pattern.get(at) {
        at += 1;
        match byte {
            b'%' => {
                // `%b` scans the text, and `%1` compares with a captured part of it. Other classes match one byte.
                let class = pattern.get(at);
                repetitions += u32::from(class.is_some_and(|c| *c == b'b' || c.is_ascii_digit()));
                at += 1;
            }
            b'[' => {
                let end = set_end(pattern, at);
                longest_set = longest_set.max(end - at);
                at = end;
            }
            b'*' | b'+' | b'-' | b'?' => repetitions += 1,
            _ => {}
        }
    }
    let float = |number: usize| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
    let ways = |steps, part| steps * (float(length) + 1.0) / f64::from(part);
    (1..=repetitions).fold(float(longest_set), ways)
}

/// Returns the position after the set whose content starts at `start`.
fn set_end(pattern: &[u8], start: usize) -> usize {
    let mut at = start + usize::from(pattern.get(start) == Some(&b'^'));
    // A bracket at the start belongs to the set.
    let mut is_first = true;
    while let Some(byte) = pattern.get(at) {
        match byte {
            b']' if !is_first => return at + 1,
            b'%' => at += 2,
            _ => at += 1,
        }
        is_first = false;
    }
    pattern.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_patterns_are_cheap_and_ambiguous_ones_are_not() {
        for (length, pattern, cheap) in [
            (1_000_000, "^ab", true),
            (1_000_000, "ab", true),
            (200, "^([^/]+)/([^:]+):(.+)$", true),
            (25, "(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)Z", true),
            (1_000, "^(.-)%.(.-)$", true),
            (10_000, ".*.*.*x", false),
            (100, ".-.-.-.-.-.-.-.-x", false),
            (100_000, "%b()%b()", false),
            (5_000, "^[%w_]+$", true),
            (1_000_000, "[ab]x", true),
            (14_000, "(.*)%1", false),
            (20_000, "[]abcdefghijklmnopqrstuvwxyz]*x", false),
            (20_000, ".-[^%]bcdefghijklmnopqrstuvwxyz]", false),
        ] {
            let steps = worst_steps(length, pattern.as_bytes());
            assert_eq!(steps <= MAX_STEPS, cheap, "{pattern}: {steps}");
        }
    }
}
