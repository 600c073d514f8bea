//! Which types fit where, with what is found out on the way about those that are not known yet.

use std::sync::Arc;

use super::super::types::CelType;

/// What is known of the unknown types.
#[derive(Debug, Default)]
pub(super) struct Known<'a> {
    found: Vec<Option<CelType<'a>>>,
    /// What was known before, to go back to it.
    undo: Vec<(usize, Option<CelType<'a>>)>,
}

impl<'a> Known<'a> {
    /// A type that is not known yet.
    pub(super) fn fresh(&mut self) -> CelType<'a> {
        self.found.push(None);
        CelType::Variable(self.found.len() - 1)
    }

    /// Whether values of `from` can be used as values of `to`. If not, nothing is learned.
    pub(super) fn fits(&mut self, from: &CelType<'a>, to: &CelType<'a>) -> bool {
        self.attempt(|known| known.assign(from, to))
    }

    /// Whether each of these fits.
    pub(super) fn all_fit(&mut self, from: &[CelType<'a>], to: &[CelType<'a>]) -> bool {
        from.len() == to.len()
            && self.attempt(|known| from.iter().zip(to).all(|(f, t)| known.assign(f, t)))
    }

    fn attempt(&mut self, tried: impl FnOnce(&mut Self) -> bool) -> bool {
        let before = self.undo.len();
        let fits = tried(self);
        if !fits {
            for (variable, was) in self.undo.drain(before..).rev() {
                self.found[variable] = was;
            }
        }
        if before == 0 {
            self.undo.clear();
        }
        fits
    }

    fn learn(&mut self, variable: usize, found: CelType<'a>) {
        let was = self.found[variable].replace(found);
        self.undo.push((variable, was));
    }

    fn assign(&mut self, from: &CelType<'a>, to: &CelType<'a>) -> bool {
        if let CelType::Variable(variable) = to {
            match self.stands_for(from, *variable) {
                Standing::Fits => return true,
                Standing::Otherwise => return false,
                Standing::Circular => {}
            }
        }
        if let CelType::Variable(variable) = from {
            return matches!(self.stands_for(to, *variable), Standing::Fits);
        }
        if is_open(from) || is_open(to) {
            return true;
        }
        match (from, to) {
            (CelType::Null, other) | (other, CelType::Null) => is_nullable(other),
            (CelType::List(a, _), CelType::List(b, _))
            | (CelType::Optional(a), CelType::Optional(b)) => self.assign(a, b),
            (CelType::Map(a, b), CelType::Map(c, d)) => self.assign(a, c) && self.assign(b, d),
            (CelType::Type(_), CelType::Type(_)) => true,
            _ => from.is(to),
        }
    }

    /// Whether the unknown type can be `given`, which it is from now on if nothing else was known.
    fn stands_for(&mut self, given: &CelType<'a>, variable: usize) -> Standing {
        if given.is(&CelType::Variable(variable)) {
            return Standing::Fits;
        }
        if let Some(found) = self.found[variable].clone() {
            if given.is(&found) {
                return Standing::Fits;
            }
            if !self.assign(given, &found) {
                return Standing::Otherwise;
            }
            let general = most_general(given, &found);
            if !self.occurs(variable, &general) {
                self.learn(variable, general);
            }
            return Standing::Fits;
        }
        if self.occurs(variable, given) {
            return Standing::Circular;
        }
        self.learn(variable, given.clone());
        Standing::Fits
    }

    /// Whether the unknown type is within another one.
    fn occurs(&self, variable: usize, within: &CelType<'a>) -> bool {
        match within {
            CelType::Variable(other) => {
                *other == variable
                    || self.found[*other]
                        .as_ref()
                        .is_some_and(|found| self.occurs(variable, found))
            }
            CelType::List(of, _) | CelType::Optional(of) | CelType::Type(Some(of)) => {
                self.occurs(variable, of)
            }
            CelType::Map(key, value) => self.occurs(variable, key) || self.occurs(variable, value),
            _ => false,
        }
    }

    /// The type with all that is known put in.
    pub(super) fn resolved(&self, of: &CelType<'a>) -> CelType<'a> {
        self.replaced(of, false)
    }

    /// The same, where what is not known can be anything.
    pub(super) fn settled(&self, of: &CelType<'a>) -> CelType<'a> {
        self.replaced(of, true)
    }

    fn replaced(&self, of: &CelType<'a>, settle: bool) -> CelType<'a> {
        let inner = |of: &CelType<'a>| Arc::new(self.replaced(of, settle));
        match of {
            CelType::Variable(variable) => match &self.found[*variable] {
                Some(found) => self.replaced(found, settle),
                None if settle => CelType::Dyn,
                None => of.clone(),
            },
            CelType::List(of, joined) => CelType::List(inner(of), joined.clone()),
            CelType::Optional(of) => CelType::Optional(inner(of)),
            CelType::Type(Some(of)) => CelType::Type(Some(inner(of))),
            CelType::Map(key, value) => CelType::Map(inner(key), inner(value)),
            _ => of.clone(),
        }
    }
}

enum Standing {
    Fits,
    Otherwise,
    /// The type would be within itself.
    Circular,
}

fn is_open(of: &CelType<'_>) -> bool {
    matches!(of, CelType::Dyn | CelType::Error)
}

fn is_nullable(of: &CelType<'_>) -> bool {
    matches!(
        of,
        CelType::Null
            | CelType::Object(_)
            | CelType::Named(_)
            | CelType::Optional(_)
            | CelType::Duration
            | CelType::Timestamp
    )
}

/// The more general of two types that fit together.
pub(super) fn most_general<'a>(a: &CelType<'a>, b: &CelType<'a>) -> CelType<'a> {
    if is_as_general(a, b) {
        a.clone()
    } else {
        b.clone()
    }
}

fn is_as_general(a: &CelType<'_>, b: &CelType<'_>) -> bool {
    match (a, b) {
        (CelType::Dyn | CelType::Variable(_), _) | (CelType::Type(_), CelType::Type(_)) => true,
        (_, CelType::Dyn | CelType::Variable(_)) => false,
        (CelType::List(a, _), CelType::List(b, _))
        | (CelType::Optional(a), CelType::Optional(b)) => is_as_general(a, b),
        (CelType::Map(a, b), CelType::Map(c, d)) => is_as_general(a, c) && is_as_general(b, d),
        _ => a.is(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_types_are_found_out() {
        let mut known = Known::default();
        let (a, b) = (known.fresh(), known.fresh());
        assert!(known.fits(&CelType::Int, &a));
        assert!(!known.fits(&CelType::String, &a));
        assert!(known.fits(&CelType::list(a.clone()), &CelType::list(b.clone())));
        assert!(known.settled(&b).is(&CelType::Int));
        let c = known.fresh();
        assert!(!known.fits(&CelType::list(c.clone()), &c));
        assert!(
            known
                .settled(&CelType::list(c))
                .is(&CelType::list(CelType::Dyn))
        );
    }

    #[test]
    fn what_did_not_fit_leaves_no_trace() {
        let mut known = Known::default();
        let a = known.fresh();
        assert!(!known.all_fit(&[CelType::Int, CelType::String], &[a.clone(), a.clone()]));
        assert!(known.fits(&CelType::Bytes, &a));
    }

    #[test]
    fn null_fits_what_may_be_absent() {
        let mut known = Known::default();
        assert!(known.fits(&CelType::Null, &CelType::Duration));
        assert!(known.fits(&CelType::Null, &CelType::Dyn));
        assert!(!known.fits(&CelType::Null, &CelType::String));
    }
}
