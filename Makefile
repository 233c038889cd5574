# Two commands do everything: `make demo` and `make test`. Each creates the virtual environment it needs.
PYTHON ?= python3.11
VENV = .venv
OLDEST = .venv-oldest
PEERS = .venv-peers
# How long each test took, and which lines ran.
RESULTS = test-results
# Of make coverage: the tests of make test-fast, those that take seconds without Ray, and those with it.
PARTS = fast slow ray
# Python compiles what is imported, once: where this is set, each of the tests' many processes would compile Ray and torch.
unexport PYTHONDONTWRITEBYTECODE
PIP_FLAGS = --quiet --disable-pip-version-check --no-compile
# The tests that depend on the release of Ray or Gymnasium, but for those marked any_ray; the others have the same result on
# every release. The longest come first.
OLDEST_TESTS = tests/e2e/test_matrix.py tests/e2e/test_examples.py tests/e2e/test_episode_data.py \
	tests/e2e/test_tapes.py tests/e2e/test_hidden_state.py tests/e2e/test_trial_life.py tests/e2e/test_trainables.py tests/e2e/test_restore.py \
	tests/callbacks/test_contract.py tests/test_taped_env.py tests/rllib tests/gym tests/evaluation \
	tests/test_ray_compat.py
MACOS_TESTS = tests/callbacks/test_*.py tests/cli tests/encoding tests/evaluation/test_follow.py tests/gym tests/recording \
	tests/replay tests/storage tests/values
# A virtual environment that sees the packages of $(VENV).
define on_top
$(PYTHON) -m venv --clear $(1)
echo "import site; site.addsitedir('$$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')')" \
	> "$$($(1)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/base.pth"
endef
.PHONY: demo test pytest coverage test-fast test-macos test-oldest lint style types format docs bench release clean

demo: $(VENV)/demo
	$(VENV)/bin/tune-media demo

# mypy uses one core, so it runs beside the tests.
test: style
	@$(MAKE) --no-print-directory -j 2 types pytest

# No Ray and no browser: less than a minute on 2 cores.
test-fast: $(VENV)/installed
	$(VENV)/bin/python -m pytest -m "not ray and not slow" --durations=5

# Those of the fast tests whose code meets the operating system, without what Linux has and macOS lacks.
test-macos: $(VENV)/installed
	TUNE_MEDIA_TESTS_AS_ON=macos $(VENV)/bin/python -m pytest -m "not ray and not slow" --durations=5 $(MACOS_TESTS)

test-oldest: $(OLDEST)/installed
	$(OLDEST)/bin/python -m pytest $(OLDEST_TESTS) -m "not any_ray" --junitxml=$(RESULTS)/oldest.xml

pytest: $(VENV)/installed
	$(VENV)/bin/python -m pytest --junitxml=$(RESULTS)/newest.xml

# Which lines the tests run, in pytest's own processes, by wing, in $(RESULTS). It costs next to nothing from Python 3.12 on
# (3.11: twice the time): make coverage PYTHON=python3.13 VENV=.venv-3.13. A part that fails leaves the others' lines.
coverage: $(VENV)/installed
	.ci/coverage $(VENV)/bin/python $(RESULTS) $(PARTS)

lint: style types

style: $(VENV)/installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/installed
	$(VENV)/bin/mypy

format: $(VENV)/installed
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

# The site, with warnings as errors; open docs/_build/html/index.html.
docs: $(VENV)/installed
	$(VENV)/bin/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(VENV)/bin/python -m tests.support.site docs/_build/html

# Writes tests/benchmarks/tables.md and docs/performance.md. make bench ONLY="soak bytes" runs some; MuJoCo needs Debian's libosmesa6.
bench: $(VENV)/installed $(PEERS)/installed $(OLDEST)/installed
	$(VENV)/bin/python -m tests.benchmarks.report --peers $(PEERS)/bin/python --oldest $(OLDEST)/bin/python $(ONLY)

# Builds and checks the files to upload, in dist/. It tags and uploads nothing.
release: $(VENV)/installed
	rm -rf dist build
	$(VENV)/bin/python -m build --outdir dist .
	$(VENV)/bin/twine check --strict dist/*
	$(VENV)/bin/python -m pytest -n 0 -q tests/test_packaging.py
	.ci/wheel dist
	.ci/conda/fill dist
	@ls dist; echo "Next: RELEASING.md"

clean:
	rm -rf $(VENV) $(OLDEST) $(PEERS) .venv-lowest .venv-ray-wheel docs/_build build dist $(RESULTS) *.egg-info

# The demo needs neither the tests' packages nor the docs'. Whoever has those has the demo's, too.
$(VENV)/demo: setup.cfg constraints.txt constraints-newest.txt
	@echo "Installing into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python .ci/install.py -c constraints-newest.txt -e '.[rllib,tensorboard]'
	touch $@

$(VENV)/installed: setup.cfg constraints.txt constraints-newest.txt
	@echo "Installing into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python .ci/install.py -c constraints-newest.txt -e '.[dev]'
	touch $(VENV)/demo $@

# The two below lie on top of $(VENV): they hold only what differs.
$(OLDEST)/installed: $(VENV)/installed constraints-oldest.txt
	@echo "Installing the oldest supported Ray into $(OLDEST)"
	$(call on_top,$(OLDEST))
	$(OLDEST)/bin/python -m pip install $(PIP_FLAGS) -c constraints-oldest.txt -e '.[dev]'
	touch $@

$(PEERS)/installed: $(VENV)/installed tests/benchmarks/peers.txt
	$(call on_top,$(PEERS))
	$(PEERS)/bin/python -m pip install $(PIP_FLAGS) -r tests/benchmarks/peers.txt
	touch $@
