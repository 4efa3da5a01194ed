//! Waiting pods, as in kube-scheduler's scheduling queue: active, in back-off, and in the pool of those for which
//! nothing changed since they were found unschedulable; gated pods wait in the pool too.
//!
//! Which pod a change helps is decided elsewhere ([`super::hints`]); here is only where each pod waits and until when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::claims;
use super::hints::Plugin;
use super::view::{Key, PodView, Uid};

/// The first back-off; it doubles.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest back-off.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// After this long a pod of the pool is tried again though nothing has changed.
const POOL_LIMIT: Duration = Duration::from_secs(300);

/// Higher priority first, then who has waited longer, then who came first.
type Rank = (Reverse<i32>, Timestamp, u64);

/// A waiting pod.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The pod as last seen.
    pub pod: Arc<PodView>,
    /// How often it was tried.
    pub attempts: u32,
    /// Who rejected it last.
    pub rejected_by: BTreeSet<Plugin>,
    unschedulable: u32,
    errors: u32,
    /// When it came to where it waits after its last attempt, or to the queue.
    since: Timestamp,
    arrival: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Active,
    /// Found unschedulable and moved by a change: waits for its back-off, or until nobody is active.
    Backoff,
    /// Failed with an error: waits for its back-off.
    Error,
    Pool,
    Gated,
    /// Handed out and not decided yet, or being bound.
    Out,
}

/// Where waiting pods stand; for display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ready to be tried.
    pub active: usize,
    /// Waiting for their back-off.
    pub backoff: usize,
    /// Waiting for a change.
    pub unschedulable: usize,
    /// Held back before the queue.
    pub gated: usize,
    /// Being decided or bound.
    pub in_progress: usize,
}

/// The queue.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    entries: HashMap<Uid, Entry>,
    active: BTreeMap<Rank, Uid>,
    backoff: BTreeMap<(Timestamp, Rank), Uid>,
    errors: BTreeMap<(Timestamp, Rank), Uid>,
    pool: BTreeMap<(Timestamp, Rank), Uid>,
    gated: BTreeSet<Uid>,
    /// Pods of the pool and gated ones, by the claims that they name.
    by_claim: HashMap<Key, BTreeSet<Uid>>,
    arrivals: u64,
}

impl Queue {
    /// Adds a new pod: active, or gated.
    pub fn add(&mut self, pod: Arc<PodView>, gated: bool, now: Timestamp) {
        let uid = pod.uid().clone();
        self.remove(&uid);
        self.arrivals += 1;
        let entry = Entry {
            pod,
            attempts: 0,
            rejected_by: BTreeSet::new(),
            unschedulable: 0,
            errors: 0,
            since: now,
            arrival: self.arrivals,
            place: Place::Out,
        };
        self.put(uid, entry, if gated { Place::Gated } else { Place::Active });
    }

    /// Takes a pod out for good.
    pub fn remove(&mut self, uid: &Uid) -> Option<Entry> {
        let entry = self.entries.remove(uid)?;
        self.unlink(uid, &entry);
        Some(entry)
    }

    /// The entry of a pod.
    #[must_use]
    pub fn get(&self, uid: &Uid) -> Option<&Entry> {
        self.entries.get(uid)
    }

    /// Replaces the pod of an entry by its newer state; it stays where it is.
    pub fn update(&mut self, pod: &Arc<PodView>) {
        let Some(mut entry) = self.remove(pod.uid()) else {
            return;
        };
        let place = entry.place;
        entry.pod = pod.clone();
        self.put(pod.uid().clone(), entry, place);
    }

    /// Hands out the next pod, if one is ready: active ones first. If nobody is active, a pod in back-off goes before
    /// its time (upstream: `SchedulerPopFromBackoffQ`), but not one that waits after an error.
    pub fn pop(&mut self, now: Timestamp) -> Option<Entry> {
        self.flush(now);
        let uid = match self.active.first_key_value() {
            Some((_, uid)) => uid.clone(),
            None => self.backoff.first_key_value()?.1.clone(),
        };
        let mut entry = self.remove(&uid)?;
        entry.attempts += 1;
        self.put(uid, entry.clone(), Place::Out);
        Some(entry)
    }

    /// Puts a pod back that was found unschedulable; it waits for a change.
    pub fn reject(&mut self, uid: &Uid, plugins: BTreeSet<Plugin>, now: Timestamp) {
        if let Some(mut entry) = self.remove(uid) {
            entry.unschedulable += 1;
            entry.errors = 0;
            entry.rejected_by = plugins;
            entry.since = now;
            self.put(uid.clone(), entry, Place::Pool);
        }
    }

    /// Puts a pod back whose attempt failed; it is tried again after its back-off.
    pub fn fail(&mut self, uid: &Uid, now: Timestamp) {
        if let Some(mut entry) = self.remove(uid) {
            entry.errors += 1;
            entry.rejected_by.clear();
            entry.since = now;
            self.put(uid.clone(), entry, Place::Error);
        }
    }

    /// Moves a pod of the pool, or a gated one, on: to the active ones, or into back-off if that has not passed.
    pub fn requeue(&mut self, uid: &Uid, now: Timestamp) {
        if let Some(entry) = self.remove(uid) {
            let place = match entry.place {
                Place::Pool | Place::Gated if ready_at(&entry) > now => Place::Backoff,
                Place::Pool | Place::Gated => Place::Active,
                other => other,
            };
            self.put(uid.clone(), entry, place);
        }
    }

    /// Gates a pod that waits anywhere.
    pub fn gate(&mut self, uid: &Uid) {
        if let Some(entry) = self.remove(uid) {
            self.put(uid.clone(), entry, Place::Gated);
        }
    }

    /// True if the pod is gated.
    #[must_use]
    pub fn is_gated(&self, uid: &Uid) -> bool {
        self.gated.contains(uid)
    }

    /// The pods of the pool, without gated ones.
    pub fn pool(&self) -> impl Iterator<Item = &Entry> {
        self.pool.values().filter_map(|uid| self.entries.get(uid))
    }

    /// The pods of the pool and the gated ones that name a claim.
    pub fn waiting_for(&self, claim: &Key) -> impl Iterator<Item = &Entry> {
        self.by_claim.get(claim).into_iter().flatten().filter_map(|uid| self.entries.get(uid))
    }

    /// When something becomes due by time alone.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let pool = self.pool.first_key_value().map(|((since, _), _)| after(*since, POOL_LIMIT));
        let first = |waiting: &BTreeMap<(Timestamp, Rank), Uid>| waiting.first_key_value().map(|((at, _), _)| *at);
        [pool, first(&self.errors), first(&self.backoff)].into_iter().flatten().min()
    }

    /// Where the pods stand.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let (active, backoff) = (self.active.len(), self.backoff.len() + self.errors.len());
        let (unschedulable, gated) = (self.pool.len(), self.gated.len());
        Counts {
            active,
            backoff,
            unschedulable,
            gated,
            in_progress: self.entries.len().saturating_sub(active + backoff + unschedulable + gated),
        }
    }

    fn flush(&mut self, now: Timestamp) {
        for which in [Place::Error, Place::Backoff] {
            while let Some(uid) = self.first_due(which, now) {
                if let Some(entry) = self.remove(&uid) {
                    self.put(uid, entry, Place::Active);
                }
            }
        }
        while let Some(((since, _), uid)) = self.pool.first_key_value()
            && after(*since, POOL_LIMIT) <= now
        {
            let uid = uid.clone();
            self.requeue(&uid, now);
        }
    }

    fn first_due(&self, place: Place, now: Timestamp) -> Option<Uid> {
        let waiting = if place == Place::Error { &self.errors } else { &self.backoff };
        waiting.first_key_value().filter(|((at, _), _)| *at <= now).map(|(_, uid)| uid.clone())
    }

    fn put(&mut self, uid: Uid, mut entry: Entry, place: Place) {
        entry.place = place;
        let rank = rank(&entry);
        match place {
            Place::Active => {
                self.active.insert(rank, uid.clone());
            }
            Place::Backoff => {
                self.backoff.insert((ready_at(&entry), rank), uid.clone());
            }
            Place::Error => {
                self.errors.insert((ready_at(&entry), rank), uid.clone());
            }
            Place::Pool => {
                self.pool.insert((entry.since, rank), uid.clone());
            }
            Place::Gated => {
                self.gated.insert(uid.clone());
            }
            Place::Out => {}
        }
        if matches!(place, Place::Pool | Place::Gated) {
            for key in claim_keys(&entry.pod) {
                self.by_claim.entry(key).or_default().insert(uid.clone());
            }
        }
        self.entries.insert(uid, entry);
    }

    fn unlink(&mut self, uid: &Uid, entry: &Entry) {
        let rank = rank(entry);
        match entry.place {
            Place::Active => {
                self.active.remove(&rank);
            }
            Place::Backoff => {
                self.backoff.remove(&(ready_at(entry), rank));
            }
            Place::Error => {
                self.errors.remove(&(ready_at(entry), rank));
            }
            Place::Pool => {
                self.pool.remove(&(entry.since, rank));
            }
            Place::Gated => {
                self.gated.remove(uid);
            }
            Place::Out => {}
        }
        if matches!(entry.place, Place::Pool | Place::Gated) {
            for key in claim_keys(&entry.pod) {
                if let Some(waiting) = self.by_claim.get_mut(&key) {
                    waiting.remove(uid);
                    if waiting.is_empty() {
                        self.by_claim.remove(&key);
                    }
                }
            }
        }
    }
}

fn claim_keys(pod: &PodView) -> impl Iterator<Item = Key> {
    pod.claims.iter().filter_map(|entry| claims::key_of_entry(pod, entry).ok().flatten())
}

fn rank(entry: &Entry) -> Rank {
    (Reverse(entry.pod.priority), entry.since, entry.arrival)
}

/// When the entry's back-off has passed: 1 s, doubling up to 10 s, counted in errors in a row, else in rejections.
/// Upstream lets pods out at whole seconds, those of the window that has ended (`backoffQOrderingWindowDuration`):
/// recorded retries come 1 to 2 s, then 3, 5, 9 and 11 s after each other.
fn ready_at(entry: &Entry) -> Timestamp {
    let failures = if entry.errors > 0 { entry.errors } else { entry.unschedulable };
    if failures == 0 {
        return entry.since;
    }
    let backoff = FIRST_BACKOFF.saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX)).min(LONGEST_BACKOFF);
    let window = after(entry.since, backoff).as_second();
    Timestamp::from_second(window.saturating_add(1)).unwrap_or(Timestamp::MAX)
}

fn after(at: Timestamp, delay: Duration) -> Timestamp {
    at.checked_add(delay).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
