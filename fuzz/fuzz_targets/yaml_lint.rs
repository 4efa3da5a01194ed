//! Any bytes as a manifest for `dralab lint`.
#![no_main]

use dralab::lint::manifest::{Source, Target, lint};
use dralab::model::features::Features;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let minor = 34 + u32::from(bytes.first().copied().unwrap_or(0) % 4);
    let target = Target { minor, features: Features::for_kubernetes(minor).unwrap() };
    let text = String::from_utf8_lossy(bytes).into_owned();
    let judgement = lint(&[Source { name: "fuzz".to_owned(), text }], target, None);
    let _ = serde_json::to_string(&judgement.findings).unwrap();
});
