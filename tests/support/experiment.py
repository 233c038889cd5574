"""What several tests ask of a finished experiment."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tune_media as tm
from tests.support.envs import COUNTS, read_frame
from tune_media.encoding.decode import decode_video

if TYPE_CHECKING:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


_ended = [0]  # the seconds in which sweeps ended


def fit(trainable: Any, folder: str | Path, callbacks: Any, *, space: Any = None, **more: Any) -> Any:
    """Run a sweep; of ``more``, ``tune_config`` goes to Tune, and the rest to the run's config."""
    from ray import tune

    while int(time.time()) == _ended[-1]:  # Tune's staging folders are named by the second
        time.sleep(0.02)
    tune_config = tune.TuneConfig(**more.pop("tune_config", {}))
    options = {"name": "exp", "storage_path": str(folder), "verbose": 0, "callbacks": callbacks, **more}
    run_config = tune.RunConfig(**options)
    try:
        return tune.Tuner(trainable, param_space=space or {}, tune_config=tune_config, run_config=run_config).fit()
    finally:
        _ended.append(int(time.time()))


def read_clip(clip: str | Path | tm.Video) -> list[COUNTS]:
    """Read the numbers off every frame of a clip of a CountingEnv."""
    content = clip.data if isinstance(clip, tm.Video) else Path(clip).read_bytes()
    return [read_frame(frame) for frame in decode_video(content)]


def assert_whole_episode(clip: str | Path | tm.Video, length: int) -> COUNTS:
    """Assert that a clip shows one episode of one env from its reset to its last step, each frame once."""
    counts = read_clip(clip)
    assert [count.step for count in counts] == list(range(length + 1))
    assert len({(count.env, count.episode, count.agent) for count in counts}) == 1
    return counts[0]


def tensorboard_events(trial_folder: str | Path) -> EventAccumulator:
    """Load all that a trial's event files hold."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # trials' processes need none

    events = EventAccumulator(str(trial_folder), size_guidance={"images": 0, "histograms": 0, "scalars": 0})
    return events.Reload()


def image_steps(trial_folder: str | Path) -> dict[str, list[int]]:
    """Return the steps of every image tag of a trial; every image must be a GIF or a PNG that is whole."""
    events = tensorboard_events(trial_folder)
    steps: dict[str, list[int]] = {}
    for tag in events.Tags()["images"]:
        for event in events.Images(tag):
            encoded = event.encoded_image_string
            assert encoded[:6] == b"GIF89a" or encoded[:8] == b"\x89PNG\r\n\x1a\n"
            steps.setdefault(tag, []).append(event.step)
    return steps


def trial_folders(experiment: str | Path) -> list[Path]:
    return sorted(path.parent for path in Path(experiment).glob("*/params.json"))


def media_files(experiment: str | Path) -> list[Path]:
    """Return all media files of an experiment, whatever the index says; there must be no leftovers."""
    files = [path for path in Path(experiment).glob("*/media/**/*") if path.is_file() and path.name != "index.jsonl"]
    assert not [path for path in files if path.suffix == ".partial"]
    return sorted(files)


def rows_of(catalog: Any, **wanted: Any) -> list[dict[str, Any]]:
    """Return the rows of a catalog with these values."""
    return [row for row in catalog if all(row.get(name) == value for name, value in wanted.items())]
