//! Long times, on a clock that the test moves: silence, an API server away for minutes, a watch that is lost, and a
//! clock that jumps.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::{lab, register};
use crate::base::clock::{Clock, ManualClock};
use crate::driver::Part;
use crate::driver::testing::{FakeApi, Running, SLICES, eventually};

fn clock() -> ManualClock {
    ManualClock::new("2026-12-01T12:00:00Z".parse().unwrap())
}

/// Lets `time` pass in small steps, so that whoever wakes can go to sleep again.
async fn pass(clock: &ManualClock, time: Duration) {
    let step = Duration::from_millis(500);
    for _ in 0..time.as_millis() / step.as_millis() {
        clock.advance(step);
        // Requests cross several tasks.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

fn delete_slices(api: &FakeApi) {
    for slice in api.slices() {
        api.remove(&format!("{SLICES}/{}", slice["metadata"]["name"].as_str().unwrap()));
    }
}

#[tokio::test]
async fn a_kubelet_that_looks_elsewhere_is_told_of() {
    let (api, folder) = lab();
    let clock = clock();
    let mut driver = Running::start_at(&api, &folder, 1, Arc::new(clock.clone()), |_| {});
    driver.until(|status| status.published.is_some()).await;
    pass(&clock, Duration::from_secs(28)).await;
    assert!(driver.status.borrow().trouble.is_empty());
    pass(&clock, Duration::from_secs(4)).await;
    let registry = folder.path().join("registry").display().to_string();
    driver
        .until(|status| status.trouble.get(&Part::Registration).is_some_and(|text| text.contains(&registry) && text.contains("for 30 s")))
        .await;
    register(&driver).await;
    pass(&clock, Duration::from_secs(1)).await;
    driver.until(|status| status.trouble.is_empty()).await;
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn an_api_server_away_for_minutes_is_asked_now_and_then_and_caught_up_with() {
    let (api, folder) = lab();
    api.set_offline(true);
    let clock = clock();
    let mut driver = Running::start_at(&api, &folder, 8, Arc::new(clock.clone()), |_| {});
    driver.until(|status| status.serving && !status.trouble.is_empty()).await;
    pass(&clock, Duration::from_secs(600)).await;
    let asked = api.requests().len();
    assert!((30..=90).contains(&asked), "asked {asked} times in 10 minutes");
    api.set_offline(false);
    pass(&clock, Duration::from_secs(11)).await;
    driver.until(|status| status.published == Some(1) && !status.trouble.contains_key(&Part::Publishing)).await;
    // Away again, while somebody deletes the slice.
    api.set_offline(true);
    delete_slices(&api);
    pass(&clock, Duration::from_secs(120)).await;
    api.compact();
    api.set_offline(false);
    pass(&clock, Duration::from_secs(11)).await;
    eventually("it is published again", || api.slices().len() == 1).await;
    driver.stop().await.unwrap();
}

#[tokio::test]
async fn a_watch_that_is_lost_without_a_word_is_replaced_in_five_minutes() {
    let (api, folder) = lab();
    let clock = clock();
    let mut driver = Running::start_at(&api, &folder, 8, Arc::new(clock.clone()), |_| {});
    driver.until(|status| status.published.is_some()).await;
    pass(&clock, Duration::from_secs(1)).await;
    api.lose_watches();
    delete_slices(&api);
    pass(&clock, Duration::from_secs(290)).await;
    assert!(api.slices().is_empty(), "nobody has told the driver");
    pass(&clock, Duration::from_secs(11)).await;
    eventually("a new watch tells", || api.slices().len() == 1).await;
    driver.stop().await.unwrap();
}

/// The system's timers under a calendar that jumps.
#[derive(Clone, Debug)]
struct Jumping(Arc<Mutex<Timestamp>>);

impl Clock for Jumping {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(delay))
    }
}

#[tokio::test]
async fn a_clock_that_jumps_keeps_nothing_from_being_repaired() {
    let (api, folder) = lab();
    let calendar = Arc::new(Mutex::new("2026-12-01T12:00:00Z".parse().unwrap()));
    let mut driver = Running::start_at(&api, &folder, 8, Arc::new(Jumping(Arc::clone(&calendar))), |_| {});
    driver.until(|status| status.published.is_some()).await;
    let spec = api.slices()[0]["spec"].clone();
    for jump in ["2027-12-01T12:00:00Z", "2020-01-01T00:00:00Z", "2026-12-01T12:00:00Z"] {
        // In the middle of a fight, when the next repair has a time set.
        for _ in 0..2 {
            delete_slices(&api);
            eventually("it is back", || api.slices().first().is_some_and(|slice| slice["spec"] == spec)).await;
        }
        *calendar.lock().unwrap() = jump.parse().unwrap();
        delete_slices(&api);
        eventually("it is back", || api.slices().first().is_some_and(|slice| slice["spec"] == spec)).await;
    }
    driver.stop().await.unwrap();
}
