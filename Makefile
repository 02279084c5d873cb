# make demo | make check | make test: everything from a fresh clone with Python 3.11, pip and a compiler.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# most of the 27,000 files that --no-compile leaves alone are never imported; those that are must be kept compiled, or every
# process compiles PyTorch once more, two seconds each: containers often forbid it
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/pip install --quiet --no-compile --constraint constraints.txt
# what an install compiles or reads; Python files are used in place
SOURCES := pyproject.toml CMakeLists.txt $(wildcard native/*)
# two processes of one thread each: more threads than cores only wait for each other
check test suite core: export OMP_NUM_THREADS = 1
PYTEST := -m pytest --numprocesses $(or $(JOBS),2) --dist worksteal
COVERAGE := build/coverage.json
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: setup demo lint check test suite coverage core package bench kernels sanitize fuzz soak public docs clean

# torch comes first and pinned: any other request for it would download gigabytes of CUDA
$(VENV)/.torch: constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) "$$(grep '^torch==' constraints.txt)"
	touch $@

# the package with what the demo needs
$(VENV)/.demo: $(VENV)/.torch $(SOURCES)
	$(PIP) --editable ".[demo]"
	touch $@

# the package with every extra
$(VENV)/.dev: $(VENV)/.torch $(SOURCES)
	$(PIP) --editable ".[dev]"
	$(PIP) --no-deps $(PUBLIC)
	touch $@ $(VENV)/.demo

# data and peers of `gatel0rd segment-public`: without dependencies, as their ranges of numpy and pandas end before our pins,
# and of all but claspy only the data files are read
PUBLIC := aeon claspy daproli deprecated llvmlite numba river seglearn
public: $(VENV)/.demo
	$(PIP) --editable ".[own,segment]"
	$(PIP) --no-deps $(PUBLIC)

setup: $(VENV)/.demo

# less than four minutes on two cores: trains two networks and writes runs/demo/demo.html
demo: setup
	$(BIN)/gatel0rd demo --out runs/demo

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# about a minute: what to run while working
check: lint
	$(BIN)/python $(PYTEST) -m "not slow and not browser and not cluster"

# everything; the linters work beside the tests
test: $(VENV)/.dev
	+$(MAKE) --no-print-directory --jobs=2 lint suite

suite: $(VENV)/.dev
	$(BIN)/python $(PYTEST)

# which lines the tests reach. SlipCover takes 7 % more time on Python 3.11, where coverage.py takes 40 % more; torch.compile
# cannot read the bytecode that it changes, so that tests which compile or export fail here, and only here
coverage: $(VENV)/.dev
	mkdir -p build
	-$(BIN)/python -m slipcover --source src --json --out $(COVERAGE) \
		$(PYTEST) -W "ignore::pytest.PytestAssertRewriteWarning"
	@$(BIN)/python scripts/print-coverage $(COVERAGE)

# the tests of the rooms that need no extra but envs, for platforms that do not have all extras
core:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[envs,test]"
	$(BIN)/python $(PYTEST) -m "not cluster" tests/engine tests/nn tests/models

# the wheel and the sdist, built and tried out in a clean environment
package: $(VENV)/.dev
	$(BIN)/python scripts/check-package

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks --isa $(or $(ISA),all) --save

# the GPU kernels compiled for targets that need not be here: shared memory, registers and spills
kernels: $(VENV)/.dev
	$(BIN)/python -m gatel0rd.engine.triton.offline

# the engine's tests on a build with AddressSanitizer and UndefinedBehaviorSanitizer
SANITIZED := build/sanitize
SANITIZERS = GATEL0RD_NATIVE=$$(ls $(abspath $(SANITIZED))/_native*.so) \
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
sanitize: $(VENV)/.dev
	$(PIP) nanobind cmake ninja
	$(BIN)/cmake -S . -B $(SANITIZED) -G Ninja -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DGATEL0RD_SANITIZE=ON \
		-DCMAKE_BUILD_TYPE=RelWithDebInfo -DPython_EXECUTABLE=$(abspath $(BIN))/python
	$(BIN)/cmake --build $(SANITIZED)
	for set in $$($(BIN)/python -c "from gatel0rd.engine import native; print(*native.module().available())"); do \
		GATEL0RD_ISA=$$set $(SANITIZERS) $(BIN)/python -m pytest tests/engine/test_engine.py tests/engine/test_hostile.py tests/nn/test_gated_layer.py \
			tests/training/test_trainer.py -k "$(or $(TESTS),not killed)" || exit 1; done
	$(SANITIZERS) $(FUZZ) engine --seconds $(or $(SECONDS),60)

# hostile input, $(SECONDS) for each target, and $(TRIES) at most: make fuzz SECONDS=600 TARGET="tables files"
FUZZ := PYTHONPATH=tests $(BIN)/python -m fuzz
fuzz soak: export OMP_NUM_THREADS = 1
fuzz: $(VENV)/.dev
	$(FUZZ) $(TARGET) --seconds $(or $(SECONDS),600) --tries $(or $(TRIES),100000000) --seed $(or $(SEED),$$(date +%s))

# the explorer under load, with its memory watched: make soak SECONDS=180
soak: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m fuzz.soak --seconds $(or $(SECONDS),180)

# figures and tables from the records, then the site; `make docs SERVE=1` also serves it at http://127.0.0.1:8000
docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict
	$(if $(SERVE),$(BIN)/mkdocs serve)

clean:
	rm -rf $(VENV) build dist site runs
