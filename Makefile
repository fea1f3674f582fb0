# firesteel: a fresh machine needs Python 3.11+ and make; the rest is installed from pins.
#
#   make demo      run the word count example on a cluster of its own
#   make test      the tests, with a real Spark; streams and clusters have targets of their own:
#   make test-streams  streaming queries
#   make test-clusters  Spark's own masters and servers
#   make test-stack  tests with real storages, clusters and the jars of Spark's connectors (downloads 1.7 GB once)
#   make kubernetes  tests with a real API server of Kubernetes (builds it once, ten minutes)
#   make test-python PYTHON=python3.13  types, core tests, simulation and the demo with another Python, beside .venv
#   make test-browser  the dashboard in a real Chromium
#   make site      the documentation as a site, in build/site
#   make compat    Flink's own command line against our REST endpoint (downloads 330 MB once)
#   make check     format, lint, types, imports, tidy, core tests and simulation: under two minutes

PYTHON ?= python3
SEEDS ?= 300
TEST_PROCESSES ?= 4
ENDPOINT_SEEDS ?= 100
STACK ?= tests/stack
SHARED := --dist loadfile --no-loadscope-reorder
FIRESTEEL_VENV ?= .venv
BIN := $(FIRESTEEL_VENV)/bin
DEMO := build/demo
DEMO_INPUT ?= $(DEMO)/input

# Containers often forbid compiled files. Without them each process compiles all that it imports, and each of the processes
# that share the tests all of the tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install install-dev java postgres prometheus openssh nginx demo test check format lint types imports tidy core simulate bench docs lock clean

help:
	@sed -n 's/^#   //p' Makefile

install:
	@$(PYTHON) -m tools.install runtime

install-dev:
	@$(PYTHON) -m tools.install dev

java:
	@$(PYTHON) -m tools.java

demo: java install
	@rm -rf $(DEMO)/wordcount && mkdir -p $(DEMO)
	@test "$(DEMO_INPUT)" != "$(DEMO)/input" || $(BIN)/python -m tools.demo_input $(DEMO)/input
	$(BIN)/firesteel run examples/wordcount.py --param input=$(DEMO_INPUT) --param output=$(DEMO)/wordcount
	@$(BIN)/python examples/top_words.py $(DEMO)/wordcount

postgres:
	@$(PYTHON) -m tools.postgres

prometheus:
	@$(PYTHON) -m tools.prometheus

openssh:
	@$(PYTHON) -m tools.openssh

nginx:
	@$(PYTHON) -m tools.nginx

# JVMs of Spark start in half the time with it; a worker makes it otherwise when it ends.
.PHONY: archive
archive: java install-dev
	@$(BIN)/python -m tools.archive

# Four at a time on two cores: much of the time a test waits for a JVM (tests/sharing.py says who shares one).
test: archive postgres openssh install-dev
	$(BIN)/pytest -n $(TEST_PROCESSES) $(SHARED) -m "not streams and not clusters"

# What takes long with a real Spark and seldom breaks by a change elsewhere.
.PHONY: test-streams test-clusters
test-streams: archive install-dev
	$(BIN)/pytest -n 2 $(SHARED) -m streams

test-clusters: archive nginx install-dev
	$(BIN)/pytest -n 2 $(SHARED) -m clusters

check: install-dev
	@$(MAKE) --no-print-directory format-check lint types imports tidy core simulate

.PHONY: format-check
format-check: install-dev
	$(BIN)/ruff format --check .

format: install-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: install-dev
	$(BIN)/ruff check .

types: install-dev
	$(BIN)/mypy

imports: install-dev
	$(BIN)/lint-imports

tidy: install-dev
	$(BIN)/pytest -q tests/tidy

core: install-dev
	$(BIN)/pytest -q tests/core --cov=firesteel.core --cov-branch --cov-report=term-missing:skip-covered --cov-fail-under=100

simulate: install-dev
	$(BIN)/python -m firesteel.testing.simulation run --seeds $(SEEDS)
	$(BIN)/python -m firesteel.testing.simulation run --level endpoints --seeds $(ENDPOINT_SEEDS)

# The real `flink` command line against our REST endpoint; downloads 330 MB the first time.
.PHONY: compat
compat: java install-dev
	FIRESTEEL_FLINK_JARS=$$($(BIN)/python -m tools.flink) $(BIN)/pytest tests/compat

# Another Python, in an environment of its own: what a cluster of it needs first.
.PHONY: test-python
test-python: export FIRESTEEL_VENV := build/$(notdir $(PYTHON))
test-python:
	@$(MAKE) --no-print-directory types core simulate demo

# Real storages, with Spark's connectors by their Maven coordinates, as users get them, and the Spark that some are for.
.PHONY: test-stack
test-stack: java prometheus install-dev
	FIRESTEEL_STACK=1 $(BIN)/pytest $(STACK)

# High availability and the manifests of deploy/kubernetes at a real API server; builds it the first time, with Go.
.PHONY: kubernetes
kubernetes: java install-dev
	@$(PYTHON) -m tools.kubernetes
	FIRESTEEL_STACK=1 $(BIN)/pytest tests/stack/kubernetes

# The dashboard in the system's Chromium, which is installed on Debian; pictures lie in build/browser.
.PHONY: test-browser
test-browser: install-dev
	$(BIN)/python -m tools.browser

# The documentation as a site in build/site; fails at a link that leads nowhere.
.PHONY: site
site: install-dev
	$(BIN)/python -m tools.site

# Fetch the dashboard's libraries anew, as pinned in the script; needs npm.
.PHONY: dashboard-libraries
dashboard-libraries: install-dev
	$(BIN)/python -m tools.dashboard_libraries

bench: java install-dev
	$(BIN)/python -m benchmarks

# Generated pages; a tidy test fails when one is stale.
docs: install-dev
	$(BIN)/python -m tools.commands_page
	$(BIN)/python -m tools.functions_page
	$(BIN)/python -m tools.metrics_page
	$(BIN)/python -m tools.options_page
	$(BIN)/python -m tools.states_page

# The jars in src/firesteel/adapters/spark/jvm; needs javac.
.PHONY: jars
jars: install-dev
	$(BIN)/python -m tools.jars

# Renew the pins after a change of requirements/*.in.
lock: install-dev
	@for name in build runtime dev; do \
	  $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	    requirements/$$name.in -o requirements/$$name.txt || exit 1; done
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --no-deps --generate-hashes --no-header \
	  requirements/compat.in -o requirements/compat.txt
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	  requirements/browser.in -o requirements/browser.txt
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
	  requirements/site.in -o requirements/site.txt
	@for name in spark41 spark42; do \
	  $(BIN)/uv pip compile -q --universal --python-version 3.11 --no-deps --generate-hashes --no-header \
	    requirements/$$name.in -o requirements/$$name.txt || exit 1; done

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
