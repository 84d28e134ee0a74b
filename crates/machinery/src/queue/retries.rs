//! How many failures are retried in which time: the tokens of all keys (WQ-03), for which namespaces take turns (B-28).
//!
//! ```text
//!   a retry --(a token is there)-----------------------------------------> may go
//!      |  \--(its namespace is quiet, the reserve has a token: one is owed)---^
//!      |                                                                   |
//!      +--> line of its namespace --(turns, as tokens come: 10 a second)---+
//! ```
//!
//! In Kubernetes a retry takes its token ahead of time: a namespace with 50,000 keys that fail books the next 83
//! minutes, and the first retry of any other namespace comes after that. Here nothing is booked: who waits is given a
//! token when there is one, and namespaces take turns. A namespace that has hardly retried lately does not even wait
//! for its turn, as long as the reserve lasts.

use std::hash::Hash;
use std::time::Duration;

use muster_objects::Moment;

use super::slots::Slot;
use super::turns::Turns;
use crate::hash::FixedMap;
use crate::rate::TokenBucket;

/// A token comes in this time, for all namespaces together (WQ-03).
const INTERVAL: Duration = Duration::from_millis(100);
/// So many tokens are there at first, and after a pause (WQ-03).
const BURST: u32 = 100;
/// A namespace is quiet while it has not used up a bucket of so many retries ...
const OWN_BURST: u32 = 5;
/// ... that gains one in this time.
const OWN_INTERVAL: Duration = Duration::from_secs(1);
/// So many retries of quiet namespaces can go before the tokens that they are charged with have come.
const RESERVE: u32 = 10;
/// So long it takes until the reserve has gained one. A tenth of all tokens: the other namespaces keep the rest.
const RESERVE_INTERVAL: Duration = Duration::from_secs(1);

/// The tokens, and who waits for one.
#[derive(Debug)]
pub(super) struct Retries<N> {
    /// The tokens of all.
    tokens: TokenBucket,
    reserve: TokenBucket,
    /// The buckets of namespaces that have retried lately: those that are not full.
    own: FixedMap<N, TokenBucket>,
    /// At how many of them those are dropped that are full again.
    sweep_at: usize,
    waiting: Turns<N, Waiting>,
}

/// A retry that waits for its token.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) key: Slot,
    /// When the key's own backoff is over.
    pub(super) until: Moment,
    /// When both will be over, if no other namespace comes to wait.
    pub(super) expected: Moment,
}

impl<N> Default for Retries<N> {
    fn default() -> Self {
        Self {
            tokens: TokenBucket::new(INTERVAL, BURST),
            reserve: TokenBucket::new(RESERVE_INTERVAL, RESERVE),
            own: FixedMap::default(),
            sweep_at: 0,
            waiting: Turns::default(),
        }
    }
}

impl<N: Hash + Eq + Clone> Retries<N> {
    /// Takes a token for a retry of `key`, whose own backoff lasts until `until`. If there is none, the retry is put in
    /// the line of its namespace, and its place there is returned.
    ///
    /// The tokens that have come must have been granted before ([`Retries::grant`]).
    pub(super) fn ask(&mut self, namespace: &N, key: Slot, until: Moment, now: Moment) -> Option<Slot> {
        let quiet = self.spend_own(namespace, now);
        if self.waiting.is_empty() && self.tokens.try_take(now) {
            return None;
        }
        if quiet && self.reserve.try_take(now) {
            // Is owed: those who wait get theirs so much later.
            self.tokens.reserve(now);
            return None;
        }
        let place = self.waiting.push(namespace, Waiting { key, until, expected: until });
        let turns = u32::try_from(self.waiting.turns_of_last(place) - 1).unwrap_or(u32::MAX);
        let waiting = self.waiting.get_mut(place);
        waiting.expected = until.max(self.tokens.next().max(now) + INTERVAL.saturating_mul(turns));
        Some(place)
    }

    /// Whether the namespace is quiet; counts its retry.
    fn spend_own(&mut self, namespace: &N, now: Moment) -> bool {
        if let Some(own) = self.own.get_mut(namespace) {
            return own.try_take(now);
        }
        if self.own.len() >= self.sweep_at {
            self.own.retain(|_, own| !own.is_full(now));
            // Twice as many, so that a sweep is paid for by those that came since the last.
            self.sweep_at = self.own.len() * 2 + 16;
        }
        let mut own = TokenBucket::new(OWN_INTERVAL, OWN_BURST);
        let quiet = own.try_take(now);
        self.own.insert(namespace.clone(), own);
        quiet
    }

    /// Gives a token that has come to the next who waits; `None` if there is none, or nobody waits.
    pub(super) fn grant(&mut self, now: Moment) -> Option<Waiting> {
        if self.waiting.is_empty() || !self.tokens.try_take(now) { None } else { self.waiting.pop() }
    }

    /// When the next token comes for somebody who waits; `None` if nobody does.
    pub(super) fn next(&self) -> Option<Moment> {
        (!self.waiting.is_empty()).then(|| self.tokens.next())
    }

    pub(super) fn get(&self, place: Slot) -> &Waiting {
        self.waiting.get(place)
    }

    /// Of two backoffs of a key the one that ends first counts.
    pub(super) fn shorten(&mut self, place: Slot, until: Moment) {
        let waiting = self.waiting.get_mut(place);
        waiting.until = waiting.until.min(until);
    }

    /// A retry need not wait any more.
    pub(super) fn cancel(&mut self, place: Slot) {
        self.waiting.remove(place);
    }

    /// Those who wait, in the order in which they get their tokens.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    /// Takes out one who waits.
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        self.waiting.pop()
    }

    #[cfg(test)]
    pub(super) fn buckets(&self) -> usize {
        self.own.len()
    }
}
