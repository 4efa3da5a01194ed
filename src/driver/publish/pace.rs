//! How soon to write again: at once as a rule, later and later when calls fail or somebody undoes what was
//! written.

use std::time::Duration;

use jiff::Timestamp;

/// Repairs in a row that are made without waiting.
const FREE_REPAIRS: u32 = 3;
/// A write this long after the last one is not in a row with it.
const QUIET: Duration = Duration::from_secs(10);
const FIRST_DELAY: Duration = Duration::from_millis(100);
const LONGEST_REPAIR_DELAY: Duration = Duration::from_secs(30);
/// No delay is longer.
pub(super) const LONGEST: Duration = LONGEST_REPAIR_DELAY;
const LONGEST_FAILURE_DELAY: Duration = Duration::from_secs(10);

/// Writes in a row: what is undone again and again is repaired at a slower and slower pace.
#[derive(Clone, Debug, Default)]
pub(super) struct Repairs {
    last_write: Option<Timestamp>,
    in_a_row: u32,
}

impl Repairs {
    /// Slices were written at `now`; how long to wait before they may be written again.
    pub(super) fn wrote(&mut self, now: Timestamp) -> Duration {
        let quiet = QUIET.max(self.delay() * 2);
        let soon = self.last_write.is_some_and(|last| Duration::try_from(now.duration_since(last)).is_ok_and(|since| since < quiet));
        self.in_a_row = if soon { self.in_a_row.saturating_add(1) } else { 1 };
        self.last_write = Some(now);
        self.delay()
    }

    fn delay(&self) -> Duration {
        doubled(self.in_a_row.saturating_sub(FREE_REPAIRS), LONGEST_REPAIR_DELAY)
    }
}

/// Failed calls in a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    /// A call failed; how long to wait before the next.
    pub(super) fn failed(&mut self) -> Duration {
        self.0 = self.0.saturating_add(1);
        doubled(self.0, LONGEST_FAILURE_DELAY)
    }

    /// A call went well.
    pub(super) fn went_well(&mut self) {
        self.0 = 0;
    }
}

/// Nothing for 0, then [`FIRST_DELAY`], doubled for each further one.
fn doubled(times: u32, longest: Duration) -> Duration {
    match times {
        0 => Duration::ZERO,
        _ => FIRST_DELAY.saturating_mul(1_u32.checked_shl(times - 1).unwrap_or(u32::MAX)).min(longest),
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, Repairs};
    use std::time::Duration;

    #[test]
    fn a_fight_slows_down_and_peace_makes_it_quick_again() {
        let mut repairs = Repairs::default();
        let mut now: jiff::Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
        let mut delays = Vec::new();
        for _ in 0..20 {
            let delay = repairs.wrote(now);
            delays.push(delay);
            now += delay;
        }
        assert_eq!(delays[..5], [0, 0, 0, 100, 200].map(Duration::from_millis));
        assert_eq!(delays[19], Duration::from_secs(30), "the fight goes on at a slow pace");
        now += Duration::from_secs(61);
        assert_eq!(repairs.wrote(now), Duration::ZERO);
    }

    #[test]
    fn failures_wait_longer_up_to_a_limit_and_success_resets_them() {
        let mut backoff = Backoff::default();
        let delays: Vec<u128> = (0..9).map(|_| backoff.failed().as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000]);
        backoff.went_well();
        assert_eq!(backoff.failed().as_millis(), 100);
    }
}
