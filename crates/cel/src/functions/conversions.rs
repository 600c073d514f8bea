//! Conversions between types that the CEL crates lack or implement differently from Kubernetes.

use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::extractors::This;
use kube_cel::cel::{self, Context, ExecutionError, Value};

use crate::tree::{call, ident};

type Converted = Result<Value, ExecutionError>;

thread_local! {
    /// A context with the functions of the CEL crates only.
    static CRATES: Context<'static> = Context::default().with_all();
}

pub(super) fn add(context: &mut Context<'_>) {
    context.add_function("dyn", |value: Value| -> Converted { Ok(value) });
    context.add_function("bool", boolean);
    context.add_function("bytes", bytes);
    context.add_function("size", |This(value): This<Value>| size(&value));
    context.add_function("duration", |value: Value| match &value {
        Value::String(text) => cel::functions::duration(text.clone())
            .map_err(|_| conversion_error("duration", "string", "google.protobuf.Duration")),
        Value::Duration(_) => Ok(value),
        Value::Int(_) => Err(conversion_error(
            "duration",
            "int",
            "google.protobuf.Duration",
        )),
        _ => Err(ExecutionError::NoSuchOverload),
    });
    context.add_function("timestamp", timestamp);
    context.add_function("int", |value: Value| match &value {
        Value::Int(_) => Ok(value),
        Value::Timestamp(time) => Ok(Value::Int(time.timestamp())),
        Value::Duration(time) => time
            .num_nanoseconds()
            .map(Value::Int)
            .ok_or(ExecutionError::NoSuchOverload),
        Value::String(text) => text
            .parse()
            .map(Value::Int)
            .map_err(|_| conversion_error("int", "string", "int")),
        _ => with_crates("int", value)
            .map_err(|_| ExecutionError::function_error("int", "integer overflow")),
    });
    context.add_function("uint", |value: Value| match &value {
        Value::UInt(_) => Ok(value),
        // The text of an unsigned integer has no sign.
        Value::String(text) if !text.starts_with('+') => text
            .parse()
            .map(Value::UInt)
            .map_err(|_| conversion_error("uint", "string", "uint")),
        Value::String(_) => Err(conversion_error("uint", "string", "uint")),
        _ => with_crates("uint", value)
            .map_err(|_| ExecutionError::function_error("uint", "unsigned integer overflow")),
    });
    context.add_function("double", |value: Value| match &value {
        Value::String(_) => {
            with_crates("double", value).map_err(|_| conversion_error("double", "string", "double"))
        }
        _ => with_crates("double", value),
    });
    context.add_function("string", |value: Value| match &value {
        Value::String(_) => Ok(value),
        Value::Int(number) => Ok(text(number.to_string())),
        Value::Bool(truth) => Ok(text(truth.to_string())),
        Value::Duration(time) => {
            let (seconds, rest) = (time.num_seconds(), time.subsec_nanos().unsigned_abs());
            let sign = if seconds == 0 && time.subsec_nanos() < 0 {
                "-"
            } else {
                ""
            };
            let fraction = format!(".{rest:09}");
            let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
            Ok(text(format!("{sign}{seconds}{fraction}s")))
        }
        Value::Timestamp(time) => Ok(text(time.to_utc().to_rfc3339().replace("+00:00", "Z"))),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).map(text).map_err(|_| {
            let message = "invalid UTF-8 in bytes, cannot convert to string";
            ExecutionError::function_error("string", message)
        }),
        _ => with_crates("string", value),
    });
}

/// Returns the error for a value that cannot be converted.
fn conversion_error(function: &str, from: &str, to: &str) -> ExecutionError {
    let message = format!("type conversion error from '{from}' to '{to}'");
    ExecutionError::function_error(function, message)
}

/// Calls a function of the CEL crates with one argument.
fn with_crates(function: &str, value: Value) -> Converted {
    const ARGUMENT: &str = "@argument";
    CRATES.with(|crates| {
        let mut scope = crates.new_inner_scope();
        scope.add_variable_from_value(ARGUMENT, value);
        Value::resolve(&call(function, vec![ident(ARGUMENT)]), &scope)
    })
}

fn text(text: String) -> Value {
    Value::String(Arc::new(text))
}

fn boolean(value: Value) -> Converted {
    let Value::String(written) = &value else {
        return match value {
            Value::Bool(_) => Ok(value),
            _ => Err(ExecutionError::NoSuchOverload),
        };
    };
    match written.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
        _ => Err(conversion_error("bool", "string", "bool")),
    }
}

fn bytes(value: Value) -> Converted {
    match &value {
        Value::String(text) => Ok(Value::Bytes(Arc::new(text.as_bytes().to_vec()))),
        Value::Bytes(_) => Ok(value),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

/// Returns the number of characters of a text, bytes of a byte string, or items of a list or map.
fn size(value: &Value) -> Converted {
    let size = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.map.len(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}

/// Converts a value to a timestamp in UTC. An integer is the number of seconds since 1970.
///
/// # Errors
/// If the value is no time.
pub fn timestamp(value: Value) -> Converted {
    match &value {
        Value::String(text) => match cel::functions::timestamp(text.clone()) {
            Ok(Value::Timestamp(time)) => Ok(Value::Timestamp(time.to_utc().fixed_offset())),
            _ => Err(conversion_error(
                "timestamp",
                "string",
                "google.protobuf.Timestamp",
            )),
        },
        Value::Timestamp(_) => Ok(value),
        Value::Int(seconds) => {
            let beginning = cel::functions::timestamp(Arc::new("1970-01-01T00:00:00Z".to_owned()))?;
            let seconds = cel::functions::duration(Arc::new(format!("{seconds}s")))?;
            beginning + seconds
        }
        _ => Err(ExecutionError::NoSuchOverload),
    }
}
