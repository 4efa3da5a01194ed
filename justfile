# A convenience; .ci/run is what counts.
check:
    cargo fmt --check
    cargo clippy --locked --all-targets -- -D warnings
test:
    cargo test --locked
lint-lessons:
    cargo run -- up
    cargo run -- dev lint
dist:
    cargo build --locked --profile dist
