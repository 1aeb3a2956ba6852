# Every target sets up what it needs: a clean clone and Python 3.11 are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS ?=
# Tests that start processes wait for a third of their time: three workers keep two cores busy.
# WORKERS=0: none.
WORKERS ?= 3
VLLM := .venv-vllm
QUICK := not slow and not vllm and not browser and not adapters
ADAPTERS := .venv-adapters
SITE := 'import sysconfig; print(sysconfig.get_path("purelib"))'
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup test quick-tests test-slow test-adapters vllm test-vllm lint format testbed bench-pipeline bench-placement bench-evaluate bench-quality bench-switchback bench-plugin bench-closed-loop bench-attach bench-lead bench-trial-order schema lock clean

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

setup: $(READY) ## make .venv from the lock files (quick when nothing has changed)

$(READY): requirements.lock requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "Slackwater needs Python 3.11 or newer, and $(PYTHON) is not that:" \
	    "make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV): a minute or two, this once."
	$(BIN)/pip install --quiet -r requirements.lock -r requirements-dev.lock
	$(BIN)/pip install --quiet --no-build-isolation --no-deps --no-index -e .
	@touch $@

test: $(READY) ## what CI runs: lint, types and every test that is not slow, side by side
	+@$(MAKE) --no-print-directory -j 2 lint quick-tests

quick-tests: $(READY)
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "$(QUICK)" $(ARGS)

test-slow: $(READY) ## the tests that take over 20 seconds each
	$(BIN)/pytest -m "slow and not vllm and not browser and not adapters" $(ARGS)

# An environment of its own sees all of .venv and the checkout, and holds what those lack.
test-adapters: $(ADAPTERS)/.ready ## the adapters beside real torchft, Hugging Face and Lightning
	$(ADAPTERS)/bin/python -m pytest -m adapters $(ARGS)

$(ADAPTERS)/.ready: $(READY) requirements-adapters.lock
	@test -x $(ADAPTERS)/bin/pip || $(PYTHON) -m venv $(ADAPTERS)
	printf '%s\n' "$$($(BIN)/python -c $(SITE))" "$(CURDIR)" \
	  > "$$($(ADAPTERS)/bin/python -c $(SITE))/slackwater.pth"
	$(ADAPTERS)/bin/pip install --quiet --no-deps -r requirements-adapters.lock
	@touch $@

vllm: $(VLLM)/.ready ## a real vLLM on CPU in .venv-vllm (3.4 GB), with the plugin

# The plugin is installed as an editable wheel, so vLLM sees its entry point and the checkout's code.
$(VLLM)/.ready: $(READY) requirements-vllm.lock
	@test -x $(VLLM)/bin/pip || $(PYTHON) -m venv $(VLLM)
	@echo "Installing vLLM into $(VLLM): 3.4 GB and several minutes, this once."
	$(VLLM)/bin/pip install --quiet --no-deps -r requirements-vllm.lock
	rm -rf build/vllm-plugin
	mkdir -p build/vllm-plugin
	$(BIN)/python -c 'import hatchling.build as b; b.build_editable("build/vllm-plugin")'
	$(VLLM)/bin/pip install --quiet --no-deps --no-index --force-reinstall build/vllm-plugin/*.whl
	@touch $@

test-vllm: $(VLLM)/.ready ## the plugin in a real vLLM, beside the embedded broker
	$(BIN)/pytest -m vllm $(ARGS)

lint: $(READY) ## ruff, its formatter and mypy --strict
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(READY) ## rewrite the code as ruff wants it
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

testbed: $(READY) ## the whole live run on this machine; ARGS="--duration 90"
	$(BIN)/slackwater testbed $(ARGS)

bench-pipeline: $(READY) ## requests/s from the producer to the run log
	$(BIN)/python -m bench.pipeline $(ARGS)

bench-placement: $(READY) ## exact draws and optimum, 600 s and 24 h, beside slower peers
	$(BIN)/python -m bench.placement $(ARGS)

bench-evaluate: $(READY) ## seconds to evaluate 12 policies on 5 hours of traffic
	$(BIN)/python -m bench.evaluate $(ARGS)

bench-quality: $(READY) ## held-out loss by the moments of merging, and a picture
	$(BIN)/python -m bench.quality $(ARGS)

bench-plugin: $(VLLM)/.ready ## what the plugin costs a real vLLM: latency ratios, paired, with intervals
	$(BIN)/python -m bench.plugin $(ARGS)

bench-lead: $(READY) ## what placement spares, by the lead of a command and by burst lengths
	$(BIN)/python -m bench.lead $(ARGS)

bench-closed-loop: $(VLLM)/.ready ## the closed_loop model against a real closed-loop client and merges
	$(BIN)/python -m bench.closed_loop $(ARGS)

bench-switchback: $(READY) ## errors and power of the switchback's test, on made fleets
	$(BIN)/python -m bench.switchback $(ARGS)

bench-trial-order: $(READY) ## gains claimed in made trials on a server that drifts, and real ones found
	$(BIN)/python -m bench.trial_order $(ARGS)

bench-attach: $(READY) ## microseconds that reporting a step costs, with the broker up, down and flapping
	$(BIN)/python -m bench.attach $(ARGS)

schema: $(READY) ## write docs/schema from the event types
	$(BIN)/slackwater schema --write docs/schema

lock: $(READY) ## resolve the lock files again, keeping the pins that fit (UPGRADE=1: newest)
	$(BIN)/python deploy/lock.py

clean: ## remove every .venv and all caches; runs/ stays
	rm -rf $(VENV) $(ADAPTERS) $(VLLM) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
