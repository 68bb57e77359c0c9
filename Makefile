# Everything starts here: `make demo` and `make test` are all that a fresh Debian machine needs.
#
#   make demo            install what is missing, build the library and the main job (a small network trained over 8
#                        devices), run it
#   make demo-mpi        the same training on 4 processes x 2 devices under mpirun (MPIRUN=mpirun.mpich for another one), its
#                        losses beside those of one process
#   make test            install what is missing, build all, run every test; writes build/spec-report.txt
#   make build           the library, the command line, the examples and the tests, in build/
#   make test-long       the long random suites, and both sanitizers over all else
#   make test-verify     the tests labelled quick in verification mode: every program checked against itself run another way
#                        (without the mistakes that a compiler finds: these do not run)
#   make test-mpi        programs of several processes, under Open MPI's mpirun and under MPICH's
#   make test-planner    predictions beside published figures, and all other tests of the planner (docs/planner.md)
#   make sanitize-quick  both sanitizers over the tests labelled quick
#   make bench           every workload beside JAX; ONLY=name,name for some, ROUNDS=5, RECORD=1 keeps the figures
#   make bench-mpi       collectives over 2 and 4 processes beside plain MPI (MPI=mpich for MPICH) and, where ORACLE_PYTHON
#                        has JAX, beside JAX with gloo
#   make check-xla       programs that Tessera writes as StableHLO, run by XLA (jaxlib), and the bytes that both send for programs
#                        of JAX (ONLY=names or families); ORACLE_PYTHON names a Python with JAX
#   make jax-modules     the programs of JAX's own tests, recorded (JAX_TESTS=path to them) and run; MODULES=folder keeps them
#   make plugin          the PJRT plugin for JAX, build/plugin/libtessera_pjrt.so; its headers come from PyPI
#   make wheel           the Python package tessera-jax with the plugin, in build/wheel, for machines without Debian's libraries
#   make xla             XLA:CPU as a PJRT plugin, build/xla/libtessera_xla_cpu.so (docs/xla.md); test-xla-plugin tests it
#   make test-xla        tests and examples on XLA:CPU in place of the native engine (PLUGIN=path for another plugin, ONLY=engine, ONLY=operations/nn)
#   make test-cuda       the same on this machine's NVIDIA GPUs, and the compute workloads there beside JAX; without a GPU it prints that
#   make bench-xla       a jitted call on XLA:CPU beside the plugin's own execute call, and beside JAX on its XLA:CPU (PLUGIN=path, ROUNDS=5)
#   make jax-tests       JAX's own tests (JAX_TESTS=path to them) on XLA:CPU and on Tessera in its place; FILES=a,b for some
#   make test-python     the Python package's tests, and JAX's libraries on Tessera as far as ORACLE_PYTHON has them
#   make jax-random      COUNT=300 random JAX programs from SEED=0 on XLA:CPU and on Tessera (docs/jax-oracle.md)
#   make bench-jax       plain JAX programs on Tessera beside XLA:CPU; RECORD=1 writes the table
#   make bench-idioms    what JAX programs are made of, beside XLA:CPU, the slowest first; ONLY=WORD,WORD
#   make docs            the documentation site in build/site, and its checks: every public name documented, no dead link
#   make check-pages     the pages of plans, clicked through in headless Chromium; screenshots in build/pages
#   make format          rewrite the C++ files in the house format
#   make check-format, make lint, make layers, make check-install    what CI checks beside the tests
#   make install         install into PREFIX (/usr/local)
#   make packages        Debian packages in build/packages; make check-packages installs them in a clean Debian root and uses them there
#   make check-recipes   packs build/ with the Conan recipe and uses the package; reads vcpkg's port

SHELL := /bin/bash
JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
# Caches answer for every checkout of the project, wherever it lies.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1
# What a cache needs to answer for files that read a precompiled header.
export CCACHE_SLOPPINESS ?= pch_defines,time_macros

.DEFAULT_GOAL := build
.PHONY: names-jax-tests docs check-pages bench bench-jax bench-idioms jax-tests jax-random test-python plugin xla test-xla test-xla-plugin test-cuda bench-xla wheel bench-mpi check-xla jax-modules setup setup-checks build test test-verify test-mpi test-planner test-long demo demo-mpi sanitize-quick format check-format lint layers check-install check-packages check-recipes packages install clean

setup:
	@tools/setup.sh

setup-checks: setup
	@tools/setup.sh --checks

build: setup
	@cmake --preset release $(CMAKE_FLAGS)
	@cmake --build --preset release -j $(JOBS)

# What it builds is a part of what `build` builds, in the same place.
demo: setup
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target example_digits
	build/examples/digits

# More ranks than cores, and as root too, which Open MPI wants to be told.
MPIRUN ?= mpirun.openmpi
demo-mpi: export OMPI_ALLOW_RUN_AS_ROOT = 1
demo-mpi: export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM = 1
demo-mpi: export OMPI_MCA_rmaps_base_oversubscribe = 1
demo-mpi: export OMPI_MCA_mpi_yield_when_idle = 1
demo-mpi: setup
	@tools/setup.sh --mpi
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target example_digits tessera_mpi_openmpi tessera_mpi_mpich
	$(MPIRUN) -n 4 build/examples/digits

test: build
	@tools/run_tests.sh release

bench: setup
	@tools/setup.sh --bench
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target tessera_cli
	@python3 bench/side_by_side.py $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RECORD),--record)

# Without an interpreter that has JAX, one is made in build/oracle-venv.
ORACLE_PYTHON ?= build/oracle-venv/bin/python
check-xla: build
	@command -v $(ORACLE_PYTHON) >/dev/null || tools/oracle/setup.sh
	@rm -rf build/programs
	@TESSERA_PROGRAMS_DIR=build/programs build/tests/hlo_test --gtest_filter='Programs.*:*HloExport*' --gtest_brief=1
	@$(ORACLE_PYTHON) tools/hlo/check_with_xla.py build/programs --report build/xla-report.txt
	@$(ORACLE_PYTHON) tools/hlo/bytes/table.py --markdown build/bytes.md $(if $(ONLY),--only $(ONLY))

# What is recorded is kept: later runs record what is missing. Needs some hours of one core at first, then minutes.
MODULES ?= build/jax-modules
jax-modules: names-jax-tests build
	@command -v $(ORACLE_PYTHON) >/dev/null || tools/oracle/setup.sh
	@$(ORACLE_PYTHON) tools/hlo/jax_modules.py --tests $(JAX_TESTS) --folder $(MODULES)
	@$(ORACLE_PYTHON) tools/hlo/run_modules.py $(MODULES) --report build/jax-modules.tsv

plugin: setup
	@python3 tools/pjrt_headers.py build/pjrt-headers
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target tessera_pjrt

# 270 MB from PyPI the first time, and two minutes of one core.
XLA_TARGET ?= tessera_xla_cpu
xla: setup
	@python3 tools/pjrt_headers.py build/pjrt-headers
	@python3 tools/xla/fetch.py build/xla
	@cmake -S xla/cpu_plugin -B build/xla/plugin -G Ninja
	@cmake --build build/xla/plugin --target $(XLA_TARGET)
	@echo "XLA:CPU as a plugin: $(CURDIR)/build/xla/libtessera_xla_cpu.so"

# On another plugin than XLA:CPU with PLUGIN=path; ONLY=engine, annotations, collectives, operations, first or digits.
PLUGIN ?= build/xla/libtessera_xla_cpu.so
test-xla: plugin build
	@test -e $(PLUGIN) || $(MAKE) xla
	@python3 tools/xla/test.py build $(PLUGIN) $(if $(ONLY),--only $(ONLY))

# The plugin is that of the package jax-cuda13-pjrt; TESSERA_CUDA_PYTHON names a Python that has it, and JAX.
test-cuda: plugin build
	@python3 tools/xla/test_cuda.py build $(if $(ROUNDS),--rounds $(ROUNDS))

bench-xla: plugin
	@test -e $(PLUGIN) || $(MAKE) xla
	@cmake --build --preset release -j $(JOBS) --target pjrt_bench tessera_cli
	@build/bench/pjrt_bench $(abspath $(PLUGIN))
	@TESSERA_ENGINE=pjrt:$(abspath $(PLUGIN)) TESSERA_CPU_DEVICES=8 TF_CPP_MIN_LOG_LEVEL=3 JAX_PLATFORMS=cpu python3 bench/side_by_side.py \
	  --only dispatch_jit_1dev,dispatch_jit_alldev,dispatch_eager_alldev,dispatch_jit_100args_alldev --no-targets --out build/xla \
	  $(if $(ROUNDS),--rounds $(ROUNDS))

test-xla-plugin: XLA_TARGET = xla_cpu_plugin_test
test-xla-plugin: xla
	@build/xla/plugin/xla_cpu_plugin_test --gtest_brief=1

# The wheel brings the libraries that the plugin needs.
wheel: setup
	@python3 tools/pjrt_headers.py build/pjrt-headers
	@tools/jax/make_wheel.sh

# Before anything is built for them.
names-jax-tests:
	@[ -n "$(JAX_TESTS)" ] || { echo 'name the folder of JAX'"'"'s tests: JAX_TESTS=path' >&2; exit 1; }

jax-tests: export TESSERA_PJRT_LIBRARY = $(CURDIR)/build/plugin/libtessera_pjrt.so
jax-tests: names-jax-tests plugin
	@command -v $(ORACLE_PYTHON) >/dev/null || tools/oracle/setup.sh
	@$(ORACLE_PYTHON) tools/jax/run_tests.py --tests $(JAX_TESTS) $(if $(FILES),--files $(FILES))

test-python jax-random: export TESSERA_PJRT_LIBRARY = $(CURDIR)/build/plugin/libtessera_pjrt.so
test-python: plugin
	@command -v $(ORACLE_PYTHON) >/dev/null || tools/oracle/setup.sh
	@PYTHONPATH=python $(ORACLE_PYTHON) -m pytest -q -p tessera.pytest_plugin python/tests
	@cmake --build --preset release -j $(JOBS) --target tessera_dlpack_module tessera_arrow_module
	@$(ORACLE_PYTHON) tests/interop/check_dlpack.py build/interop/libtessera_dlpack_module.so
	@$(ORACLE_PYTHON) tests/interop/check_arrow.py build/interop/libtessera_arrow_module.so

jax-random: plugin
	@command -v $(ORACLE_PYTHON) >/dev/null || tools/oracle/setup.sh
	@$(ORACLE_PYTHON) tools/jax/random_programs.py --count $(or $(COUNT),300) --seed $(or $(SEED),0)

bench-idioms: export TESSERA_PJRT_LIBRARY = $(CURDIR)/build/plugin/libtessera_pjrt.so
bench-idioms: plugin
	@command -v $(ORACLE_PYTHON) >/dev/null || tools/oracle/setup.sh
	@$(ORACLE_PYTHON) bench/jax/idioms.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only $(ONLY))

bench-jax: export TESSERA_PJRT_LIBRARY = $(CURDIR)/build/plugin/libtessera_pjrt.so
bench-jax: plugin
	@command -v $(ORACLE_PYTHON) >/dev/null || tools/oracle/setup.sh
	@$(ORACLE_PYTHON) bench/jax/side_by_side.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RECORD),--record)

MPI ?= openmpi
bench-mpi: setup
	@tools/setup.sh --mpi
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target bench_mpi
	@python3 bench/mpi/side_by_side.py --mpi $(MPI) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(shell command -v $(ORACLE_PYTHON)),--jax $(ORACLE_PYTHON))

test-planner: setup
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target planner_test planner_more_test
	@build/tests/planner_test
	@TESSERA_ALL_PLANS=1 build/tests/planner_more_test

# Measurements, and training that compares two engines already, take minutes there.
test-verify: build
	@TESSERA_VERIFY=1 GTEST_FILTER=-Calibrate.WritesAClusterAndChecksIt:Pjrt*.TrainsAsTheNativeEngine \
	  tools/run_tests.sh release -L quick -E '^mistakes$$'

test-mpi: setup
	@tools/setup.sh --mpi
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target tests_mpi
	@ctest --preset release -L mpi

test-long: build
	@tools/run_tests.sh release -L long
	@for preset in asan-ubsan tsan; do TESSERA_ALL_CASES=1 tools/run_tests.sh $$preset -LE long || exit 1; done

sanitize-quick: setup
	@for preset in asan-ubsan tsan; do tools/run_tests.sh $$preset -L quick || exit 1; done

docs: setup
	@tools/setup.sh --docs
	@tools/docs/build.py

check-pages: setup
	@tools/setup.sh --pages
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS) --target tessera_cli
	@/usr/bin/python3 tests/pages/check_pages.py build/bin/tessera build/pages

format: setup-checks
	@git ls-files -z '*.h' '*.cc' | xargs -0 clang-format-14 -i

check-format: setup-checks
	@tools/check_format.sh

lint: setup setup-checks
	@tools/lint.py

layers: setup
	@python3 tools/check_layers.py

check-install: build
	@tools/check_install.sh

packages: build
	@tools/setup.sh --packages
	@rm -rf build/packages
	@cd build && cpack -G DEB

check-packages: packages
	@tools/check_packages.sh

check-recipes: build
	@tools/check_recipes.sh

install: build
	@cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build
