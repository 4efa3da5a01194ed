//! Where uids and random name suffixes come from; tests inject their own.

use uuid::Uuid;

/// The letters of generated names: no vowels and no digits that look like letters, so that no words come out
/// (`k8s.io/apimachinery/pkg/util/rand`).
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// A source of uids and suffixes.
pub trait Ids: Send + Sync + std::fmt::Debug {
    /// A new uid.
    fn uid(&self) -> String;

    /// Five characters for a name made from `generateName`.
    fn suffix(&self) -> String;
}

/// Random ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomIds;

impl Ids for RandomIds {
    fn uid(&self) -> String {
        Uuid::new_v4().to_string()
    }

    fn suffix(&self) -> String {
        // The first six bytes of a version 4 uuid are random.
        let bytes = Uuid::new_v4().into_bytes();
        bytes.iter().take(5).map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{ALPHABET, Ids, RandomIds};

    #[test]
    fn suffixes_keep_to_the_alphabet() {
        for _ in 0..100 {
            let suffix = RandomIds.suffix();
            assert_eq!(suffix.len(), 5);
            assert!(suffix.bytes().all(|byte| ALPHABET.contains(&byte)), "{suffix}");
        }
        assert_ne!(RandomIds.uid(), RandomIds.uid());
    }
}
