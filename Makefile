# Every target works on a fresh clone with make and Python 3.11 or later; the first one installs
# what it needs into .venv, and again when pyproject.toml or constraints.txt change.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
OLDEST := .cache/oldest

# Tests start hundreds of processes; without it each would compile every module that it loads.
unexport PYTHONDONTWRITEBYTECODE

# Where tests write, if there is room in memory for it, and programs may be run from there: to wait
# for a disk takes half of the time of many.
MEMORY = $(shell file=$$(mktemp -p /dev/shm 2>/dev/null) && chmod +x "$$file" && \
	echo '[ $$(df --output=avail /dev/shm | tail -1) -gt 4000000 ] && echo /dev/shm' >"$$file" && \
	"$$file"; rm -f "$$file")

.DEFAULT_GOAL := help
.PHONY: help run demo test soak programs oldest compiled lint bench reliability eval shape golden docs dist deb rpm image \
	requirements sbom

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 13

run: $(INSTALLED) ## The agent on this machine's GPUs, on simulated ones where there are none; LISTEN=HOST:PORT
	$(BIN)/python -m rightsizer.cli.first_run run $(LISTEN)

demo: $(INSTALLED) ## A day of a simulated node with eight GPUs, in two minutes if nothing else runs; LISTEN=HOST:PORT
	$(BIN)/python -m rightsizer.cli.first_run demo $(LISTEN)

test: $(INSTALLED) ## Everything that must hold: lint, types and tests
	@# What the workers load is compiled once, beside the linters.
	@$(MAKE) --no-print-directory -j2 lint compiled
	@# A file's tests stay together, for they share what is slow to start; the slowest files come
	@# first. Four workers on two cores, for many tests wait for a process; each collects all tests.
	@# What fails is tried once more, alone and one at a time: real servers are started and killed,
	@# and a machine with other work may not get to them in time. What fails twice has failed.
	@if [ '$(MEMORY)' ]; then \
		export TMPDIR=$$(mktemp -d $(MEMORY)/XXXX); \
		chmod 1777 "$$TMPDIR"; \
		trap 'rm -rf "$$TMPDIR"' EXIT; \
	fi; \
	$(BIN)/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder || { \
		[ $$? -eq 1 ] || exit 2; \
		printf '\nThe tests above failed beside others; the same again, each alone:\n\n'; \
		$(BIN)/pytest --last-failed --last-failed-no-failures none -rap || exit; \
		printf '\nThe tests that are listed passed only alone: they are to wait for what they test.\n'; }

soak: $(INSTALLED) ## What waits long or installs much, of which the tests have a short twin
	$(BIN)/pytest -m soak --numprocesses 2 --dist loadfile

programs: $(INSTALLED) ## Tests of the programs that measure: evaluation/ and benchmarks/
	$(BIN)/pytest --numprocesses 2 --dist loadfile evaluation benchmarks

oldest: ## The tests with the oldest libraries that pyproject.toml admits, in .cache/oldest
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1' uv
	$(OLDEST)/bin/uv pip compile --quiet --resolution lowest-direct --all-extras \
		pyproject.toml --output-file $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --quiet -c $(OLDEST)/constraints.txt \
		-e .[kubernetes,fleet,mcp,cli] --group dev
	@# The simulated driver mirrors the newest nvidia-ml-py, the writer the newest prometheus_client;
	@# the pins are what `make test` installs.
	$(OLDEST)/bin/pytest --numprocesses 5 --dist loadfile --ignore tests/simulator \
		--ignore tests/security/test_bill_of_materials.py \
		-k 'not writer_equals_the_library and not number_is_written_as_the_library'

compiled: $(INSTALLED)
	@$(BIN)/python -m compileall -qq daemon
	@$(BIN)/pytest --collect-only -qqq >/dev/null || true

lint: $(INSTALLED) ## Style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(INSTALLED) ## What the agent costs: CPU, memory, time and size of a scrape
	$(BIN)/python benchmarks/run.py

reliability: $(INSTALLED) ## What happens to an agent under each fault that can be planted; writes benchmarks/reliability/RESULTS.md
	$(BIN)/python benchmarks/reliability/run.py

eval: $(INSTALLED) ## How often it is right; SCENARIOS=DIR scores your own, RIGHTSIZER_TRUTH=DIR adds recordings
	$(BIN)/python evaluation/run.py $(if $(SCENARIOS),--scenarios '$(SCENARIOS)')

shape: $(INSTALLED) ## How the code is built: statements, modules that commands load and ways enter
	$(BIN)/python benchmarks/shape.py

golden: $(INSTALLED) ## Write the generated documents and golden files; read the difference
	$(BIN)/pytest -q --write-golden tests

docs: $(INSTALLED) ## The documentation as a site in site/
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/mkdocs build --quiet --strict

dist: $(INSTALLED) ## Wheel and source archive in dist/
	PYTHON=$(BIN)/python config/packages/build dist

deb: $(INSTALLED) ## A package for Debian and Ubuntu in dist/, with all libraries; ARCHITECTURE=arm64
	PYTHON=$(BIN)/python config/packages/build deb

rpm: $(INSTALLED) ## The same for Fedora and Red Hat
	PYTHON=$(BIN)/python config/packages/build rpm

image: $(INSTALLED) ## Both images, built and run; needs root, mmdebstrap, buildah, bubblewrap, docker.io
	$(BIN)/pytest -m image -n 0 -s

requirements: $(INSTALLED) ## Hashes of all that packages and images contain, from the package index
	$(BIN)/python config/packages/requirements.py

sbom: $(INSTALLED) ## A bill of materials of the agent in dist/, CycloneDX
	$(BIN)/python config/packages/sbom.py dist/rightsizer.cdx.json

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed, $(PYTHON) is older; name another: make PYTHON=python3.12")'
	@echo 'Installing into .venv, which takes some minutes and says nothing; later calls do not.'
	$(PYTHON) -m venv .venv
	@# The group of development tools needs pip 25.1.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .[kubernetes,fleet,mcp] --group dev
	@touch $@
