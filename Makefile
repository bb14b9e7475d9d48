# symlight: the table of contents. Every target calls one Python entry point.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# Not $(BIN)/symlight: its first line holds a path that a shell may take apart.
SYMLIGHT := $(BIN)/python -m symlight.host.cli
STAMP  := $(VENV)/.installed-$(shell cat pyproject.toml | cksum | cut -d' ' -f1)

.PHONY: help demo test slow bench bench-cpu bench-serve sparsity manifests lint card formal evidence mutants clean

help:            ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 12

$(STAMP):        # the virtual environment; made again when pyproject.toml changes
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -e .
	@touch $@

demo: $(STAMP)   ## generate, verilate, decode a prompt with the shipped checkpoint, prove every token
	$(SYMLIGHT) generate --model demo --device sim --card sim4 --build partial-kv \
		--prompt "In the beginning" --max-new-tokens 48 --verify --stats

# As many tests at a time as there are processors.
test: $(STAMP)   ## the whole suite but the tests marked slow
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow and not needs_card" $(TEST_OPTIONS)

slow: $(STAMP)   ## the full product of cases
	$(BIN)/python -m pytest -n auto --dist worksteal -m "slow and not needs_card"

bench: $(STAMP)  ## the standard benchmark table at full size (hours; goes on where it was): benchmarks/, plot, README
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[plots]'
	$(SYMLIGHT) bench-table --out benchmarks/kernel --page benchmarks/README.md --readme README.md

bench-cpu: $(STAMP) ## the CPU engines beside their peers, as ratios (random weights, 11 GB in build/): benchmarks/cpu*.json, README
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[peers,plots]'
	$(BIN)/python -m symlight.tools.bench_cpu.run --out benchmarks --readme README.md
	$(BIN)/python -m symlight.tools.bench_v1.run --out benchmarks

bench-serve: $(STAMP) ## a server under 1 and 8 clients, demo and 194M: benchmarks/serve.json (random weights, 0.4 GB in build/)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[serve]'
	$(BIN)/python -m symlight.tools.serve_bench

sparsity: $(STAMP) ## lambda against bits a byte, bytes and cycles (an hour; goes on where it was): build/sparsity/
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[train,plots]'
	$(BIN)/python -m symlight.tools.sparsity.run --out build/sparsity --simulate

manifests: $(STAMP) ## generate the kernels whose manifests are in bitstreams/, and rewrite these (minutes)
	$(SYMLIGHT) manifests --out bitstreams

formal: $(STAMP) ## the formal proofs: docs/evidence/formal.json and formal.md (minutes)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[evidence]'
	$(BIN)/python -m symlight.tools.formal.evidence

evidence: formal ## proofs, depth of logic, resources, place and route, lint: docs/evidence/ (an hour; goes on where it was)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[evidence]'
	$(BIN)/python -m symlight.tools.evidence

card: $(STAMP)   ## the contract on a real card: make card XCLBIN=file [DEVICE=xrt:0]
	$(BIN)/python -m pytest -m needs_card --xclbin "$(XCLBIN)" --xrt-device $(or $(DEVICE),xrt:0)

mutants: $(STAMP) ## wrong lines that the tests must see: docs/evidence/mutants.json (hours; goes on where it was)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[mutants]'
	$(BIN)/python -m symlight.tools.mutants --out docs/evidence/mutants.json

lint: $(STAMP)   ## ruff: rules and format; mypy: types of the rooms in tools/typecheck.py
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -e '.[lint]'
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m tools.typecheck

clean:           ## remove everything built here
	rm -rf build .pytest_cache
