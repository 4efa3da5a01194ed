//! A work queue as client-go's: each key once, failures come back with a growing delay.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use jiff::Timestamp;

use crate::base::clock::SharedClock;

/// The delay after the first failure; it doubles with each further one (client-go: `DefaultTypedControllerRateLimiter`).
const FIRST: Duration = Duration::from_millis(5);
/// The longest delay.
const LONGEST: Duration = Duration::from_secs(1000);

/// Keys that are to be worked on now or later. One task owns it.
#[derive(Debug)]
pub(super) struct Queue<K> {
    clock: SharedClock,
    ready: VecDeque<K>,
    queued: HashSet<K>,
    later: BTreeMap<(Timestamp, u64), K>,
    serial: u64,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// An empty queue.
    pub(super) fn new(clock: SharedClock) -> Self {
        Queue { clock, ready: VecDeque::new(), queued: HashSet::new(), later: BTreeMap::new(), serial: 0, failures: HashMap::new() }
    }

    /// Adds a key, unless it waits already.
    pub(super) fn add(&mut self, key: K) {
        if self.queued.insert(key.clone()) {
            self.ready.push_back(key);
        }
    }

    /// Adds a key once `delay` has passed.
    pub(super) fn add_after(&mut self, key: K, delay: Duration) {
        let at = self.clock.now().checked_add(delay).unwrap_or(Timestamp::MAX);
        self.serial += 1;
        self.later.insert((at, self.serial), key);
    }

    /// Takes note of the end of work on a key: a failure brings it back.
    pub(super) fn done<E: std::fmt::Display>(&mut self, key: K, result: Result<(), E>) {
        match result {
            Ok(()) => {
                self.failures.remove(&key);
            }
            Err(error) => {
                tracing::debug!(%error, "work item failed");
                let failures = self.failures.entry(key.clone()).or_insert(0);
                let delay = FIRST.checked_mul(1_u32.checked_shl(*failures).unwrap_or(u32::MAX)).unwrap_or(LONGEST).min(LONGEST);
                *failures = failures.saturating_add(1);
                self.add_after(key, delay);
            }
        }
    }

    /// A key to work on now, if there is one.
    pub(super) fn try_next(&mut self) -> Option<K> {
        let now = self.clock.now();
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            self.add(key);
        }
        let key = self.ready.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }

    /// The next key, as soon as there is one. Cancel-safe.
    pub(super) async fn next(&mut self) -> K {
        loop {
            if let Some(key) = self.try_next() {
                return key;
            }
            match self.later.first_key_value() {
                Some(((at, _), _)) => {
                    let delay = Duration::try_from(at.duration_since(self.clock.now())).unwrap_or_default();
                    self.clock.sleep(delay).await;
                }
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::Queue;
    use crate::base::clock::ManualClock;

    fn queue() -> (ManualClock, Queue<&'static str>) {
        let clock = ManualClock::new("2026-12-01T00:00:00Z".parse().expect("a time"));
        (clock.clone(), Queue::new(Arc::new(clock)))
    }

    #[test]
    fn a_key_waits_once() {
        let (_, mut queue) = queue();
        queue.add("a");
        queue.add("b");
        queue.add("a");
        assert_eq!((queue.try_next(), queue.try_next(), queue.try_next()), (Some("a"), Some("b"), None));
        queue.add("a");
        assert_eq!(queue.try_next(), Some("a"));
    }

    #[test]
    fn failures_come_back_with_a_doubling_delay_and_success_forgets_them() {
        let (clock, mut queue) = queue();
        for delay in [5, 10, 20] {
            queue.done("a", Err("no"));
            clock.advance(Duration::from_millis(delay - 1));
            assert_eq!(queue.try_next(), None);
            clock.advance(Duration::from_millis(1));
            assert_eq!(queue.try_next(), Some("a"));
        }
        queue.done("a", Ok::<(), &str>(()));
        queue.done("a", Err("no"));
        clock.advance(Duration::from_millis(5));
        assert_eq!(queue.try_next(), Some("a"));
    }

    #[tokio::test]
    async fn waiting_ends_when_the_clock_gets_there() {
        let (clock, mut queue) = queue();
        queue.add_after("a", Duration::from_secs(40));
        let waiting = tokio::spawn(async move { queue.next().await });
        while clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(Duration::from_secs(40));
        assert_eq!(waiting.await.expect("a key"), "a");
    }
}
