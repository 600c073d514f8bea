//! Conversion of JSON to Lua values, and of Lua values to JSON.

use std::collections::HashSet;
use std::ffi::c_void;

use mlua::{Lua, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};

use crate::error::ConvertError;

/// Maximum nesting of returned tables. JSON decoders have the same limit.
const MAX_DEPTH: usize = 128;

/// Converts JSON to a Lua value. A null becomes nil, and numbers become doubles.
pub(super) fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
    Ok(match value {
        Value::Null => LuaValue::Nil,
        Value::Bool(value) => LuaValue::Boolean(*value),
        Value::Number(number) => LuaValue::Number(number.as_f64().unwrap_or_default()),
        Value::String(text) => LuaValue::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items.iter().filter(|item| !item.is_null()) {
                table.raw_push(to_lua(lua, item)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, field) in fields.iter().filter(|(_, field)| !field.is_null()) {
                table.raw_set(name.as_str(), to_lua(lua, field)?)?;
            }
            LuaValue::Table(table)
        }
    })
}

/// Converts a Lua value to JSON. An empty table becomes an empty list, because Lua does not distinguish empty lists
/// from empty objects.
pub(super) fn to_json(value: &LuaValue) -> Result<Value, ConvertError> {
    Reader::default().read(value, 0)
}

/// Returns the Lua name of a value's type.
pub(super) fn type_name(value: &LuaValue) -> &'static str {
    match value {
        LuaValue::Nil => "nil",
        LuaValue::Boolean(_) => "boolean",
        LuaValue::Integer(_) | LuaValue::Number(_) => "number",
        LuaValue::String(_) => "string",
        LuaValue::Table(_) => "table",
        LuaValue::Function(_) => "function",
        LuaValue::Thread(_) => "thread",
        _ => "userdata",
    }
}

/// The state of the conversion of one value to JSON.
#[derive(Debug, Default)]
struct Reader {
    /// The tables that were converted so far. As in Karmada, a table that occurs twice is an error. Otherwise a small
    /// script could return an object of unlimited size.
    visited: HashSet<*const c_void>,
}

impl Reader {
    fn read(&mut self, value: &LuaValue, depth: usize) -> Result<Value, ConvertError> {
        Ok(match value {
            LuaValue::Nil => Value::Null,
            LuaValue::Boolean(value) => Value::Bool(*value),
            LuaValue::Integer(number) => Value::Number(Number::from(*number)),
            LuaValue::Number(number) => Value::Number(json_number(*number)?),
            LuaValue::String(text) => Value::String(text.to_string_lossy()),
            LuaValue::Table(table) => self.read_table(table, depth + 1)?,
            other => return Err(ConvertError::Type(type_name(other))),
        })
    }

    fn read_table(&mut self, table: &Table, depth: usize) -> Result<Value, ConvertError> {
        if depth > MAX_DEPTH {
            return Err(ConvertError::Depth(MAX_DEPTH));
        }
        if !self.visited.insert(table.to_pointer()) {
            return Err(ConvertError::Repeated);
        }
        let (mut items, mut fields) = (Vec::new(), Map::new());
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, value) =
                pair.map_err(|error| ConvertError::Lua(super::first_line(&error)))?;
            match key {
                LuaValue::String(name) => {
                    fields.insert(name.to_string_lossy(), self.read(&value, depth)?);
                }
                LuaValue::Integer(index) => {
                    let index = usize::try_from(index).map_err(|_| ConvertError::Sparse)?;
                    items.push((index, self.read(&value, depth)?));
                }
                LuaValue::Number(_) => return Err(ConvertError::Sparse),
                _ => return Err(ConvertError::Keys),
            }
        }
        match (items.is_empty(), fields.is_empty()) {
            (false, false) => return Err(ConvertError::Keys),
            (true, false) => return Ok(Value::Object(fields)),
            (_, true) => {}
        }
        items.sort_unstable_by_key(|(index, _)| *index);
        if items
            .iter()
            .zip(1..)
            .any(|((index, _), place)| *index != place)
        {
            return Err(ConvertError::Sparse);
        }
        Ok(Value::Array(
            items.into_iter().map(|(_, item)| item).collect(),
        ))
    }
}

/// Converts a double to a JSON number. A whole number becomes an integer, as in the objects that Karmada decodes.
fn json_number(number: f64) -> Result<Number, ConvertError> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be within the range"
    )]
    if number.fract() == 0.0 && number.abs() < 9.0e18 {
        return Ok(Number::from(number as i64));
    }
    Number::from_f64(number).ok_or_else(|| ConvertError::Number(number.to_string()))
}
