//! Imports go down only: reads every `crate::` path in src/ and fails on an edge that goes up.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What each top-level module may use (itself is always allowed). ARCHITECTURE.md has the picture.
const ALLOWED: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("model", &["base"]),
    ("cel", &["base", "model"]),
    ("allocator", &["base", "model", "cel"]),
    ("validation", &["base", "model", "cel"]),
    ("lint", &["base", "model", "cel", "allocator", "validation"]),
    ("scheduling", &["base", "model", "cel", "allocator"]),
    ("timeline", &["base", "model"]),
    ("explain", &["base", "model", "cel", "allocator", "lint", "scheduling", "timeline"]),
    ("client", &["base", "model", "timeline"]),
    ("driver", &["base", "model", "client"]),
    ("embedded", &["base", "model", "cel", "allocator", "validation", "scheduling", "timeline", "client", "driver"]),
    ("cluster", &["base", "model", "client", "driver", "embedded"]),
    ("cases", &["base", "model", "cel", "allocator"]),
    ("lessons", &["base", "model", "cel", "timeline", "client"]),
    ("doctor", &["base", "model", "cel", "client", "cluster", "driver"]),
    ("ui", &["base", "model", "lint", "timeline", "explain", "client", "lessons", "doctor", "cluster", "cases"]),
    (
        "cli",
        &[
            "base",
            "model",
            "cel",
            "allocator",
            "validation",
            "lint",
            "scheduling",
            "timeline",
            "explain",
            "client",
            "driver",
            "embedded",
            "cluster",
            "cases",
            "lessons",
            "doctor",
            "ui",
        ],
    ),
];

/// Crates that the pure layers must not touch.
const IMPURE: &[&str] =
    &["tokio::", "kube::", "std::fs", "std::env", "std::net::Tcp", "std::net::Udp", "ToSocketAddrs", "SystemTime::now", "Timestamp::now"];
const PURE: &[&str] = &["model", "cel", "allocator", "lint", "scheduling", "timeline", "validation", "explain"];

fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("src is readable") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

#[test]
fn imports_go_down_only() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let mut files = Vec::new();
    sources(&src, &mut files);
    assert!(files.len() > 20, "the sources were found");
    let mut faults = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&src).expect("below src").to_path_buf();
        let mut parts = relative.iter().map(|p| p.to_string_lossy().into_owned());
        let module = parts.next().expect("a first part").trim_end_matches(".rs").to_owned();
        if module == "lib" || module == "main" {
            continue;
        }
        let Some(may) = allowed.get(module.as_str()) else {
            faults.push(format!("{}: module {module} is not in the table of layers", relative.display()));
            continue;
        };
        let text = fs::read_to_string(&file).expect("a readable source");
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (at, _) in code.match_indices("crate::") {
                let target: String = code[at + 7..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if !target.is_empty() && target != module && allowed.contains_key(target.as_str()) && !may.contains(&target.as_str()) {
                    faults.push(format!("{}:{}: {module} must not use {target}", relative.display(), number + 1));
                }
            }
            if PURE.contains(&module.as_str()) {
                for word in IMPURE {
                    if code.contains(word) {
                        faults.push(format!("{}:{}: {module} is pure and must not use {word}", relative.display(), number + 1));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
