//! Test of recorded error responses to invalid built-in objects. Each case sets values in a valid object, creates the
//! object in a dry run, and compares the status code and the field and reason of each cause with the recorded response.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::harness::content_type::JSON;
use crate::harness::server::server;

/// Recorded cases with invalid values, and recorded cases with values of the wrong type.
const RECORDED: [&str; 2] = [
    include_str!("data/invalid.json"),
    include_str!("data/types.json"),
];

#[derive(Deserialize, Default)]
struct Recorded {
    /// Valid objects with the paths of their collections. The key is the name by which a case refers to the object.
    bases: Map<String, Value>,
    cases: Vec<Case>,
}

/// The name of a valid object, and the values to set, keyed by JSON pointer. If the server must refuse the object, the
/// case also contains the status code and the causes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Case {
    Refused(String, Map<String, Value>, u16, Vec<String>),
    Accepted(String, Map<String, Value>),
}

/// Returns the list item with this index, or the field with this name.
fn step<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    match name.parse::<usize>() {
        Ok(index) => &mut value[index],
        Err(_) => &mut value[name],
    }
}

/// Sets the value at a pointer, and creates missing parents. Null removes the value.
fn put(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let container = parent.split('/').skip(1).fold(object, step);
    if value.is_null() {
        container.as_object_mut().unwrap().remove(last);
    } else {
        *step(container, last) = value.clone();
    }
}

/// Checks that the server responds to each case with the recorded status code and causes.
#[tokio::test]
async fn invalid_objects_are_refused_with_the_recorded_causes() {
    let server = server().await;
    let mut recorded = Recorded::default();
    for text in RECORDED {
        let more: Recorded = serde_json::from_str(text).unwrap();
        recorded.bases.extend(more.bases);
        recorded.cases.extend(more.cases);
    }
    assert!(recorded.cases.len() > 1000, "{}", recorded.cases.len());
    let mut failures = Vec::new();
    for case in &recorded.cases {
        let (base, changes, expected) = match case {
            Case::Refused(base, changes, code, causes) => (base, changes, (*code, causes.clone())),
            Case::Accepted(base, changes) => (base, changes, (201, Vec::new())),
        };
        let [path, object] = recorded.bases[base].as_array().unwrap().as_slice() else {
            panic!("{base}");
        };
        let mut object = object.clone();
        for (pointer, value) in changes {
            put(&mut object, pointer, value);
        }
        let path = format!("{}?dryRun=All", path.as_str().unwrap());
        let response = server.raw("POST", &path, &[JSON], object.to_string()).await;
        let found = (response.code, response.causes());
        if found != expected {
            let changes = Value::Object(changes.clone());
            failures.push(format!(
                "{base} {changes}:\n  expected {expected:?}\n  found    {found:?} {}",
                response.text
            ));
        }
    }
    let (count, all) = (failures.len(), recorded.cases.len());
    assert!(
        failures.is_empty(),
        "{count} of {all} differ\n{}",
        failures.join("\n")
    );
}
