# Two commands do everything: `make demo` and `make test`. Each creates the virtual environment it needs.
PYTHON ?= python3.11
VENV = .venv
OLDEST = .venv-oldest
PIP_FLAGS = --quiet --disable-pip-version-check

.PHONY: demo test test-oldest lint clean

demo: $(VENV)/installed
	$(VENV)/bin/tune-media demo

test: lint
	$(VENV)/bin/python -m pytest

test-oldest: $(OLDEST)/installed
	$(OLDEST)/bin/python -m pytest

lint: $(VENV)/installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

clean:
	rm -rf $(VENV) $(OLDEST) build *.egg-info

$(VENV)/installed: setup.cfg constraints.txt constraints-newest.txt
	@echo "Installing into $(VENV) (a few minutes the first time)"
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -c constraints-newest.txt -e '.[dev]'
	touch $@

$(OLDEST)/installed: setup.cfg constraints.txt constraints-oldest.txt
	@echo "Installing the oldest supported Ray into $(OLDEST)"
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install $(PIP_FLAGS) -c constraints-oldest.txt -e '.[dev]'
	touch $@
