"""Makes the folders of ``tests/data/foreign`` with the tools themselves, each in an environment that has the tool.

``python -m tests.support.foreign.make_<tool> FOLDER``; each docstring has the versions with which it was done.
"""
