# minispec: `make demo` shows it, `make test` checks it.
# Needs GNU make and Python 3.11 or newer. Everything is installed into VENV, nothing elsewhere.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
# Tests run in this many processes, each with one thread.
WORKERS ?= 2
LAB_ARGS ?=
ONLY ?=
# On Linux without a GPU: the PyTorch project's index of CPU wheels, to save gigabytes.
TORCH_INDEX ?=

export PIP_DISABLE_PIP_VERSION_CHECK := 1

VENV_PYTHON := $(VENV)/bin/python
PIP_INSTALL = $(VENV_PYTHON) -m pip install --quiet --no-input \
	$(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -c constraints.txt
REQUIREMENTS := pyproject.toml constraints.txt

# Stamp files: what is installed already is not installed again.
CREATED := $(VENV)/.stamp-created
RUNTIME := $(VENV)/.stamp-runtime
TEST := $(VENV)/.stamp-test
LINT := $(VENV)/.stamp-lint
NOTEBOOKS := $(VENV)/.stamp-notebooks
BROWSER := $(VENV)/.stamp-browser
DOCS := $(VENV)/.stamp-docs

.PHONY: help demo lab test evidence sanitize lint notebooks papers docs docs-zip browser clean
# Two pips in one environment would get in each other's way.
.NOTPARALLEL:

help:  ## show this list (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: $(RUNTIME)  ## install, decode with the shipped pair, train a small pair, decode with it
	@$(VENV_PYTHON) -m minispec demo

lab: $(NOTEBOOKS)  ## install JupyterLab, open your own copy of the notebooks in it (LAB_ARGS adds options)
	@$(VENV_PYTHON) -m minispec lab $(LAB_ARGS)

test: $(TEST)  ## install what tests need, run them and all notebooks (PYTEST_ARGS adds options)
	@$(VENV_PYTHON) -m pytest -q -m 'not browser and not evidence' -n $(WORKERS) $(PYTEST_ARGS)

sanitize: $(TEST)  ## run the native backend's tests under address, undefined-behaviour and thread sanitizers
	@$(VENV_PYTHON) tests/native/sanitize.py

evidence: $(BROWSER) docs  ## what takes long, for a job once a week: every bug, case, notebook, more seeds, real browsers
	@$(VENV_PYTHON) -m pytest -q -m 'evidence or browser' tests $(PYTEST_ARGS)
	@$(VENV_PYTHON) -m pytest -q notebooks $(PYTEST_ARGS)
	@MINISPEC_HYPOTHESIS=wide $(VENV_PYTHON) -m pytest -q tests/core tests/evidence/proof tests/verifiers $(PYTEST_ARGS)
	@$(VENV_PYTHON) -m minispec zoo
	@$(VENV_PYTHON) -m minispec prove --full

lint: $(LINT)  ## check style, format, types, imports and the README's demo; print how large each part is
	@$(VENV_PYTHON) -m ruff check .
	@$(VENV_PYTHON) -m ruff format --check .
	@$(VENV_PYTHON) -m mypy
	@$(VENV)/bin/lint-imports
	@$(VENV_PYTHON) docs/refresh_demo.py --check
	@$(VENV_PYTHON) tests/sizes.py

notebooks: $(NOTEBOOKS)  ## make the notebooks from their texts: run, cleaned, refused if at fault (ONLY=05: one)
	@$(VENV_PYTHON) notebooks/build_notebooks.py $(if $(ONLY),--only $(ONLY))

papers: $(DOCS)  ## measure papers in miniature, write docs/papers.md (ONLY=leviathan: one)
	@PYTHONPATH=docs $(VENV_PYTHON) -m book papers $(if $(ONLY),--only $(ONLY))
	@PYTHONPATH=docs $(VENV_PYTHON) -m book pages

docs: $(DOCS) docs/node_modules  ## build the book: docs/_build/html/index.html (npm brings MathJax, once)
	@rm -rf docs/_build/html
	@$(VENV_PYTHON) -m sphinx -q -W --keep-going -j auto -d docs/_build/doctrees docs docs/_build/html
	@$(VENV_PYTHON) docs/check_site.py docs/_build/html
	@echo "The book is built: open docs/_build/html/index.html"

docs/node_modules: docs/package-lock.json
	@command -v npm >/dev/null || { echo "MathJax comes from npm, and there is no npm: install Node.js" >&2; exit 1; }
	@npm ci --prefix docs --silent --no-audit --no-fund
	@touch $@

docs-zip: docs  ## the same in one file, for laptops without a network: docs/_build/minispec-book.zip
	@$(VENV_PYTHON) -c "import shutil; shutil.make_archive('docs/_build/minispec-book', 'zip', 'docs/_build/html')"

browser: $(BROWSER) docs  ## drive notebooks and the book in a headless chromium, which must be installed
	@$(VENV_PYTHON) -m pytest -q -m browser tests/browser tests/docs $(PYTEST_ARGS)

clean:  ## remove the environment, caches and build products (trained pairs stay)
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -rf docs/_build docs/node_modules docs/notebooks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(CREATED):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "minispec needs Python 3.11 or newer; '$(PYTHON)' is not: try make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' has no venv module: install it (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(RUNTIME): $(REQUIREMENTS) $(CREATED)
	@echo "Installing minispec into $(VENV) (the first time this can take minutes: PyTorch is large)"
	@$(PIP_INSTALL) -e .
	@touch $@

# An extra brings the runtime along, so the runtime's stamp is set too.
$(TEST): $(REQUIREMENTS) $(CREATED)
	@echo "Installing minispec and what its tests need into $(VENV)"
	@$(PIP_INSTALL) -e '.[test,docs]'
	@touch $(RUNTIME) $(DOCS) $@

$(LINT): $(REQUIREMENTS) $(CREATED)
	@echo "Installing minispec and what lint needs into $(VENV)"
	@$(PIP_INSTALL) -e '.[lint]'
	@touch $(RUNTIME) $@

$(NOTEBOOKS): $(REQUIREMENTS) $(CREATED)
	@echo "Installing minispec and JupyterLab into $(VENV)"
	@$(PIP_INSTALL) -e '.[notebooks]'
	@touch $(RUNTIME) $@

$(BROWSER): $(REQUIREMENTS) $(CREATED)
	@echo "Installing minispec and what its browser tests need into $(VENV)"
	@$(PIP_INSTALL) -e '.[test,docs,notebooks,browser]'
	@touch $(RUNTIME) $(TEST) $(DOCS) $(NOTEBOOKS) $@

$(DOCS): $(REQUIREMENTS) $(CREATED)
	@echo "Installing minispec and what the book needs into $(VENV)"
	@# One process imports all that the book needs: to compile every module first would take longer.
	@$(PIP_INSTALL) --no-compile -e '.[docs]'
	@touch $(RUNTIME) $@
