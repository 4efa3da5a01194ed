//! Every lesson is proven: its files by reading them, and on an embedded cluster in this process red at the start, green after
//! the solution, red after a reset, every diagnosis reached.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dralab::base::clock::{Clock, SharedClock, SystemClock};
use dralab::cli::cmd::tour::parses;
use dralab::client::apply::{self, How};
use dralab::client::{Kinds, manifests, wait};
use dralab::cluster::install::remove;
use dralab::driver::Profile;
use dralab::embedded::assemble::{Cluster, ClusterConfig, NodeConfig};
use dralab::embedded::http;
use dralab::embedded::store::Store;
use dralab::lessons::library::Entry;
use dralab::lessons::progress::Progress;
use dralab::lessons::run::{self, Ended};
use dralab::lessons::session::Session;
use dralab::lessons::template::{Names, Place};
use dralab::lessons::verify::Patience;
use dralab::lessons::{Library, lint};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::runtime::watcher;

/// A clock that runs faster than the machine's, so that back-offs of seconds do not make the tests wait.
#[derive(Debug)]
struct FastClock {
    began: Timestamp,
    at: Instant,
    times: u32,
}

impl Clock for FastClock {
    fn now(&self) -> Timestamp {
        self.began.checked_add(self.at.elapsed() * self.times).expect("a time")
    }

    fn sleep(&self, delay: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(delay / self.times))
    }
}

struct Lab {
    cluster: Cluster,
    client: kube::Client,
    kinds: Kinds,
    dir: tempfile::TempDir,
}

impl Lab {
    async fn up() -> Self {
        let dir = tempfile::tempdir().expect("a temp dir");
        let node = |name: &str, short: &str| {
            let below = |what: &str| {
                let path = dir.path().join(short).join(what);
                std::fs::create_dir_all(&path).expect("a folder");
                path
            };
            NodeConfig { name: name.to_owned(), registry: below("r"), plugins: below("p"), cdi: below("c"), state: below("s") }
        };
        let config = ClusterConfig {
            lab: "dra-lab".to_owned(),
            control_plane: node("dra-lab-control-plane", "0"),
            workers: vec![node("dra-lab-worker", "1")],
            profile: Profile::load("default").expect("the default profile"),
            gpus: None,
            port: 0,
            token: "test".to_owned(),
        };
        let clock: SharedClock = Arc::new(FastClock { began: SystemClock.now(), at: Instant::now(), times: 25 });
        let store = Store::in_memory();
        let cluster = Cluster::start(config, store, clock).await.expect("a cluster");
        let client = http::client(&cluster.api);
        let kinds = Kinds::discover(&client).await.expect("discovery");
        for class in manifests::read("deviceclass.yaml", include_str!("../../manifests/deviceclass.yaml")).expect("the class") {
            apply::apply(&client, &kinds, &class, "", How::default()).await.expect("it is applied");
        }
        let slices = apply::api_of(&client, kinds.find("resourceslices").expect("slices are served"), "");
        wait::until(
            slices,
            watcher::Config::default(),
            Duration::from_secs(20),
            "slices",
            |all| (!all.is_empty()).then_some(()),
            |all| format!("{} slices", all.len()),
        )
        .await
        .expect("the driver publishes");
        Lab { cluster, client, kinds, dir }
    }

    fn session<'e>(&self, entry: &'e Entry) -> Session<'e> {
        self.session_at(entry, Place::of_lab("dra-lab"))
    }

    fn session_at<'e>(&self, entry: &'e Entry, place: Place) -> Session<'e> {
        let work = self.dir.path().join(format!("work-{}", place.learner.as_deref().unwrap_or_default()));
        let names = Names::new(&place, &entry.lesson.namespace(), &work.display().to_string(), "dralab");
        Session { client: self.client.clone(), kinds: self.kinds.clone(), entry, place, names, work, manager: apply::MANAGER }
    }
}

fn library() -> Library {
    Library::embedded().expect("the lessons can be read")
}

#[test]
fn files_and_prose_are_complete() {
    let library = library();
    let ids: Vec<&str> = library.entries().iter().map(|e| e.lesson.id.as_str()).collect();
    // Progress is kept by id: ids that have shipped do not change.
    assert_eq!(ids, ["some-gpu", "why-is-it-pending", "selectors", "a-claim-per-pod", "sharing", "one-two-four", "all-eight"]);
    for (index, entry) in library.entries().iter().enumerate() {
        assert_eq!(entry.number as usize, index + 1, "{}", entry.folder);
        assert_eq!(lint::files(entry, &parses), [""; 0], "{}", entry.folder);
    }
}

/// The words that tell a learner who is stuck that it is their fault.
#[test]
fn prose_never_calls_it_easy() {
    for entry in library().entries() {
        for heading in entry.english.headings() {
            let text = entry.english.section(heading).unwrap_or_default().to_lowercase();
            for word in ["simply", "obviously", "of course", "trivial"] {
                assert!(!text.contains(word), "{} {heading}: {word}", entry.folder);
            }
        }
    }
}

#[test]
fn lesson_one_is_the_tutorial_word_for_word() {
    let library = library();
    let entry = library.find("some-gpu").expect("lesson one");
    let names = Names::new(&Place::of_lab("dra-lab"), &entry.lesson.namespace(), "/work", "dralab");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/tutorial");
    for (file, manifest) in [("claim.yaml", "01-claim.yaml"), ("pod.yaml", "02-pod.yaml")] {
        let expected = std::fs::read_to_string(cases.join(manifest)).expect("the tutorial's manifest");
        for folder in ["work", "solution"] {
            let ours = names.fill(entry.file(&format!("{folder}/{file}")).expect("the lesson's file"));
            assert_eq!(ours, expected, "{folder}/{file}");
        }
    }
}

/// Each lesson on a cluster of its own, all at once.
#[tokio::test(flavor = "multi_thread")]
async fn every_lesson_plays() {
    let library = library();
    let plays = library.entries().iter().map(|entry| async {
        let lab = Lab::up().await;
        let session = lab.session(entry);
        assert_eq!(session.lacks().await.expect("slices"), None, "{}", entry.folder);
        let faults = lint::play(&session, SystemClock.now()).await;
        lab.cluster.stop().await;
        let faults = faults.unwrap_or_else(|error| vec![error.to_string()]);
        faults.into_iter().map(|fault| format!("{}: {fault}", entry.folder)).collect::<Vec<_>>()
    });
    assert_eq!(futures::future::join_all(plays).await.concat(), [""; 0]);
}

/// Two learners play the same lessons on the same cluster at the same time, each in namespaces of their own.
#[tokio::test(flavor = "multi_thread")]
async fn two_learners_do_not_meet() {
    let library = library();
    let lab = Lab::up().await;
    let play = |learner: &'static str| {
        let (lab, library) = (&lab, &library);
        async move {
            let place = Place { learner: Some(learner.to_owned()), ..Place::of_lab("dra-lab") };
            for id in ["some-gpu", "a-claim-per-pod"] {
                let session = lab.session_at(library.find(id).expect(id), place.clone());
                assert!(session.names.namespace().ends_with(&format!("-{learner}")), "{}", session.names.namespace());
                let mut progress = Progress::default();
                let ended = run::unattended(&session, &mut progress, SystemClock.now(), Patience::default(), &mut |_| {}).await;
                assert!(matches!(ended, Ok(Ended::Passed)), "{learner} {id}: {ended:?}");
            }
            remove::lesson_namespaces(&lab.client, &lab.kinds, "dra-lab", Some(learner)).await.expect("a list")
        }
    };
    let (ann, bob) = futures::future::join(play("ann"), play("bob")).await;
    assert_eq!(ann, ["dra-tutorial-ann", "lesson-a-claim-per-pod-ann"]);
    assert_eq!(bob, ["dra-tutorial-bob", "lesson-a-claim-per-pod-bob"]);
    // A lab that is nobody's in particular has none of these.
    let nobodys = remove::lesson_namespaces(&lab.client, &lab.kinds, "dra-lab", None).await.expect("a list");
    assert_eq!(nobodys, [""; 0]);
    lab.cluster.stop().await;
}
