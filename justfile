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
# Needs Docker (or podman) and kind; the recordings and dra-test-driver are not at hand everywhere.
real:
    cargo test --locked --test real -- failure lab chaos context
