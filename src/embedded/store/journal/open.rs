//! Opening a journal: lock, header, records, and what to do where they end early.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::FIRST;
use super::format::{self, Entry, HEADER, Header, Record, VERSION};
use super::{COMPACT_FROM, FILE, Journal, LOCK, OpenError, Recovery, create};

/// What a journal held.
#[derive(Debug)]
pub(in super::super) struct Opened {
    pub(in super::super) journal: Journal,
    /// The revision of the base state.
    pub(in super::super) base: u64,
    /// The base state and the changes since, in their order, each with the size of its record.
    pub(in super::super) content: Vec<(Content, u64)>,
    /// What was cut off.
    pub(in super::super) recovery: Option<Recovery>,
}

/// A record that matters to the store.
#[derive(Debug)]
pub(in super::super) enum Content {
    Kept(Entry),
    Put(Entry),
    Delete(Entry),
}

const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// How one version's objects become the next version's; the first is for version 1.
pub(in super::super) type Upgrade = fn(&mut Entry);
const UPGRADES: &[Upgrade] = &[];
const _: () = assert!(UPGRADES.len() as u32 + 1 == VERSION, "every older version has its upgrade");

/// Opens the journal in a folder, or begins one.
pub(in super::super) fn open(dir: &Path) -> Result<Opened, OpenError> {
    open_with(dir, VERSION, UPGRADES)
}

/// The same for a build whose version is `version`.
pub(super) fn open_with(dir: &Path, version: u32, upgrades: &[Upgrade]) -> Result<Opened, OpenError> {
    fs::create_dir_all(dir).map_err(io_error("create", dir))?;
    let lock = lock(dir)?;
    let path = dir.join(FILE);
    let (file, bytes) = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => {
            let bytes = fs::read(&path).map_err(io_error("read", &path))?;
            (file, bytes)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut content = format::header(version).to_vec();
            content.extend_from_slice(&format::base(FIRST, 0));
            (create(&path, &content).map_err(io_error("create", &path))?, content)
        }
        Err(error) => return Err(io_error("open", &path)(error)),
    };
    let found = match format::read_header(&bytes) {
        Header::Version(found) => found,
        Header::Foreign => return Err(OpenError::Foreign { file: path }),
        Header::Damaged => return Err(OpenError::Damaged { file: path, offset: 0, what: "the header is not what was written" }),
    };
    if found > version {
        return Err(OpenError::Newer { file: path, found, known: version });
    }
    let mut scanned = scan(&path, &bytes)?;
    let mut journal = Journal { path, file, end: scanned.end as u64, unclean: false, dirty: true, compact_at: COMPACT_FROM, _lock: lock };
    let recovery = if scanned.end < bytes.len() { Some(cut(&mut journal, &bytes[scanned.end..])?) } else { None };
    if found < version {
        migrate(&mut journal, found, version, upgrades, &mut scanned)?;
    }
    Ok(Opened { journal, base: scanned.base, content: scanned.content, recovery })
}

fn io_error(what: &'static str, file: &Path) -> impl FnOnce(io::Error) -> OpenError + use<> {
    let file = file.to_owned();
    move |source| OpenError::Io { what, file, source }
}

/// The folder belongs to one process at a time; the lock ends with the process, however that ends.
fn lock(dir: &Path) -> Result<File, OpenError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(io_error("open", &path))?;
    for attempt in 1.. {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            // A process that is ending, or one that is between fork and exec, holds it for a moment longer.
            Err(fs::TryLockError::WouldBlock) if attempt < LOCK_ATTEMPTS => std::thread::sleep(LOCK_PAUSE),
            Err(fs::TryLockError::WouldBlock) => break,
            Err(fs::TryLockError::Error(error)) => return Err(io_error("lock", &path)(error)),
        }
    }
    Err(OpenError::InUse { dir: dir.to_owned() })
}

struct Scanned {
    base: u64,
    content: Vec<(Content, u64)>,
    /// Where the sound part ends.
    end: usize,
}

fn scan(path: &Path, bytes: &[u8]) -> Result<Scanned, OpenError> {
    let damaged = |offset: usize, what| OpenError::Damaged { file: path.to_owned(), offset: offset as u64, what };
    let mut at = HEADER;
    let mut base = None;
    let mut content = Vec::new();
    let mut last = 0;
    while at < bytes.len() {
        let Some((payload, size)) = format::frame(&bytes[at..]) else {
            if was_synced(bytes, at) || base.is_none() {
                return Err(damaged(at, "a record is not what was written"));
            }
            break;
        };
        let record = format::parse(payload).ok_or_else(|| damaged(at, "a record cannot be understood"))?;
        let in_base = base.is_some_and(|(_, objects)| (content.len() as u64) < objects);
        match record {
            Record::Base { revision, objects } if base.is_none() => {
                last = revision;
                base = Some((revision, objects));
            }
            Record::Kept(entry) if in_base => content.push((Content::Kept(entry), size as u64)),
            Record::Put(entry) if base.is_some() && !in_base && entry.revision > last => {
                last = entry.revision;
                content.push((Content::Put(entry), size as u64));
            }
            Record::Delete(entry) if base.is_some() && !in_base && entry.revision > last => {
                last = entry.revision;
                content.push((Content::Delete(entry), size as u64));
            }
            Record::Synced { offset } if base.is_some() && !in_base && offset <= at as u64 => {}
            _ => return Err(damaged(at, "a record is out of place")),
        }
        at += size;
    }
    match base {
        Some((revision, objects)) if content.len() as u64 >= objects => Ok(Scanned { base: revision, content, end: at }),
        _ => Err(damaged(at, "the state it begins with is not complete")),
    }
}

/// Whether the disk once had everything up to a point after `at`: then what is unreadable there is no unfinished write.
fn was_synced(bytes: &[u8], at: usize) -> bool {
    let mut from = at + 1;
    while let Some(found) = format::next_frame(bytes, from) {
        let Some((payload, size)) = format::frame(&bytes[found..]) else { return false };
        if matches!(format::parse(payload), Some(Record::Synced { offset }) if offset > at as u64) {
            return true;
        }
        from = found + size;
    }
    false
}

/// Keeps the unfinished end in a file of its own and shortens the journal.
fn cut(journal: &mut Journal, tail: &[u8]) -> Result<Recovery, OpenError> {
    let offset = journal.end;
    let kept = unused(&journal.path, &format!("cut-at-{offset}"));
    fs::write(&kept, tail).map_err(io_error("write", &kept))?;
    File::open(&kept).and_then(|file| file.sync_all()).map_err(io_error("sync", &kept))?;
    journal.file.set_len(offset).map_err(io_error("shorten", &journal.path))?;
    Ok(Recovery { offset, bytes: tail.len() as u64, kept })
}

/// A name beside the journal that nothing has yet.
fn unused(path: &Path, what: &str) -> PathBuf {
    let name = |suffix: &str| path.with_file_name(format!("{FILE}.{what}{suffix}"));
    let plain = name("");
    if !plain.exists() {
        return plain;
    }
    (2..u32::MAX).map(|n| name(&format!(".{n}"))).find(|path| !path.exists()).unwrap_or(plain)
}

/// Copies an older journal and writes it afresh in this build's version.
fn migrate(journal: &mut Journal, found: u32, version: u32, upgrades: &[Upgrade], scanned: &mut Scanned) -> Result<(), OpenError> {
    let copy = unused(&journal.path, &format!("version-{found}"));
    fs::copy(&journal.path, &copy).map_err(io_error("copy", &journal.path))?;
    File::open(&copy).and_then(|file| file.sync_all()).map_err(io_error("sync", &copy))?;
    let steps = upgrades.get(usize::try_from(found).unwrap_or(usize::MAX).saturating_sub(1)..).unwrap_or_default();
    let kept = scanned.content.iter().filter(|(content, _)| matches!(content, Content::Kept(_))).count();
    let mut bytes = format::header(version).to_vec();
    bytes.extend_from_slice(&format::base(scanned.base, kept as u64));
    for (content, size) in &mut scanned.content {
        let record = match content {
            Content::Kept(entry) => {
                steps.iter().for_each(|step| step(entry));
                format::kept(&entry.collection, &entry.key, entry.revision, &entry.object)
            }
            Content::Put(entry) => {
                steps.iter().for_each(|step| step(entry));
                format::put(&entry.collection, &entry.key, entry.revision, &entry.object)
            }
            Content::Delete(entry) => {
                steps.iter().for_each(|step| step(entry));
                format::delete(&entry.collection, &entry.key, entry.revision)
            }
        };
        *size = record.len() as u64;
        bytes.extend_from_slice(&record);
    }
    journal.file = create(&journal.path, &bytes).map_err(io_error("write", &journal.path))?;
    journal.end = bytes.len() as u64;
    Ok(())
}
