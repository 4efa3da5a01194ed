//! Reads the case files under tests/cases.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

/// The text of a compressed file in tests/cases.
pub(crate) fn unzipped(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    let mut text = String::new();
    GzDecoder::new(File::open(&path).expect("the case file")).read_to_string(&mut text).expect("compressed text");
    text
}
