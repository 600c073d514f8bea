//! The selectors of a device class: CEL expressions about one device, as in Kubernetes.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use berth_cel::types::{CelBool, CelInt, CelList, CelMap, CelMapKey, CelString};
use berth_cel::{
    Depth, Limits, Program, Scope, Val, Value, Variable, Variables, add_empty_entries,
    on_large_stack, parse_with_bindings, quantity, semver,
};
use k8s_openapi::api::resource::v1::DeviceClass;

use super::attributes::{Attribute, Facts};

/// The variable for the device.
const DEVICE: &str = "device";
const ATTRIBUTES: &str = "attributes";
const CAPACITY: &str = "capacity";
/// Maximum length of an expression, in bytes. API servers refuse longer ones.
const MAX_LENGTH: usize = 10 << 10;
/// Maximum number of loop steps for one device. Kubernetes' cost limit of a million allows fewer steps.
const MAX_STEPS: u64 = 100_000;
/// Maximum size of the values that the selectors create for one device, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN: usize = 1 << 18;
/// Maximum time of the selectors of a class for the devices of a slice.
const MAX_TIME: Duration = Duration::from_millis(200);

/// The result of the selectors of a class for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The device belongs to the class.
    Matches,
    /// The device does not belong to the class.
    Differs,
    /// The selectors cannot be evaluated. kube-scheduler then allocates no device of the class on the node.
    Fails,
}

/// The selectors of a class. A device must satisfy all of them.
pub(super) struct Selectors {
    /// The error of the first invalid selector.
    programs: Result<Vec<Program>, String>,
    depth: Option<Depth>,
}

impl fmt::Debug for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let programs = self.programs.as_ref().map(Vec::len);
        f.debug_tuple("Selectors").field(&programs).finish()
    }
}

impl Selectors {
    /// Compiles the selectors of a class.
    pub(super) fn of(class: &DeviceClass) -> Self {
        let sources: Option<Vec<&str>> = class
            .spec
            .selectors
            .iter()
            .flatten()
            .map(|selector| Some(selector.cel.as_ref()?.expression.as_str()))
            .collect();
        let Some(sources) = sources else {
            return Self::invalid("a selector has an unknown type".to_owned());
        };
        if sources.is_empty() {
            return Self {
                programs: Ok(Vec::new()),
                depth: None,
            };
        }
        let depths: Result<Vec<Depth>, String> = sources
            .iter()
            .map(|source| {
                if source.len() > MAX_LENGTH {
                    return Err(format!("a selector is longer than {MAX_LENGTH} bytes"));
                }
                Depth::measure(source)
            })
            .collect();
        let compile_all = || sources.iter().map(|source| compile(source)).collect();
        // The parser is recursive, so nested expressions need a large stack.
        let programs = depths.and_then(|depths| {
            let compiled: Result<Vec<Program>, String> =
                on_large_stack(compile_all).ok_or("the parser failed")?;
            compiled.map(|programs| (programs, depths.into_iter().max()))
        });
        match programs {
            Ok((programs, depth)) => Self {
                programs: Ok(programs),
                depth,
            },
            Err(error) => Self::invalid(error),
        }
    }

    fn invalid(error: String) -> Self {
        Self {
            programs: Err(error),
            depth: None,
        }
    }

    /// Returns the error of the first invalid selector.
    pub(super) fn error(&self) -> Option<&str> {
        self.programs.as_ref().err().map(String::as_str)
    }

    /// Returns the verdicts about devices of a driver.
    pub(super) fn verdicts<'a>(
        &self,
        driver: &str,
        devices: impl ExactSizeIterator<Item = &'a Facts> + Send,
    ) -> Vec<Verdict> {
        let count = devices.len();
        let Ok(programs) = &self.programs else {
            return vec![Verdict::Fails; count];
        };
        let Some(depth) = self.depth else {
            return vec![Verdict::Matches; count];
        };
        let deadline = Instant::now() + MAX_TIME;
        let all = || {
            devices
                .map(|device| verdict(programs, driver, device, deadline))
                .collect()
        };
        depth
            .with_stack(all)
            .unwrap_or_else(|_| vec![Verdict::Fails; count])
    }
}

fn compile(source: &str) -> Result<Program, String> {
    let mut root = parse_with_bindings(source).map_err(|error| error.to_string())?;
    add_empty_entries(&mut root, DEVICE, &[ATTRIBUTES, CAPACITY]);
    Program::compile(root, &[Variable::plain(DEVICE)], MAX_PATTERN)
        .map_err(|error| error.to_string())
}

fn verdict(programs: &[Program], driver: &str, device: &Facts, deadline: Instant) -> Verdict {
    let Ok(value) = value(driver, device) else {
        return Verdict::Fails;
    };
    let scope = Scope::new(Variables::from([(DEVICE.to_owned(), value)]));
    let mut limits = Limits {
        steps: MAX_STEPS,
        bytes: MAX_BYTES,
        pattern: MAX_PATTERN,
        deadline,
    };
    for program in programs {
        match program.run(&scope, &mut limits) {
            Ok(Value::Bool(true)) => {}
            Ok(Value::Bool(false)) => return Verdict::Differs,
            Ok(_) | Err(_) => return Verdict::Fails,
        }
    }
    Verdict::Matches
}

type Entries = HashMap<CelMapKey, Box<dyn Val>>;

/// Returns the value of the variable `device`.
fn value(driver: &str, device: &Facts) -> Result<Box<dyn Val>, String> {
    let (mut attributes, mut capacity) = (HashMap::new(), HashMap::new());
    for (name, attribute) in &device.attributes {
        insert(&mut attributes, driver, name, attribute_value(attribute)?);
    }
    for (name, amount) in &device.capacity {
        insert(&mut capacity, driver, name, quantity(amount)?);
    }
    let sharing = CelBool::from(device.allows_multiple_allocations);
    let fields: [(&str, Box<dyn Val>); 4] = [
        ("driver", Box::new(CelString::from(driver))),
        ("allowMultipleAllocations", Box::new(sharing)),
        (ATTRIBUTES, domains(attributes)),
        (CAPACITY, domains(capacity)),
    ];
    let fields = fields.into_iter().map(|(name, value)| (name.into(), value));
    Ok(Box::new(CelMap::from(fields.collect::<Entries>())))
}

/// Adds a value to the map of its domain. A name without a domain has the domain of the driver.
fn insert<'a>(
    domains: &mut HashMap<&'a str, Entries>,
    driver: &'a str,
    name: &'a str,
    value: Box<dyn Val>,
) {
    let (domain, name) = name.split_once('/').unwrap_or((driver, name));
    domains
        .entry(domain)
        .or_default()
        .insert(name.into(), value);
}

fn domains(maps: HashMap<&str, Entries>) -> Box<dyn Val> {
    let maps = maps.into_iter().map(|(domain, entries)| {
        let map: Box<dyn Val> = Box::new(CelMap::from(entries));
        (domain.into(), map)
    });
    Box::new(CelMap::from(maps.collect::<Entries>()))
}

fn attribute_value(attribute: &Attribute) -> Result<Box<dyn Val>, String> {
    Ok(match attribute {
        Attribute::Bool(value) => Box::new(CelBool::from(*value)),
        Attribute::Int(value) => Box::new(CelInt::from(*value)),
        Attribute::Text(value) => Box::new(CelString::from(&**value)),
        Attribute::Version(value) => semver(value)?,
        Attribute::List(values) => {
            let values = values.iter().map(attribute_value);
            Box::new(CelList::from(values.collect::<Result<Vec<_>, _>>()?))
        }
        Attribute::Unknown => return Err("an attribute has an unknown type".to_owned()),
    })
}
