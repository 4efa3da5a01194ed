use serde_json::json;

use super::{ChangeKind, Expect, Next, Store, StoreError};

fn object(name: &str, x: u64) -> serde_json::Value {
    json!({"metadata": {"name": name}, "x": x})
}

#[test]
fn a_put_sets_the_revision_and_expectations_are_kept() {
    let store = Store::in_memory();
    let first = store.put("c", "a", Expect::Absent, object("a", 1)).unwrap();
    assert_eq!(first.object["metadata"]["resourceVersion"], json!(first.revision.to_string()));
    assert!(matches!(store.put("c", "a", Expect::Absent, object("a", 2)), Err(StoreError::Expectation { found: Some(_) })));
    assert!(matches!(store.put("c", "b", Expect::Revision(7), object("b", 2)), Err(StoreError::Expectation { found: None })));
    let second = store.put("c", "a", Expect::Revision(first.revision), object("a", 2)).unwrap();
    assert_eq!(second.revision, first.revision + 1);
    assert!(matches!(store.remove("c", "a", first.revision), Err(StoreError::Expectation { .. })));
    assert_eq!(store.remove("c", "a", second.revision).unwrap().revision, second.revision + 1);
    assert!(store.get("c", "a").is_none());
}

#[test]
fn keys_order_as_one_string_and_prefixes_bound_a_namespace() {
    let store = Store::in_memory();
    for key in ["a/x", "a-b/x", "ab/x", "a/w"] {
        store.put("c", key, Expect::Absent, object(key, 0)).unwrap();
    }
    let keys = |prefix: &str| store.list("c", prefix).items.iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>();
    assert_eq!(keys(""), ["a-b/x", "a/w", "a/x", "ab/x"]);
    assert_eq!(keys("a/"), ["a/w", "a/x"]);
}

#[test]
fn a_list_of_the_past_shows_the_past() {
    let store = Store::in_memory();
    let a = store.put("c", "n/a", Expect::Absent, object("a", 1)).unwrap();
    let b = store.put("c", "n/b", Expect::Absent, object("b", 1)).unwrap();
    let then = store.revision();
    store.put("c", "n/a", Expect::Revision(a.revision), object("a", 2)).unwrap();
    store.remove("c", "n/b", b.revision).unwrap();
    store.put("c", "n/c", Expect::Absent, object("c", 1)).unwrap();
    let past = store.list_at("c", "n/", then).unwrap();
    let shown: Vec<_> = past.items.iter().map(|(key, object)| (key.to_string(), object["x"].clone())).collect();
    assert_eq!(shown, [("n/a".to_owned(), json!(1)), ("n/b".to_owned(), json!(1))]);
}

#[test]
fn the_history_is_bounded() {
    let store = Store::in_memory();
    let mut revision = store.put("c", "a", Expect::Absent, object("a", 0)).unwrap().revision;
    let first = revision;
    for x in 0..3000 {
        revision = store.put("c", "a", Expect::Revision(revision), object("a", x)).unwrap().revision;
    }
    assert!(matches!(store.subscribe("c", "", first), Err(StoreError::TooOld { asked, oldest }) if asked == first && oldest > first));
    assert!(store.subscribe("c", "", revision - 2000).is_ok());
}

#[tokio::test]
async fn a_subscription_replays_then_follows_and_ends_with_the_store() {
    let store = Store::in_memory();
    let from = store.revision();
    let a = store.put("c", "n/a", Expect::Absent, object("a", 1)).unwrap();
    let mut changes = store.subscribe("c", "n/", from).unwrap();
    store.put("c", "m/a", Expect::Absent, object("a", 1)).unwrap();
    store.remove("c", "n/a", a.revision).unwrap();
    let Next::Change(added) = changes.next().await else { panic!("a change") };
    assert_eq!((added.kind, added.revision), (ChangeKind::Added, a.revision));
    let Next::Change(gone) = changes.next().await else { panic!("a change") };
    assert_eq!((gone.kind, &gone.object["x"]), (ChangeKind::Deleted, &json!(1)));
    assert_eq!(gone.object["metadata"]["resourceVersion"], json!(gone.revision.to_string()));
    store.close();
    assert!(matches!(changes.next().await, Next::Closed));
    assert!(matches!(store.put("c", "x", Expect::Absent, object("x", 1)), Err(StoreError::Closed)));
}

#[tokio::test]
async fn a_reader_that_is_too_slow_is_cut_off_and_told() {
    let store = Store::in_memory();
    let mut changes = store.subscribe("c", "", store.revision()).unwrap();
    let mut revision = store.put("c", "a", Expect::Absent, object("a", 0)).unwrap().revision;
    for x in 0..20_000 {
        revision = store.put("c", "a", Expect::Revision(revision), object("a", x)).unwrap().revision;
    }
    let mut seen = 0;
    loop {
        match changes.next().await {
            Next::Change(_) => seen += 1,
            Next::FellBehind(_) => break,
            Next::Closed => panic!("not closed"),
        }
    }
    assert!(seen >= 10_000);
}
