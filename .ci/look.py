"""Look at the results of examples/own_env.py with the installed package: `.ci/wheel` runs it outside the checkout."""

import importlib.metadata
import sys
from pathlib import Path
from types import SimpleNamespace

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import tune_media as tm

path = sys.argv[1]
assert "site-packages" in tm.__file__, tm.__file__
assert importlib.metadata.version("tune-media") == tm.__version__
catalog = tm.load(path)
assert len(catalog) == 6, catalog
assert all(row["frames"] == row["episode_length"] + 1 for row in catalog)
assert sum(1 for _ in catalog.best().frames()) == catalog.best()["frames"]
for trial in Path(path).glob("train_*"):
    events = EventAccumulator(str(trial)).Reload()
    assert events.Tags()["images"] == ["train/clips/best"], events.Tags()
    assert len(events.Images("train/clips/best")) == 3
(loader,) = (one for one in importlib.metadata.entry_points(group="tensorboard_plugins") if one.name == "episodes")
tab = loader.load()().load(SimpleNamespace(logdir=path, flags=SimpleNamespace(logdir_spec=None)))
assert tab is not None and tab.is_active()
try:
    tm.rllib  # noqa: B018 - its import is tried
except ImportError as error:
    print(error)  # the extra that it needs
else:
    raise AssertionError("RLlib is installed without its extra")
print(f"6 clips of 2 trials, the best return is {catalog.best()['episode_return']:g}")
