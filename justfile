# Frequent commands. `just` lists them; each is one line that also works without just.

_default:
    @just --list

# Start a control plane with three simulated members
up *ARGS:
    cargo run -- up {{ARGS}}

# Run the checks of the CI job `ci`
ci:
    .ci/run

# Format the code
fmt:
    cargo fmt --all

# Lint the code
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Lint the prose
words *ARGS:
    hack/check-words.sh {{ARGS}}

# Check that build and tests use the same features of dependencies
features:
    hack/check-features.sh

# Check links and paths in the pages
pages:
    hack/check-docs.sh

# Build the documentation of the crates, with private items
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# Run all tests, or those of the given arguments
test *ARGS="--workspace":
    cargo test {{ARGS}}

# Compare decisions with Karmada's
conformance:
    cargo test -p berth-e2e --test conformance

# Write crds/ from the API types
crds:
    hack/update-crds.sh

# Write the generated code of the estimator protocol
estimator-protocol:
    hack/update-estimator-protocol.sh

# Write docs/schemas/ from the configuration and message types
schemas:
    BERTH_WRITE_SCHEMAS=1 cargo test -p berth-scheduler published_schema

# Write docs/metrics.md from what the programs export
metrics:
    BERTH_WRITE_METRICS=1 cargo test -p berth-e2e --test monitoring reference

# Write docs/configuration.md and the table of the chart's values
reference:
    BERTH_WRITE_PAGES=1 cargo test -p berth-e2e --test pages is_current

# Measure a scenario: burst, steady, starvation, scale, server, propagation, members, expressions
load SCENARIO *ARGS:
    cargo run --release -p berth-e2e --bin load -- {{SCENARIO}} {{ARGS}}

# Check licences, advisories and sources of dependencies; needs cargo-deny
deny:
    cargo deny check

# Bring Berth up on kind; needs docker, kind and kubectl
kind *ARGS:
    hack/local-up.sh {{ARGS}}
