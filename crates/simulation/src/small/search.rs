//! The search: breadth first, so that the first law that is found broken is broken by a shortest story.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::World;
use super::laws::at_the_end;
use super::state::State;
use super::step::{Play, Step};
use super::story::story;
use crate::laws::{Broken, Law};

/// What a world comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enumerated {
    /// How many states there are.
    pub states: usize,
    /// How many steps lead from one to another.
    pub transitions: usize,
    /// How many steps it takes to the state that takes most.
    pub deepest: usize,
    /// In how many states nothing happens any more by itself.
    pub ends: usize,
    /// Whether there are no more: otherwise there were more than asked for, or a law was broken.
    pub is_all: bool,
    /// The first law that is broken, and the story of how, a step a line.
    pub broken: Option<(Broken, String)>,
}

/// Comes to every state of a world, but to no more than `most`; `told` how many there are until now, and says whether to go on.
pub fn enumerate(world: &World, most: usize, told: &mut dyn FnMut(usize) -> bool) -> Enumerated {
    let mut found = Enumerated { states: 0, transitions: 0, deepest: 0, ends: 0, is_all: false, broken: None };
    let (mut play, first) = match Play::begin(*world) {
        Ok(begun) => begun,
        Err(broken) => return Enumerated { broken: Some((broken, String::new())), ..found },
    };
    let mut graph = Graph::default();
    let mut numbers: HashMap<u128, u32> = HashMap::from([(digest(&first), 0)]);
    let mut ways: Vec<(u32, u16)> = vec![(0, 0)];
    let mut waiting = VecDeque::from([(0_u32, 0_usize, first.clone())]);
    let mut good = Vec::new();
    let tell = |play: &mut Play, ways: &[(u32, u16)], broken: Broken, to: u32, last: Option<u16>| {
        let mut path: Vec<u16> = last.into_iter().collect();
        let mut at = to;
        while at != 0 {
            let (before, nth) = ways[at as usize];
            path.push(nth);
            at = before;
        }
        path.reverse();
        let told = story(play, first.clone(), &path);
        Some((broken, told))
    };
    while let Some((number, depth, state)) = waiting.pop_front() {
        found.deepest = depth;
        let mut by_itself = false;
        for (nth, next) in (0_u16..).zip(play.next(&state)) {
            found.transitions += 1;
            by_itself |= !matches!(next.step, Step::Edit | Step::Crash);
            if let Some(broken) = next.broken {
                found.states = ways.len();
                found.broken = tell(&mut play, &ways, broken, number, Some(nth));
                return found;
            }
            let fresh = u32::try_from(ways.len()).unwrap_or(u32::MAX);
            let to = *numbers.entry(digest(&next.state)).or_insert(fresh);
            graph.edges.push(if next.wrote { to | Graph::WROTE } else { to });
            if to == fresh {
                ways.push((number, nth));
                waiting.push_back((fresh, depth + 1, next.state));
            }
        }
        graph.rows.push(graph.edges.len());
        if !by_itself {
            found.ends += 1;
            if let Some(broken) = at_the_end(&play.objects, &state) {
                found.states = ways.len();
                found.broken = tell(&mut play, &ways, broken, number, None);
                return found;
            }
            good.push(number);
        }
        if !told(ways.len()) || ways.len() >= most {
            found.states = ways.len();
            return found;
        }
    }
    found.states = ways.len();
    found.is_all = true;
    let dead = |number: u32| (Law::Ends, "it cannot be complete any more", number);
    let again = |number: u32| (Law::Quiet, "the controllers may write without an end", number);
    let first_broken = graph.dead_end(&good).map(dead).or_else(|| graph.writes_again(ways.len()).map(again));
    if let Some((law, how, number)) = first_broken {
        found.broken = tell(&mut play, &ways, Broken::at_the_end(law, how), number, None);
    }
    found
}

/// 128 bits of a state: two states have the same ones by no chance that counts.
fn digest(state: &State) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, state).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Which state leads to which.
#[derive(Default)]
struct Graph {
    /// Where the edges of each state end.
    rows: Vec<usize>,
    edges: Vec<u32>,
}

impl Graph {
    /// A step in which a controller has written.
    const WROTE: u32 = 1 << 31;

    fn of(&self, number: usize) -> &[u32] {
        let begin = number.checked_sub(1).map_or(0, |before| self.rows[before]);
        &self.edges[begin..self.rows[number]]
    }

    /// The first state from which no good one can be reached.
    fn dead_end(&self, good: &[u32]) -> Option<u32> {
        // Counting sort of the edges by where they lead to.
        let mut begins = vec![0_usize; self.rows.len() + 1];
        self.edges.iter().for_each(|edge| begins[(edge & !Self::WROTE) as usize + 1] += 1);
        for at in 1..begins.len() {
            begins[at] += begins[at - 1];
        }
        let (mut places, mut from) = (begins.clone(), vec![0_u32; self.edges.len()]);
        for number in 0..self.rows.len() {
            for edge in self.of(number) {
                let place = &mut places[(edge & !Self::WROTE) as usize];
                from[*place] = u32::try_from(number).unwrap_or(u32::MAX);
                *place += 1;
            }
        }
        let mut reaches = vec![false; self.rows.len()];
        let mut waiting = good.to_vec();
        good.iter().for_each(|number| reaches[*number as usize] = true);
        while let Some(number) = waiting.pop() {
            let to = number as usize;
            for before in &from[begins[to]..begins[to + 1]] {
                if !std::mem::replace(&mut reaches[*before as usize], true) {
                    waiting.push(*before);
                }
            }
        }
        reaches.iter().position(|reaches| !reaches).and_then(|number| u32::try_from(number).ok())
    }

    /// A state that a write of the controllers may come back to: one in a cycle with such a step. By Tarjan's strongly
    /// connected components.
    fn writes_again(&self, states: usize) -> Option<u32> {
        const NEW: u32 = u32::MAX;
        let (mut order, mut lowest) = (vec![NEW; states], vec![0_u32; states]);
        let (mut component, mut on_stack) = (vec![NEW; states], Vec::new());
        let (mut next, mut components) = (0, 0);
        // The state, and how many of its edges have been followed.
        let mut calls: Vec<(usize, usize)> = Vec::new();
        for root in 0..states {
            if order[root] == NEW {
                calls.push((root, 0));
            }
            while let Some((at, followed)) = calls.pop() {
                if followed == 0 {
                    (order[at], lowest[at]) = (next, next);
                    next += 1;
                    on_stack.push(at);
                } else {
                    let to = (self.of(at)[followed - 1] & !Self::WROTE) as usize;
                    if component[to] == NEW {
                        lowest[at] = lowest[at].min(lowest[to]);
                    }
                }
                if let Some(edge) = self.of(at).get(followed) {
                    let to = (edge & !Self::WROTE) as usize;
                    calls.push((at, followed + 1));
                    if order[to] == NEW {
                        calls.push((to, 0));
                    }
                } else if lowest[at] == order[at] {
                    while let Some(member) = on_stack.pop() {
                        component[member] = components;
                        if member == at {
                            break;
                        }
                    }
                    components += 1;
                }
            }
        }
        let in_cycle = |at: &usize| {
            self.of(*at)
                .iter()
                .any(|edge| edge & Self::WROTE != 0 && component[*at] == component[(edge & !Self::WROTE) as usize])
        };
        (0..states).find(in_cycle).and_then(|number| u32::try_from(number).ok())
    }
}
