"""A Minari dataset of the episodes whose steps were recorded (``trajectories=True``); needs ``minari[arrow]``.

``python examples/episodes_to_minari.py ~/ray_results/my_sweep cartpole/random-v0 CartPole-v1``
"""

import argparse
from pathlib import Path

import gymnasium as gym
import minari
import numpy as np
import pandas as pd
from minari.data_collector import EpisodeBuffer

import tune_media as tm


def arrays(steps, name):
    """Return a value of all steps as one array."""
    return np.stack([np.asarray(value) for value in steps[name]])


def buffers(experiment):
    """Yield the episodes, each with the facts that its record has."""
    facts = tm.load(experiment).episodes().set_index("episode_id")
    for file in sorted(Path(experiment).rglob("episode_data/steps-*.parquet")):
        for episode, steps in pd.read_parquet(file).groupby("episode_id", sort=False):
            steps = steps.sort_values("episode_step")
            taken = steps[steps["episode_step"] > 0]  # step 0 is the reset
            is_terminated, before = bool(facts.loc[episode, "terminated"]), [False] * (len(taken) - 1)
            yield EpisodeBuffer(
                seed=int(facts.loc[episode, "seed"]),
                observations=arrays(steps, "observation"),
                actions=arrays(taken, "action"),
                rewards=taken["reward"].tolist(),
                terminations=[*before, is_terminated],
                truncations=[*before, not is_terminated],
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("experiment", "dataset", "env"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    minari.create_dataset_from_buffers(
        arguments.dataset, buffer=list(buffers(arguments.experiment)), env=gym.make(arguments.env), data_format="arrow"
    )
