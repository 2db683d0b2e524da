# make test        everything that has to hold before a commit, in a few minutes
# make test-all    the same, and the wide sweeps; with PART=$(git rev-parse HEAD), as in CI, that commit's sixth of them
# make test-aarch64  kernels and conformance for PROCESSORS of Arm's, in an emulator or on such a machine
# make test-torch  importing and torch.compile with the oldest and the newest torch that they are for
# make fuzz        random programs for BUDGET (10min, 2h, ...), a job per core; see test/fuzz/README.md
# make soak        a process that loads, calls, forks and compiles for BUDGET; see docs/guides/servers.md
# make demo        ResNet-18 with and without iree-winograd
# make amd         Mesa's newest compiler for AMD's GPUs in build/amd-mesa, for benchmarks.amd; needs Debian's apt
# make docs        the pages of docs/ as a site in build/site; a broken link is an error
# They work in the active virtual environment, or else in one that they make in .venv.

venv := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
python := $(venv)/bin/python
installed := $(venv)/.iree-winograd-installed
documented := $(venv)/.iree-winograd-documented
typed := build/typecheck/iree/winograd
# One worker per thread of the processor, of which `auto` takes every other one; tests that share what takes long to
# make are a group, which one worker runs. Threads of torch and numpy that wait for work would spin, on processors that
# another worker has use for.
pytest := OMP_WAIT_POLICY=passive OPENBLAS_NUM_THREADS=1 $(python) -m pytest -q --numprocesses=logical --maxprocesses=8 --dist=loadgroup

# mypy has one thread: the other core runs lit meanwhile.
MAKEFLAGS += --jobs=2

# Tests start hundreds of processes, which would each compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

BUDGET ?= 10min
# A text, by which `test-all` leaves out five sixths of the parameters of each sweep, and of a file's smaller ones.
PART ?=
# The ends of the range in pyproject.toml.
TORCH_VERSIONS ?= 2.11.0 2.14.1

# What test-aarch64 compiles for: NEON alone, with fp16, and with SVE. The emulator knows apple-m1, too.
PROCESSORS ?= cortex-a72 cortex-a76 neoverse-v1
# IREE's compiler doesn't end for neoverse-v1, with or without this project.
endless := test/pipelines/cpu/test_attention.py::test_attention_of_a_batch_known_at_run_time
# Of kernels beside convolutions, which test/pipelines/cpu/aarch64 has.
emulated := $(addprefix test/pipelines/,cpu/test_softmax.py cpu/test_layer_norm.py cpu/test_pixel_sums.py \
  cpu/test_pooling.py cpu/test_weight_gradients.py test_numbers.py)

.PHONY: amd checks demo docs format fuzz imported lint lit soak system-packages test test-aarch64 test-all test-torch typecheck

demo: $(installed)
	$(python) samples/demo.py

test: checks
	$(pytest) -m 'not wide'

test-all: checks
	$(pytest) $(if $(PART),--part-of-sweeps=$(PART))
	$(pytest) -m 'not wide' --cpu cortex-a76 $(emulated)

test-aarch64: system-packages $(installed)
	for processor in $(PROCESSORS); do \
	  $(pytest) -m 'not wide' --cpu $$processor --deselect '$(endless)' \
	    test/pipelines/cpu test/pipelines/test_*.py test/conformance || exit 1; \
	done

test-torch:
	for version in $(TORCH_VERSIONS); do test/torch-version.sh $$version || exit 1; done

docs: $(documented) imported
	NO_MKDOCS_2_WARNING=1 $(python) -m mkdocs build --quiet

fuzz: $(installed)
	$(python) test/fuzz --jobs $(shell nproc) --seconds $(BUDGET)

amd: build/amd-mesa/radeon.json

build/amd-mesa/radeon.json:
	benchmarks/amd/install-mesa.sh build/amd-mesa

soak: $(installed)
	$(python) -W ignore test/soak --seconds $(BUDGET)

checks: system-packages format lint typecheck lit

lit: $(installed)
	$(venv)/bin/lit -q test

format: $(installed)
	$(python) -m ruff format --check .

lint: $(installed)
	$(python) -m ruff check .

system-packages:
	test/system-packages.sh

# mypy and mkdocstrings follow folders, so the four source roots have to lie as they are imported.
imported:
	rm -rf $(typed) && mkdir -p $(typed)
	ln -s $(CURDIR)/python/winograd/* $(CURDIR)/dialect $(CURDIR)/passes $(CURDIR)/pipelines $(typed)

typecheck: $(installed) imported
	MYPYPATH=build/typecheck $(python) -m mypy --cache-dir=.mypy_cache -p iree.winograd

$(installed): pyproject.toml | $(python)
	$(python) -m pip install --quiet --no-compile --editable '.[bench,test,torch]' requests
	$(python) -m pip install --quiet --no-compile --no-deps pytorchcv==0.0.67
	touch $@

$(documented): pyproject.toml | $(python)
	$(python) -m pip install --quiet --no-compile --editable '.[docs]'
	touch $@

$(python):
	python3 -m venv $(venv)
