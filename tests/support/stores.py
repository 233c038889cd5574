"""Trial stores on this machine, and what they left when their driver was killed."""

import functools
import hashlib
import json

import pyarrow.fs

import tune_media as tm
from tune_media.storage.entry import PendingWrite
from tune_media.storage.index_lines import INDEX_PATH, valid_lines
from tune_media.storage.trial_store import TrialStore
from tune_media.values.episodes import EpisodeBatch, EpisodeData

LOCAL = pyarrow.fs.LocalFileSystem()
ITERATIONS = [1, 2, 3]


def store_one(store, medium, section="evaluation", key="episodes/best", step=7, iteration=3):
    """Register a medium, write it if it is new, and return its path."""
    path, entry = store.registry.register(medium, section, key, step, iteration)
    if entry:
        store.write(PendingWrite("trial_1", [entry]))
    return path


def opened(place, **options):
    """Return a store that has read the lines of earlier runs."""
    store = TrialStore(place, **options)
    store.load()
    return store


def lines(folder):
    """Return the valid lines of an index, the last one of each key; each line must be whole."""
    content = (folder / "media" / "index.jsonl").read_bytes()
    assert all(json.loads(line) for line in content.splitlines())
    return valid_lines(content)


def raw(content):
    """Return what comes as an array, known by its content alone."""
    medium = tm.Artifact(content, name="clip.bin")
    object.__setattr__(medium, "id", hashlib.sha256(content).hexdigest()[:32])
    return medium


def record_results(location, frames):
    """Record three results, each with a clip of an episode and the episode's data, and write their result.json."""
    store = TrialStore(location)
    store.load()
    results = []
    for iteration in ITERATIONS:
        episode = tm.EpisodeRecord(
            f"e{iteration}", 1.5 * iteration, 3, terminated=True, seed=7, env_runner=2, metrics={"speed": 4.0}
        )
        store.rollbacks.goes_on(iteration, iteration)
        clip = tm.Video(frames(3), fps=12, episode=episode)
        path, entry = store.registry.register(clip, "evaluation", "episodes/best", iteration, iteration)
        data = EpisodeBatch((EpisodeData(episode, {}),))
        own_path = functools.partial(store.registry.report_path, iteration)
        _, batch = store.registry.register(data, "evaluation", "episodes/data", iteration, iteration, own_path)
        store.write(PendingWrite("t1", [entry]))
        store.write(PendingWrite("t1", [batch], [entry, batch]))
        results.append({"training_iteration": iteration, "trial_id": "t1", "clip": path})
    store.finish()
    text = "".join(json.dumps(result) + "\n" for result in results)
    (location.local_path.parents[1] / location.path / "result.json").write_text(text)


def index_of(folder):
    """Return the valid lines of the index in a trial's folder."""
    return valid_lines((folder / INDEX_PATH).read_bytes())


def lose_lines(folder, keep=0):
    """Have the index as it was when the driver was killed."""
    lines = (folder / INDEX_PATH).read_bytes().splitlines(keepends=True)
    (folder / INDEX_PATH).write_bytes(b"".join(lines[:keep]))
