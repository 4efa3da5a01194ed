//! The search: depth first, exhaustive, the first full solution wins (section 3).

mod check;
mod place;

use std::collections::HashMap;

use k8s_openapi::api::core::v1::Node;

pub(super) use self::check::{fits_capacity, selectable, untolerated};
pub(super) use self::place::needs_node_operations;

#[cfg(test)]
use super::constraints::Constraint;
use super::counters::{CounterState, Taken};
use super::inventory::{DeviceIx, Inventory};
use super::pools::{CandidateIx, NodeView};
use super::requests::{Choice, ClaimPlan};
use super::state::ConsumedCapacity;
use super::trace::{Reason, Trace};
use super::{Allocator, RESULTS_PER_CLAIM};
use crate::model::attribute::AttributeValue;
use crate::model::features::Feature;

/// Why the search stops before it has tried everything.
#[derive(Debug)]
pub(super) enum Stop {
    /// What is left to do needs more results than a claim can have. It prunes branches up to the next alternative or the
    /// beginning of the claim.
    TooManyDevices,
    /// The input is bad.
    Fatal(String),
    /// The step budget ran out.
    GaveUp,
}

/// Where the search is.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    claim: usize,
    request: usize,
    /// Number of the alternative that is being tried; `None` where the request's alternatives are still to be tried.
    alternative: Option<usize>,
    /// How many devices of the request are placed.
    device: i64,
    /// The first candidate to try: combinations in increasing order, no permutations.
    from: CandidateIx,
}

impl Place {
    /// Where the search goes on after a device was placed.
    fn after(self, candidate: CandidateIx) -> Self {
        Self { device: self.device + 1, from: candidate + 1, ..self }
    }
}

/// A step that waits for the end of a later one. The search is recursive by nature; with a stack of its own its depth,
/// which is up to the input, cannot exhaust the thread's.
#[derive(Clone, Copy, Debug)]
enum Open {
    /// All requests of a claim are served; later claims are looked at.
    Claim,
    /// Alternatives of a request, the current one being tried.
    Alternatives { place: Place, current: usize, count: usize, only_too_many: bool },
    /// A device of a request for all devices is placed.
    All,
    /// A candidate is placed.
    Candidate { place: Place, choice: usize, candidate: CandidateIx },
}

/// What comes next.
enum Move {
    /// A step at that place.
    On(Place),
    /// The step has ended so; where it is a failure all that it placed was taken back.
    Back(Result<bool, Stop>),
}

/// A device that is placed, with what undoes it.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) choice: usize,
    pub(super) candidate: CandidateIx,
    /// For devices that can be allocated several times: what this share consumes.
    pub(super) share: Option<ConsumedCapacity>,
    taken: Option<Taken>,
}

/// How one candidate is used in this attempt.
#[derive(Debug, Default)]
struct InUse {
    /// The claims that have the device for themselves (several only with admin access).
    claims: Vec<usize>,
    /// How many shares there are of it, and what they consume.
    shares: usize,
    consumed: ConsumedCapacity,
}

/// One call's search.
pub(super) struct Search<'a, 't> {
    pub(super) allocator: &'a Allocator,
    pub(super) inventory: &'a Inventory,
    pub(super) node: &'a Node,
    pub(super) view: &'a NodeView,
    pub(super) claims: Vec<ClaimPlan<'a>>,
    pub(super) choices: Vec<Choice<'a>>,
    pub(super) trace: Option<&'t mut Trace>,
    /// Steps so far.
    pub(super) steps: u64,
    /// The alternative that was chosen, by claim and request.
    pub(super) chosen: Vec<Vec<usize>>,
    pub(super) placed: Vec<Placed>,
    open: Vec<Open>,
    /// How many devices each claim has so far.
    results: Vec<i64>,
    /// The candidates that claims have for themselves in this attempt, one bit each.
    exclusive: Vec<u64>,
    in_use: HashMap<CandidateIx, InUse>,
    /// Per choice and candidate whether the candidate is selectable, once known.
    selectable: Vec<Option<bool>>,
    counters: Vec<Option<CounterState>>,
    derived: HashMap<(&'a str, DeviceIx), AttributeValue<'static>>,
}

impl<'a, 't> Search<'a, 't> {
    pub(super) fn new(
        allocator: &'a Allocator,
        node: &'a Node,
        view: &'a NodeView,
        claims: Vec<ClaimPlan<'a>>,
        choices: Vec<Choice<'a>>,
        trace: Option<&'t mut Trace>,
    ) -> Self {
        Self {
            allocator,
            inventory: &allocator.inventory,
            node,
            view,
            trace,
            steps: 0,
            chosen: claims.iter().map(|claim| vec![0; claim.requests.len()]).collect(),
            placed: Vec::new(),
            open: Vec::new(),
            results: vec![0; claims.len()],
            exclusive: vec![0; view.candidates.len().div_ceil(64)],
            in_use: HashMap::new(),
            selectable: vec![None; choices.len() * view.candidates.len()],
            counters: view.pools.iter().map(|_| None).collect(),
            derived: HashMap::new(),
            claims,
            choices,
        }
    }

    /// Searches for devices for all claims. Where there are none, nothing stays placed.
    pub(super) fn run(&mut self) -> Result<bool, Stop> {
        let mut next = Move::On(Place::default());
        loop {
            next = match next {
                Move::On(place) => self.enter(place),
                Move::Back(end) => match self.open.pop() {
                    Some(open) => self.leave(open, end),
                    None => return end,
                },
            };
        }
    }

    /// Begins a step at `place`.
    fn enter(&mut self, place: Place) -> Move {
        self.steps += 1;
        if self.allocator.step_budget.is_some_and(|budget| self.steps > budget) {
            return Move::Back(Err(Stop::GaveUp));
        }
        let Some(claim) = self.claims.get(place.claim) else { return Move::Back(Ok(true)) };
        let Some(&request) = claim.requests.get(place.request) else {
            self.open.push(Open::Claim);
            return Move::On(Place { claim: place.claim + 1, ..Place::default() });
        };
        let alternative = match place.alternative {
            Some(alternative) => alternative,
            None if request.alternatives => {
                self.open.push(Open::Alternatives { place, current: 0, count: request.count, only_too_many: true });
                return Move::On(Place { alternative: Some(0), ..place });
            }
            None => 0,
        };
        let choice = request.first + alternative;
        let devices = self.choices[choice].devices;
        if self.choices[choice].all.as_ref().is_some_and(Vec::is_empty) {
            return Move::Back(Ok(false));
        }
        if place.device >= devices {
            return Move::On(Place { claim: place.claim, request: place.request + 1, ..Place::default() });
        }
        if devices - place.device > RESULTS_PER_CLAIM - self.results[place.claim] {
            return Move::Back(Err(Stop::TooManyDevices));
        }
        let place = Place { alternative: Some(alternative), ..place };
        if let Some(all) = &self.choices[choice].all {
            // No other order of the devices would do better.
            let Some(&candidate) = usize::try_from(place.device).ok().and_then(|device| all.get(device)) else {
                return Move::Back(Ok(false));
            };
            return match self.place(choice, candidate, true) {
                Ok(true) => {
                    self.open.push(Open::All);
                    Move::On(place.after(candidate))
                }
                other => Move::Back(other),
            };
        }
        self.candidates(place, choice, place.from)
    }

    /// Tries the candidates from `next` on for one device.
    fn candidates(&mut self, place: Place, choice: usize, next: CandidateIx) -> Move {
        for candidate in next..self.view.candidates.len() {
            match self.try_candidate(choice, candidate) {
                Ok(true) => {
                    self.open.push(Open::Candidate { place, choice, candidate });
                    return Move::On(place.after(candidate));
                }
                Ok(false) => {}
                Err(stop) => return Move::Back(Err(stop)),
            }
        }
        Move::Back(Ok(false))
    }

    /// What the end of a step means for the step that began it.
    fn leave(&mut self, open: Open, end: Result<bool, Stop>) -> Move {
        match open {
            Open::Claim => Move::Back(match end {
                Err(Stop::TooManyDevices) => Ok(false),
                other => other,
            }),
            Open::All => {
                if !matches!(end, Ok(true)) {
                    self.take_back();
                }
                Move::Back(end)
            }
            Open::Candidate { place, choice, candidate } => {
                if matches!(end, Ok(true)) {
                    return Move::Back(end);
                }
                self.take_back();
                match end {
                    Err(stop) => Move::Back(Err(stop)),
                    Ok(_) => self.candidates(place, choice, candidate + 1),
                }
            }
            // The first alternative with which everything else fits, too, is taken.
            Open::Alternatives { place, current, count, only_too_many } => {
                let only_too_many = match end {
                    Ok(true) => {
                        self.chosen[place.claim][place.request] = current;
                        return Move::Back(end);
                    }
                    Ok(false) => false,
                    Err(Stop::TooManyDevices) => only_too_many,
                    Err(stop) => return Move::Back(Err(stop)),
                };
                let current = current + 1;
                if current < count {
                    self.open.push(Open::Alternatives { place, current, count, only_too_many });
                    return Move::On(Place { alternative: Some(current), ..place });
                }
                Move::Back(if only_too_many { Err(Stop::TooManyDevices) } else { Ok(false) })
            }
        }
    }

    fn reject(&mut self, choice: usize, candidate: CandidateIx, reason: Reason) {
        if let Some(trace) = self.trace.as_deref_mut() {
            trace.add(self.inventory, &self.choices[choice], self.view.candidates[candidate].device, reason);
        }
    }

    /// Checks a candidate, cheapest first, and places it.
    fn try_candidate(&mut self, choice: usize, candidate: CandidateIx) -> Result<bool, Stop> {
        let admin = self.choices[choice].admin;
        let claim = self.choices[choice].claim;
        let in_use = if admin { self.is_in_use_by(candidate, claim) } else { self.is_in_use(candidate) };
        if in_use {
            self.reject(choice, candidate, Reason::InUse);
            return Ok(false);
        }
        let known = choice * self.view.candidates.len() + candidate;
        let is_selectable = match self.selectable[known] {
            Some(verdict) => verdict,
            None => {
                let verdict = selectable(self.inventory, self.view, self.node, self.claims[claim].claim, &self.choices[choice], candidate);
                let refusal = verdict.map_err(Stop::Fatal)?;
                if let Some(reason) = refusal.clone() {
                    self.reject(choice, candidate, reason);
                }
                self.selectable[known] = Some(refusal.is_none());
                refusal.is_none()
            }
        };
        if !is_selectable {
            return Ok(false);
        }
        if self.inventory.features.has(Feature::ConsumableCapacity) && self.capacity(choice, candidate)?.is_none() {
            self.reject(choice, candidate, Reason::Capacity);
            return Ok(false);
        }
        self.place(choice, candidate, false)
    }
}

#[cfg(test)]
impl Search<'_, '_> {
    /// Whether nothing is placed, and no trace of what was is left.
    pub(super) fn is_as_before(&self) -> bool {
        let counters = self.view.pools.iter().zip(&self.counters).all(|(pool, state)| match (&pool.counters, state) {
            (Some(table), Some(state)) => *state == table.open(self.inventory, &self.allocator.usage),
            _ => true,
        });
        counters
            && self.placed.is_empty()
            && self.results.iter().all(|results| *results == 0)
            && self.exclusive.iter().all(|word| *word == 0)
            && self.in_use.values().all(|in_use| in_use.claims.is_empty() && in_use.shares == 0 && in_use.consumed.is_empty())
            && self.claims.iter().all(|claim| claim.constraints.iter().all(Constraint::is_empty))
    }
}
