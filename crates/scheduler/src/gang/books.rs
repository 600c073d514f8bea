//! Who is in which gang, and how far each member is.

use std::collections::{BTreeMap, HashMap};

use super::membership::GangName;
use crate::binding::BindingKey;

/// How far a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing is known against it.
    Idle,
    /// It waits for more members to exist.
    Gated,
    /// It fitted nowhere when it was tried last.
    Failed,
    /// Its clusters are decided and not stored yet.
    Reserved,
    /// Its clusters are stored.
    Placed,
}

/// A gang.
#[derive(Debug, Default)]
pub(super) struct Gang {
    members: BTreeMap<BindingKey, Standing>,
}

impl Gang {
    /// How many members exist.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// The members of these standings.
    pub(super) fn of(&self, standings: &[Standing]) -> Vec<BindingKey> {
        let members = self.members.iter();
        members
            .filter(|(_, standing)| standings.contains(standing))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// How many members have their place, stored or not.
    pub(super) fn decided(&self) -> usize {
        self.of(&[Standing::Reserved, Standing::Placed]).len()
    }

    /// A member that stands in the way of all, where so many are needed.
    pub(super) fn obstacle(&self, min: usize) -> Option<BindingKey> {
        let failed = self.of(&[Standing::Failed]);
        if self.len() - failed.len() < min {
            failed.into_iter().next()
        } else {
            None
        }
    }
}

/// All gangs.
#[derive(Debug, Default)]
pub(super) struct Books {
    gangs: HashMap<GangName, Gang>,
    of: HashMap<BindingKey, (GangName, usize)>,
}

impl Books {
    /// The gang of a binding, and how many members it needs.
    pub(super) fn gang_of(&self, key: &BindingKey) -> Option<(&GangName, &Gang, usize)> {
        let (name, min) = self.of.get(key)?;
        Some((name, self.gangs.get(name)?, *min))
    }

    /// Enters a member. Returns who may be helped by it: those that waited for members to exist.
    pub(super) fn enter(
        &mut self,
        key: &BindingKey,
        name: GangName,
        min: usize,
        placed: bool,
    ) -> Vec<BindingKey> {
        if self.of.get(key).is_some_and(|(before, _)| *before != name) {
            self.strike(key);
        }
        self.of.insert(key.clone(), (name.clone(), min));
        let gang = self.gangs.entry(name).or_default();
        let before = gang.members.get(key).copied();
        let standing = match before {
            _ if placed => Standing::Placed,
            None | Some(Standing::Placed) => Standing::Idle,
            Some(before) => before,
        };
        gang.members.insert(key.clone(), standing);
        if before.is_some() {
            return Vec::new();
        }
        gang.of(&[Standing::Gated])
    }

    /// Strikes a binding out.
    pub(super) fn strike(&mut self, key: &BindingKey) {
        let Some((name, _)) = self.of.remove(key) else {
            return;
        };
        if let Some(gang) = self.gangs.get_mut(&name) {
            gang.members.remove(key);
            if gang.members.is_empty() {
                self.gangs.remove(&name);
            }
        }
    }

    /// How far a member is.
    pub(super) fn standing(&self, key: &BindingKey) -> Option<Standing> {
        let (name, _) = self.of.get(key)?;
        self.gangs.get(name)?.members.get(key).copied()
    }

    /// A member has come so far, unless it is placed.
    pub(super) fn comes_to(&mut self, key: &BindingKey, standing: Standing) {
        let member = self.of.get(key).and_then(|(name, _)| {
            let gang = self.gangs.get_mut(name)?;
            gang.members.get_mut(key)
        });
        if let Some(member) = member
            && *member != Standing::Placed
        {
            *member = standing;
        }
    }
}
