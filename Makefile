# Two commands matter: make demo, make test. Everything they need is set up in .venv and .nox.
PYTHON ?= python3
NOX = .venv/bin/nox

.PHONY: demo test slow lint conformance coverage bench clean

demo: $(NOX)
	@$(NOX) --no-error-on-missing-interpreters -s demo

test: $(NOX)
	$(NOX) -t lint tests

# The big numbers in full: minutes, and not part of `make test`.
slow: $(NOX)
	$(NOX) -s slow

lint: $(NOX)
	$(NOX) -t lint

# `make test` has it too.
conformance: $(NOX)
	$(NOX) -s interop -- tests/interop/test_conformance.py

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
