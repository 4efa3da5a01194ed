//! Tables of the queue: order, back-off, gates and wake-ups.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::super::hints::Plugin;
use super::super::view::{Key, PodView, Uid};
use super::{Counts, Queue};

fn at(millis: u64) -> Timestamp {
    Timestamp::UNIX_EPOCH + Duration::from_millis(millis)
}

fn pod(name: &str, priority: i32) -> Arc<PodView> {
    Arc::new(PodView::read(
        serde_json::from_value(json!({"metadata": {"namespace": "n", "name": name, "uid": name},
            "spec": {"containers": [], "priority": priority, "resourceClaims": [{"name": "c", "resourceClaimName": name}]}}))
        .expect("a pod"),
    ))
}

fn popped(queue: &mut Queue, millis: u64) -> Option<String> {
    queue.pop(at(millis)).map(|entry| entry.pod.key().name.clone())
}

#[test]
fn priority_then_time_then_arrival() {
    let mut queue = Queue::default();
    for (name, priority, millis) in [("late", 0, 5), ("first", 0, 1), ("second", 0, 1), ("high", 9, 9)] {
        queue.add(pod(name, priority), false, at(millis));
    }
    let order: Vec<_> = std::iter::from_fn(|| popped(&mut queue, 10)).collect();
    assert_eq!(order, ["high", "first", "second", "late"]);
}

#[test]
fn errors_back_off_to_ten_seconds() {
    let mut queue = Queue::default();
    queue.add(pod("p", 0), false, at(0));
    let mut now = 0;
    for wait in [2000, 3000, 5000, 9000, 11_000, 11_000] {
        assert_eq!(popped(&mut queue, now).as_deref(), Some("p"));
        queue.fail(&Uid::from("p"), at(now));
        assert_eq!(queue.next_due(), Some(at(now + wait)));
        assert_eq!(popped(&mut queue, now + wait - 1), None);
        now += wait;
    }
    assert_eq!(popped(&mut queue, now).as_deref(), Some("p"));
    queue.fail(&Uid::from("p"), at(now + 921));
    assert_eq!(queue.next_due(), Some(at(now + 11_000)), "the window that the back-off ends in");
}

#[test]
fn a_moved_pod_goes_before_its_back_off_if_nobody_is_active() {
    let mut queue = Queue::default();
    queue.add(pod("p", 0), false, at(0));
    assert_eq!(popped(&mut queue, 0).as_deref(), Some("p"));
    queue.reject(&Uid::from("p"), [Plugin::DynamicResources].into(), at(0));
    assert_eq!(popped(&mut queue, 1), None, "nothing has changed");
    queue.requeue(&Uid::from("p"), at(2));
    assert_eq!(queue.counts(), Counts { backoff: 1, ..Counts::default() });
    queue.add(pod("q", 0), false, at(3));
    assert_eq!(popped(&mut queue, 3).as_deref(), Some("q"));
    assert_eq!(popped(&mut queue, 3).as_deref(), Some("p"));
}

#[test]
fn after_five_minutes_a_pod_is_tried_again() {
    let mut queue = Queue::default();
    queue.add(pod("p", 0), false, at(0));
    popped(&mut queue, 0);
    queue.reject(&Uid::from("p"), BTreeSet::new(), at(0));
    assert_eq!(queue.next_due(), Some(at(300_000)));
    assert_eq!(popped(&mut queue, 299_999), None);
    assert_eq!(popped(&mut queue, 300_000).as_deref(), Some("p"));
}

#[test]
fn gated_pods_wait_for_their_claim() {
    let mut queue = Queue::default();
    queue.add(pod("p", 0), true, at(0));
    assert_eq!((popped(&mut queue, 0), queue.next_due()), (None, None));
    assert_eq!(queue.waiting_for(&Key::new("n", "p")).count(), 1);
    queue.requeue(&Uid::from("p"), at(1));
    assert_eq!(queue.waiting_for(&Key::new("n", "p")).count(), 0);
    assert_eq!(popped(&mut queue, 1).as_deref(), Some("p"));
}

#[derive(Clone, Debug)]
enum Step {
    Add(u8, bool),
    Pop,
    Reject,
    Fail,
    Requeue(u8),
    Gate(u8),
    Update(u8, i32),
    Remove(u8),
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..8_u8, any::<bool>()).prop_map(|(name, gated)| Step::Add(name, gated)),
        Just(Step::Pop),
        Just(Step::Reject),
        Just(Step::Fail),
        (0..8_u8).prop_map(Step::Requeue),
        (0..8_u8).prop_map(Step::Gate),
        (0..8_u8, 0..3).prop_map(|(name, priority)| Step::Update(name, priority)),
        (0..8_u8).prop_map(Step::Remove),
        any::<u16>().prop_map(Step::Wait),
    ]
}

proptest! {
    #[test]
    fn no_pod_is_lost_and_none_is_in_two_places(steps in proptest::collection::vec(step(), 0..80)) {
        let mut queue = Queue::default();
        let mut known: BTreeSet<String> = BTreeSet::new();
        let mut out: Vec<Uid> = Vec::new();
        let mut now = 0;
        for step in steps {
            match step {
                Step::Add(name, gated) => {
                    queue.add(pod(&name.to_string(), 0), gated, at(now));
                    known.insert(name.to_string());
                    out.retain(|uid| uid.as_str() != name.to_string());
                }
                Step::Pop => out.extend(queue.pop(at(now)).map(|entry| entry.pod.uid().clone())),
                Step::Reject => if let Some(uid) = out.pop() { queue.reject(&uid, BTreeSet::new(), at(now)) },
                Step::Fail => if let Some(uid) = out.pop() { queue.fail(&uid, at(now)) },
                Step::Requeue(name) => queue.requeue(&Uid::from(name.to_string().as_str()), at(now)),
                Step::Gate(name) => {
                    queue.gate(&Uid::from(name.to_string().as_str()));
                    out.retain(|uid| uid.as_str() != name.to_string());
                }
                Step::Update(name, priority) => queue.update(&pod(&name.to_string(), priority)),
                Step::Remove(name) => {
                    queue.remove(&Uid::from(name.to_string().as_str()));
                    known.remove(&name.to_string());
                    out.retain(|uid| uid.as_str() != name.to_string());
                }
                Step::Wait(millis) => now += u64::from(millis),
            }
            let counts = queue.counts();
            prop_assert_eq!(counts.active + counts.backoff + counts.unschedulable + counts.gated + counts.in_progress, known.len());
            prop_assert_eq!(counts.in_progress, out.len());
        }
        // Everybody comes out in the end, once all are moved and time has passed.
        for uid in out { queue.fail(&uid, at(now)) }
        for name in &known { queue.requeue(&Uid::from(name.as_str()), at(now)) }
        let mut seen = BTreeSet::new();
        while let Some(entry) = queue.pop(at(now + 400_000)) {
            prop_assert!(seen.insert(entry.pod.key().name.clone()));
        }
        prop_assert_eq!(seen, known);
    }
}
