//! The bytes of a journal.
//!
//! ```text
//! header   magic "DRALABJ\n" | version u32 | zero u32 | crc32 of these 16 bytes
//! record   marker FF D7 A1 FE | length u32 | crc32 of length and payload | payload
//! payload  kind u8 | number u64 | (entries only) collection and key, each with a u16 length | JSON
//! ```
//!
//! Numbers are little-endian. The marker cannot occur in JSON or in names (FF and FE are in no UTF-8), so that after
//! damage the next record can be found.

use serde_json::Value;

/// The version this build writes.
pub(super) const VERSION: u32 = 1;
/// Bytes of the header.
pub(super) const HEADER: usize = 20;

const MAGIC: &[u8; 8] = b"DRALABJ\n";
const MARKER: [u8; 4] = [0xFF, 0xD7, 0xA1, 0xFE];
/// Bytes of a record before its payload.
const FRAME: usize = 12;
/// More than any object can have: what says more is damaged.
const MOST: usize = 64 * 1024 * 1024;

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record {
    /// First record: the objects that follow as [`Record::Kept`] are the state at this revision, and this many.
    Base { revision: u64, objects: u64 },
    /// An object of the base state.
    Kept(Entry),
    /// An object was created or changed.
    Put(Entry),
    /// An object was removed; its value is null.
    Delete(Entry),
    /// Everything before this offset had reached the disk when this was written.
    Synced { offset: u64 },
}

/// An object in a record.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Entry {
    pub(in super::super) collection: String,
    pub(in super::super) key: String,
    pub(in super::super) revision: u64,
    pub(in super::super) object: Value,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// A journal of this version.
    Version(u32),
    /// Something else.
    Foreign,
    /// A journal, but its header is damaged.
    Damaged,
}

pub(super) fn header(version: u32) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&version.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..16]);
    bytes[16..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

pub(super) fn read_header(bytes: &[u8]) -> Header {
    let Some(bytes) = bytes.first_chunk::<HEADER>() else {
        return if !bytes.is_empty() && MAGIC.starts_with(&bytes[..bytes.len().min(8)]) { Header::Damaged } else { Header::Foreign };
    };
    let sound = number(&bytes[16..]) == crc32fast::hash(&bytes[..16]);
    match (bytes.starts_with(MAGIC), sound) {
        (true, true) => Header::Version(number(&bytes[8..])),
        (true, false) => Header::Damaged,
        // A sound sum under another magic is a flipped bit in neither; without both it is no journal of ours.
        (false, _) if bytes[..8].iter().zip(MAGIC).filter(|(a, b)| a == b).count() >= 6 => Header::Damaged,
        (false, _) => Header::Foreign,
    }
}

fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The bytes of a record with an object, without building a [`Record`] (the object is not copied).
pub(super) fn put(collection: &str, key: &str, revision: u64, object: &Value) -> Vec<u8> {
    entry(3, collection, key, revision, object)
}

/// The bytes of a base object.
pub(super) fn kept(collection: &str, key: &str, revision: u64, object: &Value) -> Vec<u8> {
    entry(2, collection, key, revision, object)
}

/// The bytes of a removal.
pub(super) fn delete(collection: &str, key: &str, revision: u64) -> Vec<u8> {
    entry(4, collection, key, revision, &Value::Null)
}

/// The bytes of the first record.
pub(super) fn base(revision: u64, objects: u64) -> Vec<u8> {
    let mut record = start(1, revision);
    record.extend_from_slice(&objects.to_le_bytes());
    seal(record)
}

/// The bytes of a note that everything before `offset` is on the disk.
pub(super) fn synced(offset: u64) -> Vec<u8> {
    seal(start(5, offset))
}

fn entry(kind: u8, collection: &str, key: &str, revision: u64, object: &Value) -> Vec<u8> {
    let mut record = start(kind, revision);
    for name in [collection, key] {
        // Names are bounded by the API at a few hundred bytes; a longer one would be cut and show as damage.
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        record.extend_from_slice(&length.to_le_bytes());
        record.extend_from_slice(&name.as_bytes()[..usize::from(length)]);
    }
    if !object.is_null() && serde_json::to_writer(&mut record, object).is_err() {
        // Writing a JSON value into memory cannot fail.
        record.truncate(FRAME);
    }
    seal(record)
}

fn start(kind: u8, number: u64) -> Vec<u8> {
    let mut record = Vec::with_capacity(512);
    record.extend_from_slice(&MARKER);
    record.extend_from_slice(&[0; 8]);
    record.push(kind);
    record.extend_from_slice(&number.to_le_bytes());
    record
}

fn seal(mut record: Vec<u8>) -> Vec<u8> {
    let length = u32::try_from(record.len() - FRAME).unwrap_or(u32::MAX);
    record[4..8].copy_from_slice(&length.to_le_bytes());
    let sum = sum(length, &record[FRAME..]);
    record[8..12].copy_from_slice(&sum.to_le_bytes());
    record
}

fn sum(length: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// The payload of a sound record at the beginning of `bytes`, and the record's length.
pub(super) fn frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let head = bytes.first_chunk::<FRAME>()?;
    if head[..4] != MARKER {
        return None;
    }
    let length = number(&head[4..]);
    let size = usize::try_from(length).ok().filter(|size| *size <= MOST)?;
    let payload = bytes.get(FRAME..FRAME + size)?;
    (number(&head[8..]) == sum(length, payload)).then_some((payload, FRAME + size))
}

/// Where the next sound record begins after `from`.
pub(super) fn next_frame(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let rest = bytes.get(at..)?;
        at += rest.windows(MARKER.len()).position(|window| window == MARKER)?;
        if frame(&bytes[at..]).is_some() {
            return Some(at);
        }
        at += 1;
    }
}

/// Reads a payload; `None` for one that this build does not understand.
pub(super) fn parse(payload: &[u8]) -> Option<Record> {
    let (kind, rest) = payload.split_first()?;
    let (head, rest) = rest.split_first_chunk::<8>()?;
    let number = u64::from_le_bytes(*head);
    match kind {
        1 => Some(Record::Base { revision: number, objects: u64::from_le_bytes(*rest.first_chunk()?) }),
        2 => Some(Record::Kept(parse_entry(number, rest)?)),
        3 => Some(Record::Put(parse_entry(number, rest)?)),
        4 => Some(Record::Delete(parse_entry(number, rest)?)),
        5 => Some(Record::Synced { offset: number }),
        _ => None,
    }
}

fn parse_entry(revision: u64, bytes: &[u8]) -> Option<Entry> {
    let (collection, bytes) = parse_name(bytes)?;
    let (key, bytes) = parse_name(bytes)?;
    let object = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(bytes).ok()? };
    Some(Entry { collection, key, revision, object })
}

fn parse_name(bytes: &[u8]) -> Option<(String, &[u8])> {
    let (length, bytes) = bytes.split_first_chunk::<2>()?;
    let (name, bytes) = bytes.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((std::str::from_utf8(name).ok()?.to_owned(), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_come_back() {
        let object = json!({"a": ["ü", null, 1.5]});
        let entry = |revision, object| Entry { collection: "g/c".into(), key: "n/k".into(), revision, object };
        for (bytes, record) in [
            (base(7, 3), Record::Base { revision: 7, objects: 3 }),
            (kept("g/c", "n/k", 4, &object), Record::Kept(entry(4, object.clone()))),
            (put("g/c", "n/k", 8, &object), Record::Put(entry(8, object.clone()))),
            (delete("g/c", "n/k", 9), Record::Delete(entry(9, Value::Null))),
            (synced(1234), Record::Synced { offset: 1234 }),
        ] {
            let (payload, length) = frame(&bytes).unwrap();
            assert_eq!((parse(payload), length), (Some(record), bytes.len()));
            for at in 0..bytes.len() {
                assert!(frame(&bytes[..at]).is_none(), "cut at {at}");
                let mut flipped = bytes.clone();
                flipped[at] ^= 0x10;
                assert!(frame(&flipped).is_none(), "flipped at {at}");
            }
        }
    }

    #[test]
    fn headers() {
        assert_eq!(read_header(&header(3)), Header::Version(3));
        assert_eq!(read_header(b""), Header::Foreign);
        assert_eq!(read_header(b"SQLite format 3\0 and more of it"), Header::Foreign);
        for at in 0..HEADER {
            assert_eq!(read_header(&header(1)[..at]), if at == 0 { Header::Foreign } else { Header::Damaged });
            let mut flipped = header(1);
            flipped[at] ^= 1;
            assert_eq!(read_header(&flipped), Header::Damaged, "flipped at {at}");
        }
    }

    #[test]
    fn the_next_record_is_found_after_damage() {
        let first = synced(1);
        let mut bytes = first.clone();
        bytes.extend_from_slice(&synced(2));
        bytes[5] ^= 1;
        assert_eq!(next_frame(&bytes, 1), Some(first.len()));
        assert_eq!(next_frame(&bytes, first.len() + 1), None);
    }
}
