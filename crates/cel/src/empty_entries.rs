//! Maps that have an empty map for each missing key. Kubernetes uses such maps for the attributes of devices.

use kube_cel::cel::IdedExpr;
use kube_cel::cel::common::ast::{Expr, LiteralValue, MapExpr, operators};

use super::tree::{call, children_mut, node};

/// Rewrites a parsed expression so that the maps `variable.field` return an empty map for each key that they lack. The
/// operator `in` still reports only the keys of the maps.
pub fn add_empty_entries(expression: &mut IdedExpr, variable: &str, fields: &[&str]) {
    for child in children_mut(&mut expression.expr) {
        add_empty_entries(child, variable, fields);
    }
    let is_map = |of: &IdedExpr| {
        matches!(&of.expr, Expr::Select(select)
        if fields.contains(&select.field.as_str()) && matches!(&select.operand.expr, Expr::Ident(name) if name == variable))
    };
    let (map, key) = match &expression.expr {
        Expr::Select(select) if !select.test && is_map(&select.operand) => {
            let name = LiteralValue::String(select.field.as_str().into());
            ((*select.operand).clone(), node(Expr::Literal(name)))
        }
        Expr::Call(index) if index.func_name == operators::INDEX => match index.args.as_slice() {
            [map, key] if is_map(map) => (map.clone(), key.clone()),
            _ => return,
        },
        _ => return,
    };
    let has_key = call(operators::IN, vec![key.clone(), map.clone()]);
    let entry = call(operators::INDEX, vec![map, key]);
    let empty = node(Expr::Map(MapExpr {
        entries: Vec::new(),
    }));
    *expression = call(operators::CONDITIONAL, vec![has_key, entry, empty]);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use kube_cel::cel::Value;
    use kube_cel::cel::common::types::{CelInt, CelMap};
    use kube_cel::cel::common::value::Val;

    use super::*;
    use crate::{Limits, Program, Scope, Variable, Variables, parse_with_bindings};

    fn map(name: &str, value: Box<dyn Val>) -> Box<dyn Val> {
        Box::new(CelMap::from(std::collections::HashMap::from([(
            name.into(),
            value,
        )])))
    }

    #[test]
    fn missing_keys_have_an_empty_map() {
        for (source, expected) in [
            ("of.maps['a'].x == 1", Some(true)),
            ("of.maps.a.x == 1", Some(true)),
            ("'x' in of.maps['a']", Some(true)),
            ("'x' in of.maps['b']", Some(false)),
            ("has(of.maps['b'].x)", Some(false)),
            ("of.maps['b'].?x.orValue(3) == 3", Some(true)),
            (
                "cel.bind(a, of.maps['a'], has(a.x) && a.x == 1)",
                Some(true),
            ),
            ("['a', 'b'].all(key, 'x' in of.maps[key])", Some(false)),
            ("'b' in of.maps", Some(false)),
            ("of.maps['b'].x == 1", None),
            ("of.others['b'].x == 1", None),
        ] {
            let mut root = parse_with_bindings(source).unwrap();
            add_empty_entries(&mut root, "of", &["maps"]);
            let program = Program::compile(root, &[Variable::plain("of")], 1 << 20).unwrap();
            let maps = map("a", map("x", Box::new(CelInt::from(1))));
            let variables = Variables::from([("of".to_owned(), map("maps", maps))]);
            let mut limits = Limits {
                steps: 100,
                bytes: 1 << 20,
                pattern: 1 << 20,
                deadline: Instant::now() + Duration::from_mins(1),
            };
            let found = program.run(&Scope::new(variables), &mut limits).ok();
            assert_eq!(found, expected.map(Value::Bool), "{source}");
        }
    }
}
