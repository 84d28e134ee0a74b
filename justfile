# What a person wants to run. `just` alone lists them.

default:
    @just --list

# Everything that CI checks.
ci:
    bash .ci/run

# Formatting is rustfmt's.
fmt:
    cargo fmt --all --check

# Clippy, warnings as errors.
lint:
    cargo clippy --workspace --all-targets --locked -- -D warnings

# The public documentation, warnings as errors.
doc:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# The README's test command.
test:
    cargo test --workspace --locked

# The benchmarks: each prints its figures with the machine's core count.
bench:
    cargo bench --workspace

# Licences, sources and banned crates (needs cargo-deny).
deny:
    cargo deny check bans licenses sources

# A cluster to play with: server, three nodes and the controllers in one process.
up *ARGS:
    cargo run --release --bin muster -- up {{ARGS}}

# The image of deploy/Dockerfile: one static binary, about 12 MB.
image TAG="muster:0.1.0":
    docker build --file deploy/Dockerfile --tag {{TAG}} .

# The same binary without Docker, as ./muster-manager (needs musl-tools and the musl target).
static:
    sh deploy/build muster-manager
