//! Functions that cost more than reading their arguments: their results are larger, or they compare all items with each
//! other. The budget is charged before the CEL crates run them.

use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::{Context, ExecutionError, Value};

use super::conversions::call_crates;
use super::spend_product;
use crate::cel::budget;

pub(super) fn add(context: &mut Context<'_>) {
    context.add_function(
        "replace",
        |This(text): This<Value>, Arguments(args): Arguments| {
            if let (Value::String(text), [Value::String(from), Value::String(to), ..]) =
                (&text, args.as_slice())
            {
                spend_times(text.matches(from.as_str()).count(), to.len())?;
            }
            call_crates("replace", Some(text), args.to_vec())
        },
    );
    context.add_function(
        "join",
        |This(list): This<Value>, Arguments(args): Arguments| {
            if let (Value::List(list), [Value::String(separator)]) = (&list, args.as_slice()) {
                spend_times(list.len(), separator.len())?;
            }
            call_crates("join", Some(list), args.to_vec())
        },
    );
    context.add_function("distinct", |This(list): This<Value>| {
        spend_product(&list, &list)?;
        call_crates("distinct", Some(list), Vec::new())
    });
    for name in ["sets.contains", "sets.equivalent", "sets.intersects"] {
        context.add_function(name, move |a: Value, b: Value| {
            spend_product(&a, &b)?;
            call_crates(name, None, vec![a, b])
        });
    }
}

fn spend_times(times: usize, length: usize) -> Result<(), ExecutionError> {
    budget::spend(u64::try_from(times.saturating_mul(length)).unwrap_or(u64::MAX))
}
