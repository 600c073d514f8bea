//! The members of all gangs, and the state of each member.

use std::collections::{BTreeMap, HashMap};

use berth_api::BindingKey;

use super::membership::GangName;

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemberState {
    /// The member has no decision, or its last decision was reverted.
    Idle,
    /// The member waits until more members exist.
    Gated,
    /// The member fitted into no cluster in its last scheduling cycle.
    Failed,
    /// The member is decided, and the decision is not stored yet.
    Reserved,
    /// The clusters are stored in the binding.
    Placed,
}

/// A gang with its members.
#[derive(Debug, Default)]
pub(super) struct Gang {
    members: BTreeMap<BindingKey, MemberState>,
}

impl Gang {
    /// Returns the number of existing members.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the members in these states.
    pub(super) fn of(&self, states: &[MemberState]) -> Vec<BindingKey> {
        let members = self.members.iter();
        members
            .filter(|(_, state)| states.contains(state))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Returns the number of members with decided or stored clusters.
    pub(super) fn decided(&self) -> usize {
        self.of(&[MemberState::Reserved, MemberState::Placed]).len()
    }

    /// Returns a failed member if fewer than `min` members of the gang have not failed.
    pub(super) fn blocking_member(&self, min: usize) -> Option<BindingKey> {
        let failed = self.of(&[MemberState::Failed]);
        if self.len() - failed.len() < min {
            failed.into_iter().next()
        } else {
            None
        }
    }
}

/// All gangs.
#[derive(Debug, Default)]
pub(super) struct GangState {
    gangs: HashMap<GangName, Gang>,
    /// The gang of each member, with the minimum number of members.
    of: HashMap<BindingKey, (GangName, usize)>,
}

impl GangState {
    /// Returns the gang of a binding and its minimum number of members.
    pub(super) fn gang_of(&self, key: &BindingKey) -> Option<(&GangName, &Gang, usize)> {
        let (name, min) = self.of.get(key)?;
        Some((name, self.gangs.get(name)?, *min))
    }

    /// Adds or updates a member. If the member is new, returns the gated members of the gang, because they may proceed
    /// now.
    pub(super) fn add(
        &mut self,
        key: &BindingKey,
        name: GangName,
        min: usize,
        placed: bool,
    ) -> Vec<BindingKey> {
        if self.of.get(key).is_some_and(|(before, _)| *before != name) {
            self.remove(key);
        }
        self.of.insert(key.clone(), (name.clone(), min));
        let gang = self.gangs.entry(name).or_default();
        let before = gang.members.get(key).copied();
        let state = match before {
            _ if placed => MemberState::Placed,
            None | Some(MemberState::Placed) => MemberState::Idle,
            Some(before) => before,
        };
        gang.members.insert(key.clone(), state);
        if before.is_some() {
            return Vec::new();
        }
        gang.of(&[MemberState::Gated])
    }

    /// Removes a binding.
    pub(super) fn remove(&mut self, key: &BindingKey) {
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

    /// Returns the state of a member.
    pub(super) fn state_of(&self, key: &BindingKey) -> Option<MemberState> {
        let (name, _) = self.of.get(key)?;
        self.gangs.get(name)?.members.get(key).copied()
    }

    /// Sets the state of a member, unless it is placed.
    pub(super) fn set_state(&mut self, key: &BindingKey, state: MemberState) {
        let member = self.of.get(key).and_then(|(name, _)| {
            let gang = self.gangs.get_mut(name)?;
            gang.members.get_mut(key)
        });
        if let Some(member) = member
            && *member != MemberState::Placed
        {
            *member = state;
        }
    }
}
