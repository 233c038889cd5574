"""Modules of a user's, in a folder, which a test edits and imports again."""

import importlib
import sys


class OwnModules:
    """Writes modules to a folder that Python imports from; ``end`` forgets them."""

    def __init__(self, folder, monkeypatch):
        self.folder, self._names = folder, set()
        folder.mkdir(exist_ok=True)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(self, **sources):
        """Write modules by their names, and have all of them imported again, as a new process does."""
        for name, source in sources.items():
            (self.folder / f"{name}.py").write_text(source)
        self._names |= sources.keys()
        self.end()
        importlib.invalidate_caches()

    def end(self):
        for name in self._names:
            sys.modules.pop(name, None)
