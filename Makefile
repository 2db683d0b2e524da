# make test        everything that has to hold before a commit, in a few minutes
# make test-all    the same, and the wide sweeps, which CI runs
# make fuzz        random programs for BUDGET (10min, 2h, ...), a job per core; see test/fuzz/README.md
# make demo        ResNet-18 with and without iree-winograd
# They work in the active virtual environment, or else in one that they make in .venv.

venv := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
python := $(venv)/bin/python
installed := $(venv)/.iree-winograd-installed
typed := build/typecheck/iree/winograd
# One worker per core; tests that share what takes long to make are a group, which one worker runs.
pytest := $(python) -m pytest -q --numprocesses=auto --maxprocesses=8 --dist=loadgroup

BUDGET ?= 10min

.PHONY: checks demo fuzz system-packages test test-all typecheck

demo: $(installed)
	$(python) samples/demo.py

test: checks
	$(pytest) -m 'not wide'

test-all: checks
	$(pytest)

fuzz: $(installed)
	$(python) test/fuzz --jobs $(shell nproc) --seconds $(BUDGET)

checks: system-packages $(installed) typecheck
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(venv)/bin/lit -q test

system-packages:
	test/system-packages.sh

# mypy follows folders, so the four source roots have to lie as they are imported.
typecheck: $(installed)
	rm -rf $(typed) && mkdir -p $(typed)
	ln -s $(CURDIR)/python/winograd/* $(CURDIR)/dialect $(CURDIR)/passes $(CURDIR)/pipelines $(typed)
	MYPYPATH=build/typecheck $(python) -m mypy --cache-dir=.mypy_cache -p iree.winograd

$(installed): pyproject.toml | $(python)
	$(python) -m pip install --quiet --editable '.[bench,test,torch]'
	$(python) -m pip install --quiet requests
	$(python) -m pip install --quiet --no-deps pytorchcv==0.0.67
	touch $@

$(python):
	python3 -m venv $(venv)
