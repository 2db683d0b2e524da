# make test    everything that has to hold before a commit
# make demo    ResNet-18 with and without iree-winograd
# Both work in the active virtual environment, or else in one that they make in .venv.

venv := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
python := $(venv)/bin/python
installed := $(venv)/.iree-winograd-installed
typed := build/typecheck/iree/winograd

.PHONY: demo test typecheck

demo: $(installed)
	$(python) samples/demo.py

test: $(installed) typecheck
	$(python) -m ruff format --check .
	$(python) -m ruff check .
	$(venv)/bin/lit -q test
	$(python) -m pytest -q

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
