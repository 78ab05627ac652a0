# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow install lint types clean

demo: install
	$(BIN)/clearhead demo

test: install lint types
	CLEARHEAD_SHAPE_CHECKS=off $(BIN)/pytest tests/compiled
	$(BIN)/pytest -m "not slow" --ignore=tests/compiled

test-slow: install
	$(BIN)/pytest -m slow --ignore=tests/compiled

install: .venv/installed

# Runs again only when the project's dependencies change; the package itself is editable.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "clearhead needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/pyright

clean:
	rm -rf .venv runs build dist
