# Two commands matter: make demo, make test. Everything they need is set up in .venv and .nox.
PYTHON ?= python3
NOX = .venv/bin/nox

# How many sessions of `make test` run at a time. Each has two workers, which wait for servers half of their time.
JOBS ?= 2

.PHONY: demo test cells slow lint conformance published coverage bench clean

demo: $(NOX)
	@$(NOX) --no-error-on-missing-interpreters -s demo

test: $(NOX)
	@$(MAKE) --no-print-directory --keep-going -j$(JOBS) $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) cells

ifeq ($(MAKECMDGOALS),cells)
CELLS := $(shell $(NOX) -t lint tests --list --json | .venv/bin/python -c \
	"import json, sys; print(*(session['session'] for session in json.load(sys.stdin)))")
endif

cells: $(CELLS:%=cell-%)

cell-%:
	@$(NOX) -s $*

# The big numbers in full: minutes, and not part of `make test`.
slow: $(NOX)
	$(NOX) -s slow

lint: $(NOX)
	$(NOX) -t lint

# `make test` has it too.
conformance: $(NOX)
	$(NOX) -s interop -- tests/interop/test_conformance.py

# Published servers, bare and guarded, side by side: installs a dozen of them, and isn't part of `make test`.
published: $(NOX)
	$(NOX) -s published

coverage: $(NOX)
	@rm -f .coverage .coverage.*
	ISERROR_COVERAGE=1 $(NOX) -t tests
	$(NOX) -s coverage

bench: $(NOX)
	$(NOX) -s bench

$(NOX): requirements-dev.txt
	$(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $(NOX)

clean:
	rm -rf .venv .nox tests/interop/node_modules .coverage .coverage.* .hypothesis .pytest_cache .mypy_cache .ruff_cache
