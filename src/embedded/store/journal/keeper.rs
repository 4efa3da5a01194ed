//! The thread that syncs the journal and writes it afresh when it has grown.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::{Shared, State};
use super::format::{self, Record};
use super::{COMPACT_FROM, Journal, sync_folder};

/// A change is on the disk within about this time. The machine's time, not the lab's: it is about the machine's disk.
const SYNC_WITHIN: Duration = Duration::from_secs(1);

/// Owns the thread; dropping it syncs and ends it.
#[derive(Debug)]
pub(in super::super) struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(in super::super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("store-journal".to_owned()).spawn(move || run(&theirs))?;
        Ok(Keeper { shared: shared.clone(), thread: Some(thread) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread has been printed by the panic hook; there is nothing to add.
            let _ = thread.join();
        }
    }
}

fn run(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        // Sleeps while there is nothing to do, then gathers for a moment what else comes.
        let idle = |state: &mut State| !state.stopping && !state.is_dirty();
        state = shared.wake.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner);
        let gathering = |state: &mut State| !state.stopping;
        state = shared.wake.wait_timeout_while(state, SYNC_WITHIN, gathering).unwrap_or_else(PoisonError::into_inner).0;
        let stopping = state.stopping;
        drop(state);
        sync(shared);
        if !stopping
            && shared.lock().outgrown()
            && let Err(error) = compact(shared)
        {
            tracing::warn!(%error, "cannot write the journal afresh; it goes on growing");
            shared.lock().compact_later();
        }
        if stopping {
            return;
        }
        state = shared.lock();
    }
}

fn sync(shared: &Shared) {
    let begun = shared.lock().journal.as_mut().map(Journal::begin_sync);
    let Some(begun) = begun else { return };
    // Without the lock: commits go on while the disk works.
    let synced = begun.and_then(|(file, end)| file.sync_data().map(|()| end));
    let mut state = shared.lock();
    let Some(journal) = state.journal.as_mut() else { return };
    match synced {
        Ok(end) => journal.note_synced(end),
        Err(error) => {
            tracing::warn!(%error, "cannot sync the journal");
            journal.dirty = true;
        }
    }
}

/// Writes the live objects to a new file, adds what has been committed meanwhile, and puts it in the old one's place.
pub(in super::super) fn compact(shared: &Shared) -> io::Result<()> {
    let (path, begun, base, objects) = {
        let state = shared.lock();
        let Some(journal) = state.journal.as_ref() else { return Ok(()) };
        (journal.path.clone(), journal.end, state.revision, state.live())
    };
    let fresh = path.with_extension("new");
    let done = (|| {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&fresh)?;
        let mut out = io::BufWriter::new(&file);
        out.write_all(&format::header(format::VERSION))?;
        out.write_all(&format::base(base, objects.len() as u64))?;
        for (collection, key, entry) in &objects {
            out.write_all(&format::kept(collection, key, entry.revision, &entry.object))?;
        }
        out.flush()?;
        drop(out);
        file.sync_all()?;

        let mut state = shared.lock();
        let live = state.live_bytes;
        let Some(journal) = state.journal.as_mut() else { return Ok(()) };
        let mut end = file.metadata()?.len();
        let mut since = vec![0; usize::try_from(journal.end - begun).unwrap_or_default()];
        journal.file.read_exact_at(&mut since, begun)?;
        let mut at = 0;
        while let Some((payload, size)) = since.get(at..).and_then(format::frame) {
            // Notes of syncs speak of the old file.
            if !matches!(format::parse(payload), Some(Record::Synced { .. })) {
                file.write_all_at(&since[at..at + size], end)?;
                end += size as u64;
            }
            at += size;
        }
        file.sync_data()?;
        fs::rename(&fresh, &path)?;
        sync_folder(&path)?;
        journal.file = file;
        journal.end = end;
        journal.unclean = false;
        journal.dirty = false;
        journal.compact_at = COMPACT_FROM.max(live.saturating_mul(3));
        journal.note_synced(end);
        Ok(())
    })();
    if done.is_err() {
        // What failed is said already; the file may not exist.
        let _ = fs::remove_file(&fresh);
    }
    done
}

impl State {
    fn is_dirty(&self) -> bool {
        self.journal.as_ref().is_some_and(Journal::is_dirty)
    }

    fn outgrown(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| journal.end > journal.compact_at.max(self.live_bytes.saturating_mul(3)))
    }

    fn compact_later(&mut self) {
        if let Some(journal) = self.journal.as_mut() {
            journal.compact_at = journal.end.saturating_mul(2);
        }
    }
}
