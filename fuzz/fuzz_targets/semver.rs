//! Versions: what parses prints as itself, what the tolerant form reads is a version, order is antisymmetric.
#![no_main]

use dralab::model::semver::Semver;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|texts: (&str, &str)| {
    if let Ok(version) = Semver::parse(texts.0) {
        assert_eq!(version.to_string(), texts.0);
    }
    if let Ok(version) = Semver::parse_normalized(texts.0) {
        assert!(Semver::parse(&version.to_string()).is_ok(), "{:?} is read as {version}", texts.0);
    }
    if let (Ok(a), Ok(b)) = (Semver::parse(texts.0), Semver::parse(texts.1)) {
        assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
    }
});
