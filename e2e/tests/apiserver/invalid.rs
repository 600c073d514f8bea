//! What built-in kinds may not be: hundreds of recorded answers, from probes to network policies. Each case is a fine
//! object with some values put into it; what is said of it is word for word what was recorded.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::server::server;

/// By what is wrong: a value, or already its type.
const RECORDED: [&str; 2] = [
    include_str!("data/invalid.json"),
    include_str!("data/types.json"),
];

#[derive(Deserialize, Default)]
struct Recorded {
    /// Fine objects by name, and where they are created.
    bases: Map<String, Value>,
    cases: Vec<Case>,
}

/// The name of an object, what is put into it where, and the code and message of the answer unless it is accepted.
#[derive(Deserialize)]
#[serde(untagged)]
enum Case {
    Refused(String, Map<String, Value>, u16, String),
    Accepted(String, Map<String, Value>),
}

/// One step of a pointer, into a list or an object.
fn step<'a>(place: &'a mut Value, name: &str) -> &'a mut Value {
    match name.parse::<usize>() {
        Ok(index) => &mut place[index],
        Err(_) => &mut place[name],
    }
}

/// Puts a value where a pointer leads, and makes the way there. Null takes away what is there.
fn put(object: &mut Value, pointer: &str, value: &Value) {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    let place = parent.split('/').skip(1).fold(object, step);
    if value.is_null() {
        place.as_object_mut().unwrap().remove(last);
    } else {
        *step(place, last) = value.clone();
    }
}

/// The same text for each try: a job speaks of its uid.
fn without_uids(text: &str) -> String {
    const LENGTH: usize = 36;
    let is_uid = |at: usize| {
        let part = text.get(at..at + LENGTH);
        part.is_some_and(|part| uuid::Uuid::try_parse(part).is_ok())
    };
    let mut rest = text.to_owned();
    for at in (0..text.len()).rev().filter(|at| is_uid(*at)) {
        rest.replace_range(at..at + LENGTH, "UID");
    }
    rest
}

#[tokio::test]
async fn built_in_kinds_are_refused_in_the_words_of_a_real_server() {
    let server = server().await;
    let mut recorded = Recorded::default();
    for text in RECORDED {
        let more: Recorded = serde_json::from_str(text).unwrap();
        recorded.bases.extend(more.bases);
        recorded.cases.extend(more.cases);
    }
    assert!(recorded.cases.len() > 1000, "{}", recorded.cases.len());
    let mut wrong = Vec::new();
    for case in &recorded.cases {
        let (base, changes, expected) = match case {
            Case::Refused(base, changes, code, message) => {
                (base, changes, (*code, Some(message.as_str())))
            }
            Case::Accepted(base, changes) => (base, changes, (201, None)),
        };
        let [path, object] = recorded.bases[base].as_array().unwrap().as_slice() else {
            panic!("{base}");
        };
        let mut object = object.clone();
        for (pointer, value) in changes {
            put(&mut object, pointer, value);
        }
        let path = format!("{}?dryRun=All", path.as_str().unwrap());
        let json = [("content-type", "application/json")];
        let answer = server.raw("POST", &path, &json, object.to_string()).await;
        let message = answer.json["message"].as_str().map(without_uids);
        let message = message.as_deref().filter(|_| answer.code >= 400);
        if (answer.code, message) != expected {
            let changes = Value::Object(changes.clone());
            let found = (answer.code, message);
            wrong.push(format!(
                "{base} {changes}:\n  expected {expected:?}\n  found    {found:?}"
            ));
        }
    }
    let (count, all) = (wrong.len(), recorded.cases.len());
    assert!(
        wrong.is_empty(),
        "{count} of {all} differ\n{}",
        wrong.join("\n")
    );
}
