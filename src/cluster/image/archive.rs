//! An image archive on its way: a file without a name, read by as many streams as there are nodes.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;

use crate::cluster::engine::{ByteStream, Engine, Progress};
use crate::cluster::image::ImageError;

/// How much is read and sent at a time, in bytes.
const PIECE: u64 = 256 << 10;

/// An image archive. Its file has no name, so that nothing is left of it however this process ends.
#[derive(Clone, Debug)]
pub struct Archive {
    file: Arc<File>,
    size: u64,
}

impl Archive {
    /// Takes over a file that holds an archive, written to its end.
    pub(crate) fn of(file: File) -> std::io::Result<Archive> {
        let size = file.metadata()?.len();
        Ok(Archive { file: Arc::new(file), size })
    }

    /// An image of the engine as an archive, kept in a nameless file in `scratch`. `progress` hears the bytes (in all: unknown).
    ///
    /// # Errors
    /// When the engine fails, or `scratch` has no room.
    pub async fn export(
        engine: &Engine,
        image: &str,
        platform: Option<&str>,
        scratch: &Path,
        progress: Progress<'_>,
    ) -> Result<Archive, ImageError> {
        let mut file = tempfile::tempfile_in(scratch).map_err(ImageError::file("write", scratch))?;
        let mut chunks = engine.export(image, platform);
        let mut size = 0;
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            file.write_all(&chunk).map_err(ImageError::file("write", scratch))?;
            size += chunk.len() as u64;
            progress(size, 0);
        }
        Archive::of(file).map_err(ImageError::file("write", scratch))
    }

    /// In bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its bytes from the beginning; each call is a stream of its own. `sent` is counted up as they are taken.
    #[must_use]
    pub fn stream(&self, sent: Arc<AtomicU64>) -> ByteStream {
        let begin = (self.file.clone(), 0);
        let size = self.size;
        futures::stream::try_unfold(begin, move |(file, at)| {
            let sent = sent.clone();
            async move {
                if at >= size {
                    return Ok(None);
                }
                let reader = file.clone();
                let read = tokio::task::spawn_blocking(move || {
                    let mut piece = vec![0; usize::try_from(PIECE.min(size - at)).unwrap_or_default()];
                    reader.read_exact_at(&mut piece, at).map(|()| piece)
                });
                let piece = read.await.map_err(std::io::Error::other)??;
                let length = piece.len() as u64;
                sent.fetch_add(length, Ordering::Relaxed);
                Ok(Some((Bytes::from(piece), (file, at + length))))
            }
        })
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::TryStreamExt as _;

    use super::{Archive, PIECE};

    #[tokio::test]
    async fn each_stream_begins_at_the_beginning() {
        let content: Vec<u8> = (0..PIECE * 2 + 7).map(|n| (n % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&content).expect("written");
        let archive = Archive::of(file).expect("an archive");
        let sent = Arc::new(AtomicU64::new(0));
        for round in 1..=2 {
            let pieces: Vec<bytes::Bytes> = archive.stream(sent.clone()).try_collect().await.expect("read");
            assert!(pieces.concat() == content, "the bytes are the same");
            assert_eq!(sent.load(Ordering::Relaxed), round * archive.size());
        }
    }
}
