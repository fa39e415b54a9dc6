# The commands of the project. `make run` and `make test` do all set-up on a machine that has Rust and make.

CARGO ?= cargo
TARGET := wasm32-wasip2
GUESTS := guest-examples/target/$(TARGET)/release
HOST_BIN := $(CURDIR)/target/debug/hostelry
EXAMPLES := echo storyteller pathfinder notes
# nextest where it is there, cargo's own runner where it is not.
TEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo "nextest run --profile ci" || echo test)

.PHONY: run test test-languages check examples test-guests target fmt clippy doc deny wit clean help

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

run: examples ## build the Rust examples into plugins/ and serve them
	@for agent in $(EXAMPLES); do cp $(GUESTS)/$$agent.wasm plugins/.$$agent.wasm && mv plugins/.$$agent.wasm plugins/$$agent.wasm; done
	$(CARGO) run -p hostelry -- serve

test: examples test-guests ## pass every test
	$(CARGO) $(TEST) --workspace
	$(CARGO) test --workspace --doc
	cd guest-examples && $(CARGO) test --quiet

test-languages: examples ## build agents in every language, and talk to them (needs python3, node, npm and a C compiler)
	@for tool in python3 node npm cc; do \
	  command -v $$tool >/dev/null || { echo "error: test-languages needs $$tool" >&2; exit 1; }; \
	done
	$(CARGO) build --workspace
	cd guest-examples/python && python3 build.py && python3 -m unittest
	cd guest-examples/typescript && npm run build && npm test
	$(MAKE) -C guest-examples/c HOSTELRY=$(HOST_BIN)
	test -e guest-examples/zig/.tools || ln -s ../c/.tools guest-examples/zig/.tools
	$(MAKE) -C guest-examples/zig HOSTELRY=$(HOST_BIN)
	$(MAKE) -C guest-examples/go HOSTELRY=$(HOST_BIN)
	for language in c zig go; do $(MAKE) -C guest-examples/$$language test || exit 1; done
	$(CARGO) test --workspace --test languages -- --test-threads 2

check: fmt clippy doc deny ## every gate but the tests

examples: target
	cd guest-examples && $(CARGO) build --release --target $(TARGET)

test-guests: target
	cd guest-examples && $(CARGO) build --release --target $(TARGET) --examples -p test-guests

target:
	@if [ ! -d "$$(rustc --print sysroot)/lib/rustlib/$(TARGET)" ]; then \
	  rustup target add $(TARGET) || { echo "error: Rust's $(TARGET) target is missing; install it with 'rustup target add $(TARGET)'" >&2; exit 1; }; \
	fi

fmt:
	$(CARGO) fmt --all --check
	cd guest-examples && $(CARGO) fmt --all --check

clippy: target
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --workspace --test languages -- -D warnings
	cd guest-examples && $(CARGO) clippy --workspace --all-targets --target $(TARGET) --release -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items

deny:
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked --debug cargo-deny --version 0.20.2
	$(CARGO) deny --all-features check bans licenses sources
	$(CARGO) deny --all-features --manifest-path guest-examples/Cargo.toml check bans licenses sources

clean: ## remove what was built
	$(CARGO) clean
	cd guest-examples && $(CARGO) clean
	rm -f plugins/*.wasm
