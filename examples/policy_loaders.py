"""Functions for ``--policy`` of ``tune-media evaluate``, ``gate`` and ``fork``: they load policies of other libraries.

Copy the one that you need into a module of your own, and pass ``--policy my_module:load``.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any


def load(path: str) -> Callable[[Any], Any]:
    """Load a PPO model of Stable-Baselines3, with the statistics of VecNormalize if it was trained with them.

    They are in the file that ``CheckpointCallback(save_vecnormalize=True)`` writes beside it: for
    ``rl_model_1000_steps.zip``, ``rl_model_vecnormalize_1000_steps.pkl``. The env must stack frames like VecFrameStack;
    SB3 refuses observations of another shape.
    """
    from stable_baselines3 import PPO

    model = PPO.load(path, device="cpu")
    if model._last_original_obs is None:  # trained without VecNormalize
        return lambda observation: model.predict(observation, deterministic=True)[0]
    statistics = Path(path.replace("rl_model_", "rl_model_vecnormalize_")).with_suffix(".pkl")
    if not statistics.exists():
        raise FileNotFoundError(f"{path} was trained with VecNormalize, and there is no {statistics.name}")
    normalize = pickle.loads(statistics.read_bytes()).normalize_obs
    return lambda observation: model.predict(normalize(observation), deterministic=True)[0]


def load_torch(path: str) -> Callable[[Any], Any]:
    """Load the weights of a torch module, which scores the actions."""
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))  # as it was trained
    network.load_state_dict(torch.load(path, weights_only=True))
    return lambda observation: int(network(torch.as_tensor(observation)).argmax())
