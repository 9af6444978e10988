# Every target makes its own virtual environment (.venv) first: Python >= 3.11 and make are all it takes.
# `make` alone lists the targets.

SHELL  := /bin/sh
VENV   := .venv
PY     := $(VENV)/bin/python
RUN    := $(VENV)/.run
DEV    := $(VENV)/.dev
GOLDEN ?= ../shared/golden
WORKERS ?= auto
ARGS   ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-containers test-browser hazards check format format-check lint types imports kafka golden laws simulate-faults bench chaos chaos-gateway rebalance soak lock clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

demo: $(RUN) ## simulated sessions through a local Kafka (or memory), proven, then a live dashboard until Ctrl-C
	@once=; test -t 1 || { once=--once; \
	  echo "no terminal: ends after the proof; to stay: $(VENV)/bin/foldstream up --demo" >&2; }; \
	set -x; exec $(VENV)/bin/foldstream up --broker auto --demo $$once $(ARGS)

test: $(DEV) kafka ## the whole suite, with one real Kafka where Java and Maven are (under CI=true: required)
	$(PY) -m pytest -n $(WORKERS) $(ARGS)

test-containers: $(DEV) kafka ## tests/integration on Kafka in a container; starts an engine and builds the image where it must
	tests/containers/run $(PY) -m pytest tests/integration $(ARGS)

test-browser: $(DEV) ## the web page in a real Chromium (apt-get install chromium)
	$(PY) -m pytest tests/browser -m "not bench" $(ARGS)

hazards: $(DEV) kafka ## every known lapse of the Kafka client on a real broker, and each guard against it (3 minutes)
	$(PY) -m pytest tests/hazards -m "" $(ARGS)

check: format-check lint types imports test ## format, lint, strict types, import directions, tests

format: $(DEV) ## rewrite to the house format
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix-only .

format-check: $(DEV)
	$(PY) -m ruff format --check .

lint: $(DEV) ## ruff
	$(PY) -m ruff check .

types: $(DEV) ## mypy --strict
	$(PY) -m mypy

imports: $(DEV) ## pipeline -> schemas -> operators, and who may import what
	@$(VENV)/bin/lint-imports --no-cache

golden: $(DEV) ## conformance with the reference data in GOLDEN (default ../shared/golden)
	@test -d "$(GOLDEN)" || { echo "make golden: no reference data in $(GOLDEN); say GOLDEN=DIR" >&2; exit 1; }
	FOLDSTREAM_GOLDEN="$(GOLDEN)" $(PY) -m tests.golden.run $(ARGS)
	FOLDSTREAM_GOLDEN="$(GOLDEN)" $(PY) -m pytest -n $(WORKERS) tests/golden/test_directories.py tests/golden/test_ingest_roots.py tests/golden/test_inbound.py tests/golden/test_show.py

laws: $(DEV) ## the laws as property tests, 10 000 examples each
	$(PY) -m pytest tests/laws -n $(WORKERS) --hypothesis-profile=laws -o faulthandler_timeout=0 $(ARGS)

simulate-faults: $(DEV) ## 10 000 seeded histories of faults on virtual time, and every guard taken away by name
	$(PY) -m tests.simulation.run --histories 10000 $(ARGS)
	$(PY) -m tests.simulation.run --mutants $(ARGS)

bench: $(DEV) kafka ## what things cost here, as ratios
	$(PY) -m tests.bench.run $(ARGS)

chaos: $(DEV) kafka ## every fault against three real brokers, then the proof; ARGS="--short" takes minutes
	$(PY) -m tests.chaos.run $(ARGS)

chaos-gateway: $(DEV) kafka ## faults around a gateway with 50 clients, then the proof; ARGS="--short" takes 2 minutes
	$(PY) -m tests.chaos.gateway_run $(ARGS)

rebalance: $(DEV) kafka ## how long a partition that stays pauses while others move
	$(PY) -m tests.chaos.rebalance $(ARGS)

soak: $(DEV) kafka ## steady work under faults: ARGS="--minutes 15"
	$(PY) -m tests.chaos.soak $(ARGS)

kafka: $(DEV) # Apache Kafka's jars into the user's cache, once
	@if [ -n "$$KAFKA_BOOTSTRAP" ]; then echo "Kafka: $$KAFKA_BOOTSTRAP (KAFKA_BOOTSTRAP)"; \
	else printf "Kafka: "; $(PY) -m pipeline.broker fetch || echo "Kafka: without it the tests on a real broker are skipped (under CI=true they fail)"; fi

lock: $(DEV) ## renew constraints.txt: the newest versions pyproject.toml allows
	@sed -n '/^#/p' constraints.txt > $(VENV)/lock
	$(PY) -m pip install --upgrade --upgrade-strategy eager -e '.[dev]'
	@$(PY) -m pip freeze --exclude-editable >> $(VENV)/lock && mv $(VENV)/lock constraints.txt && touch $(DEV) $(RUN)

clean: ## remove what make made here (not the Kafka jars in the user's cache)
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find operators schemas pipeline tests -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the virtual environment ----------------------------------------------------------------------

$(PY):
	@for python in $$PYTHON python3 python3.14 python3.13 python3.12 python3.11; do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; python=; done; \
	test -n "$$python" || { echo "foldstream needs Python 3.11 or newer, none found: install one, or say PYTHON=/path/to/python3 make ..." >&2; exit 1; }; \
	"$$python" -c 'import ensurepip, venv' 2>/dev/null || { echo "$$python cannot make virtual environments: install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }; \
	echo "[1/2] virtual environment $(VENV), $$("$$python" --version)"; \
	"$$python" -m venv $(VENV)

$(RUN): pyproject.toml constraints.txt | $(PY)
	@echo "[2/2] packages (first time only)"
	$(PY) -m pip install -c constraints.txt -e '.[watch]'
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(PY)
	@echo "[2/2] packages and tools (first time only)"
	$(PY) -m pip install -c constraints.txt -e '.[dev]'
	@touch $@ $(RUN)
