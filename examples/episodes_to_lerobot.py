"""LeRobot's main files (v3.0) of the episodes whose steps and clips were recorded (``trajectories=True``).

A frame has the observation before a step, the action, and the reward and the end after it; each clip is one video.
``python examples/episodes_to_lerobot.py ~/ray_results/my_sweep walker "walk far"``
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

import tune_media as tm


def write(experiment, folder, task):
    """Write the frames as Parquet, the clips as they are, and ``meta/info.json``."""
    catalog, frames, rows = tm.load(experiment), [], []
    steps = pd.concat(map(pd.read_parquet, sorted(Path(experiment).rglob("episode_data/steps-*.parquet"))))
    clips = {row["episode_id"]: row for row in catalog if row["kind"] == "video"}
    for number, (episode, own) in enumerate(steps[steps["episode_id"].isin(list(clips))].groupby("episode_id")):
        own, fps, count = own.sort_values("episode_step"), clips[episode]["fps"], len(own) - 1
        before, after = own.iloc[:-1], own.iloc[1:]
        is_last = np.arange(count) == count - 1
        frame = {"observation.state": before["observation"].tolist(), "action": after["action"].tolist()}
        frame |= {"next.reward": after["reward"].to_numpy(np.float32), "next.done": is_last, "task_index": 0}
        frame |= {"timestamp": np.arange(count) / fps, "frame_index": np.arange(count), "episode_index": number}
        frames.append(pd.DataFrame(frame))
        rows.append({"episode_index": number, "length": count, "tasks": [task]})
        video = folder / f"videos/observation.image/chunk-000/file-{number:03d}.mp4"
        video.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(clips[episode]["file"], video)
    for name, table in (("data", pd.concat(frames)), ("meta/episodes", pd.DataFrame(rows))):
        (folder / name / "chunk-000").mkdir(parents=True, exist_ok=True)
        table.to_parquet(folder / name / "chunk-000" / "file-000.parquet", index=False)
    info = {"codebase_version": "v3.0", "fps": fps, "total_episodes": len(rows), "total_frames": sum(map(len, frames))}
    (folder / "meta" / "info.json").write_text(json.dumps(info, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("experiment", "folder", "task"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    write(arguments.experiment, Path(arguments.folder), arguments.task)
