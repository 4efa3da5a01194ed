use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Expect, Next, Store, StoreError};
use super::format::{self, Entry};
use super::open::open_with;
use super::{FILE, OpenError, keeper};

fn object(x: u64) -> Value {
    json!({"metadata": {"name": "a"}, "x": x, "filler": "f".repeat(40)})
}

/// Creates or changes.
fn set(store: &Store, key: &str, x: u64) -> u64 {
    let expect = store.get("c", key).map_or(Expect::Absent, |entry| Expect::Revision(entry.revision));
    store.put("c", key, expect, object(x)).unwrap().revision
}

fn remove(store: &Store, key: &str) {
    store.remove("c", key, store.get("c", key).unwrap().revision).unwrap();
}

fn content(store: &Store) -> (u64, BTreeMap<String, (u64, Value)>) {
    let list = store.list("c", "");
    let item = |(key, object): (std::sync::Arc<str>, std::sync::Arc<Value>)| {
        (key.to_string(), (store.get("c", &key).unwrap().revision, (*object).clone()))
    };
    (list.revision, list.items.into_iter().map(item).collect())
}

/// Ends like a process that is killed: nothing more is written, and the lock goes. The thread must not note a sync.
fn drop_unsynced(store: Store) {
    store.lock().journal = None;
    drop(store);
}

fn fill(dir: &Path) -> Store {
    let store = Store::open(dir).unwrap();
    set(&store, "a", 1);
    set(&store, "b", 2);
    set(&store, "a", 3);
    remove(&store, "b");
    set(&store, "c", 4);
    store
}

#[test]
fn what_was_committed_is_there_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    let before = content(&store);
    drop_unsynced(store);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(content(&store), before);
    assert_eq!(store.recovery(), None);
    assert_eq!(set(&store, "d", 5), before.0 + 1, "the revisions go on");
}

#[tokio::test]
async fn a_watch_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let from = set(&store, "a", 1);
    set(&store, "a", 2);
    remove(&store, "a");
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let mut changes = store.subscribe("c", "", from).unwrap();
    let Next::Change(change) = changes.next().await else { panic!("a change") };
    assert_eq!(change.object["x"], 2);
    assert_eq!(change.previous.as_ref().unwrap()["x"], 1);
    let Next::Change(change) = changes.next().await else { panic!("a change") };
    assert_eq!((change.kind, &change.object["x"]), (super::super::ChangeKind::Deleted, &json!(2)));
}

#[test]
fn one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert!(matches!(Store::open(dir.path()), Err(OpenError::InUse { .. })));
    drop(store);
    Store::open(dir.path()).unwrap();
}

#[test]
fn an_unfinished_record_is_cut_off_wherever_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    let before = content(&store);
    let sound = store.lock().journal.as_ref().unwrap().end;
    set(&store, "a", 9);
    drop_unsynced(store);
    let path = dir.path().join(FILE);
    let whole = fs::read(&path).unwrap();
    for length in usize::try_from(sound).unwrap()..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let store = Store::open(dir.path()).unwrap();
        assert_eq!(content(&store), before, "{length}");
        let torn = length as u64 - sound;
        match store.recovery() {
            None => assert_eq!(torn, 0),
            Some(recovery) => {
                assert_eq!((recovery.offset, recovery.bytes), (sound, torn));
                assert_eq!(fs::read(&recovery.kept).unwrap(), &whole[usize::try_from(sound).unwrap()..length]);
            }
        }
        drop_unsynced(store);
        assert_eq!(fs::metadata(&path).unwrap().len(), sound);
    }
}

#[test]
fn damage_before_the_last_sync_is_an_error_and_nothing_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    let before = content(&store);
    drop(store);
    let path = dir.path().join(FILE);
    let whole = fs::read(&path).unwrap();
    let note = whole.len() - format::synced(0).len();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x04;
        fs::write(&path, &flipped).unwrap();
        match Store::open(dir.path()) {
            Err(OpenError::Damaged { offset, .. }) => assert!(at < note && offset <= at as u64, "{at}: {offset}"),
            Err(OpenError::Foreign { .. } | OpenError::Newer { .. }) => panic!("{at}: a flipped bit is damage"),
            Err(error) => panic!("{at}: {error}"),
            Ok(store) => {
                assert!(at >= note, "{at}: damage was not seen");
                assert_eq!(content(&store), before);
                continue;
            }
        }
        assert_eq!(fs::read(&path).unwrap(), flipped, "{at}: the file was touched");
    }
}

#[test]
fn a_hole_that_a_power_cut_left_ends_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    let before = content(&store);
    let sound = usize::try_from(store.lock().journal.as_ref().unwrap().end).unwrap();
    set(&store, "a", 9);
    set(&store, "a", 10);
    drop_unsynced(store);
    let path = dir.path().join(FILE);
    let mut bytes = fs::read(&path).unwrap();
    // The first of two unsynced records did not reach the disk, the second did.
    bytes[sound..sound + 30].fill(0);
    fs::write(&path, &bytes).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(content(&store), before);
    assert_eq!(store.recovery().unwrap().offset, sound as u64);
}

#[test]
fn other_files_and_newer_versions_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE);
    for (bytes, newer) in [(b"not a journal at all".to_vec(), false), (Vec::new(), false), (format::header(99).to_vec(), true)] {
        fs::write(&path, &bytes).unwrap();
        match Store::open(dir.path()) {
            Err(OpenError::Newer { found: 99, known: 1, .. }) if newer => {}
            Err(OpenError::Foreign { .. }) if !newer => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), bytes);
    }
}

#[test]
fn an_older_version_is_copied_and_then_migrated() {
    fn add(entry: &mut Entry) {
        if !entry.object.is_null() {
            entry.object["migrated"] = json!(true);
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    let before = content(&store);
    drop(store);
    let path = dir.path().join(FILE);
    let old = fs::read(&path).unwrap();
    drop(open_with(dir.path(), 2, &[add]).unwrap());
    assert_eq!(fs::read(dir.path().join(format!("{FILE}.version-1"))).unwrap(), old);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(format::read_header(&bytes), format::Header::Version(2));
    assert!(matches!(Store::open(dir.path()), Err(OpenError::Newer { found: 2, known: 1, .. })));
    let again = open_with(dir.path(), 2, &[add]).unwrap();
    assert_eq!(again.content.len(), 5);
    assert_eq!(again.base, super::super::FIRST);
    let last = again.content.iter().rev().find_map(|(content, _)| match content {
        super::Content::Put(entry) => Some(entry.clone()),
        _ => None,
    });
    let last = last.unwrap();
    assert_eq!((last.key.as_str(), &last.object["migrated"], last.revision), ("c", &json!(true), before.0));
}

#[test]
fn writing_it_afresh_keeps_the_objects_and_what_comes_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    for x in 0..500 {
        set(&store, "a", x);
    }
    let path = dir.path().join(FILE);
    let large = fs::metadata(&path).unwrap().len();
    keeper::compact(&store.shared).unwrap();
    assert!(fs::metadata(&path).unwrap().len() * 20 < large);
    set(&store, "e", 1);
    remove(&store, "c");
    let before = content(&store);
    drop_unsynced(store);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(content(&store), before);
    let oldest = before.0 - 2;
    assert!(matches!(store.subscribe("c", "", oldest - 1), Err(StoreError::TooOld { .. })), "the history begins there");
    assert!(store.subscribe("c", "", oldest).is_ok());
    assert!(matches!(store.list_at("other", "", 1), Err(StoreError::TooOld { .. })));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_refuses_a_commit_and_leaves_everything_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = fill(dir.path());
    let before = content(&store);
    let full = fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let file = std::mem::replace(&mut store.lock().journal.as_mut().unwrap().file, full);
    let refused = store.put("c", "z", Expect::Absent, object(1)).unwrap_err();
    assert!(refused.to_string().contains("No space left on device"), "{refused}");
    assert_eq!(content(&store), before);
    // Half a record may have got to the disk; the next write removes it.
    use std::os::unix::fs::FileExt;
    let end = store.lock().journal.as_ref().unwrap().end;
    file.write_all_at(&format::put("c", "z", 99, &object(1))[..20], end).unwrap();
    store.lock().journal.as_mut().unwrap().file = file;
    set(&store, "z", 2);
    let after = content(&store);
    assert_eq!(after.0, before.0 + 1);
    drop_unsynced(store);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(content(&store), after);
    assert_eq!(store.recovery(), None);
}

const CHILD: &str = "DRALAB_TEST_STORE";

/// The process that [`whatever_was_acknowledged_survives_kill_9`] kills: writes and says what was acknowledged.
#[test]
#[ignore = "started by whatever_was_acknowledged_survives_kill_9"]
fn a_process_that_writes() {
    #[expect(clippy::disallowed_methods, reason = "how the parent tells its child, both of them this test")]
    let Some(dir) = std::env::var_os(CHILD) else { return };
    let store = Store::open(Path::new(&dir)).unwrap();
    let begin = store.revision();
    for n in begin.. {
        let key = format!("k{}", n % 17);
        if n % 5 == 0 && store.get("c", &key).is_some() {
            remove(&store, &key);
            say(&format!("ack {} {key} gone", store.revision()));
        } else {
            let revision = set(&store, &key, n);
            say(&format!("ack {revision} {key} {n}"));
        }
        if n % 97 == 0 {
            keeper::compact(&store.shared).unwrap();
        }
    }
}

fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

#[test]
fn whatever_was_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut known: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut last = 0;
    let mut total = 0;
    for round in 0..8u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "embedded::store::journal::tests::a_process_that_writes", "--ignored", "--nocapture", "--quiet"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Read until it has begun, then kill it after a time that differs from round to round.
        let mut acknowledged: Vec<String> =
            lines.by_ref().map(Result::unwrap).skip_while(|line| !line.starts_with("ack ")).take(1).collect();
        assert_eq!(acknowledged.len(), 1, "the child writes");
        std::thread::sleep(Duration::from_micros(500 + round * 3700 % 11_000));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged.extend(lines.map_while(Result::ok));
        for line in &acknowledged {
            let parts: Vec<&str> = line.split(' ').collect();
            // The last line may be cut short.
            if let ["ack", revision, key, value] = parts.as_slice()
                && let Ok(revision) = revision.parse::<u64>()
                && revision > last
            {
                known.insert((*key).to_owned(), (revision, (*value).to_owned()));
                last = revision;
                total += 1;
            }
        }
        let store = Store::open(dir.path()).unwrap();
        assert!(store.revision() >= last, "round {round}: {} of {last}", store.revision());
        for (key, (revision, value)) in &known {
            match store.get("c", key) {
                Some(entry) if entry.revision == *revision => assert_eq!(entry.object["x"].to_string(), *value),
                Some(entry) => assert!(entry.revision > last, "round {round}: {key} is at {}, not {revision}", entry.revision),
                None => assert!(value == "gone" || store.revision() > last, "round {round}: {key} is lost"),
            }
        }
        // One more commit than was said may have been written.
        for (key, (revision, _)) in content(&store).1 {
            known.entry(key).and_modify(|known| known.0 = known.0.max(revision));
        }
        let now = content(&store);
        known = now.1.into_iter().map(|(key, (revision, object))| (key, (revision, object["x"].to_string()))).collect();
        last = now.0;
        drop_unsynced(store);
    }
    assert!(total > 100, "only {total} commits were acknowledged");
}
