//! Limits on Lua's C functions for patterns, strings and tables. The time limit of a call cannot interrupt such a
//! function, so the cost of patterns and the length of strings are limited.

use mlua::{Lua, MultiValue, Table, Value, Variadic};

/// Maximum length of a string in which a pattern is searched, as in Karmada.
const MAX_TEXT: usize = 1_000_000;
/// Maximum length of a pattern. The matcher recurses for each item of the pattern.
const MAX_PATTERN: usize = 1_000;
/// Maximum number of steps of one match, estimated for the worst case.
const MAX_STEPS: f64 = 1e8;

/// Replaces the functions of the libraries `string` and `table` whose cost is unlimited.
pub(super) fn restrict(lua: &Lua) -> mlua::Result<()> {
    let strings: Table = lua.globals().raw_get("string")?;
    for name in ["find", "match", "gmatch", "gfind"] {
        let Value::Function(original) = strings.raw_get(name)? else {
            continue;
        };
        let bounded = lua.create_function(move |_, arguments: MultiValue| {
            check_match(&arguments)?;
            original.call::<MultiValue>(arguments)
        })?;
        strings.raw_set(name, bounded)?;
    }
    // Karmada lacks `gsub` and `rep`, which create long strings. `dump` would return bytecode.
    for name in ["gsub", "rep", "dump"] {
        strings.raw_set(name, refusal(lua, name)?)?;
    }
    let tables: Table = lua.globals().raw_get("table")?;
    let insert: mlua::Function = tables.raw_get("insert")?;
    let bounded = lua.create_function(move |_, arguments: MultiValue| {
        check_insert(&arguments)?;
        insert.call::<MultiValue>(arguments)
    })?;
    tables.raw_set("insert", bounded)
}

/// Returns a function that always raises an error.
pub(super) fn refusal(lua: &Lua, name: &'static str) -> mlua::Result<mlua::Function> {
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
    let position = match &arguments[1] {
        #[expect(clippy::cast_precision_loss, reason = "numbers of Lua 5.1 are doubles")]
        Value::Integer(position) => *position as f64,
        Value::Number(position) => *position,
        _ => return Ok(()),
    };
    if position < 1.0 {
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
/// each start.
fn worst_steps(length: usize, pattern: &[u8]) -> f64 {
    let mut repetitions = u32::from(pattern.first() != Some(&b'^'));
    let mut bytes = pattern.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                // `%b` scans the text. Other classes match one byte.
                repetitions += u32::from(bytes.next() == Some(&b'b'));
            }
            b'*' | b'+' | b'-' | b'?' => repetitions += 1,
            _ => {}
        }
    }
    let length = f64::from(u32::try_from(length).unwrap_or(u32::MAX)) + 1.0;
    (1..=repetitions).fold(1.0, |steps, part| steps * length / f64::from(part))
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
        ] {
            let steps = worst_steps(length, pattern.as_bytes());
            assert_eq!(steps <= MAX_STEPS, cheap, "{pattern}: {steps}");
        }
    }
}
