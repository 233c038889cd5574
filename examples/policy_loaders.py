"""Functions for ``--policy`` of ``tune-media evaluate``, ``gate`` and ``fork``: they load policies of other libraries.

Copy the one that you need into a module of your own, and pass ``--policy my_module:load``.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Predicts:
    """A model of Stable-Baselines3 or sb3-contrib as a policy; a recurrent one remembers the steps of an episode."""

    def __init__(self, model: Any, path: str) -> None:
        self._model, self._normalize = model, lambda observation: observation
        if model._last_original_obs is not None:  # trained with VecNormalize
            name = re.sub(r"_(\d+_steps)$", r"_vecnormalize_\1", Path(path).stem)
            statistics = Path(path).with_name(f"{name}.pkl")
            if not statistics.exists():
                raise FileNotFoundError(f"{path} was trained with VecNormalize, and there is no {statistics.name}")
            self._normalize = pickle.loads(statistics.read_bytes()).normalize_obs
        self.reset()

    def reset(self) -> None:
        """Forget the last episode; tune_media calls this before each one."""
        self._state = None  # of another model than a recurrent one it stays so

    def __call__(self, observation: Any) -> Any:
        """Return the action that the model takes for the best."""
        action, self._state = self._model.predict(self._normalize(observation), self._state, deterministic=True)
        return action


def load(path: str) -> Predicts:
    """Load a PPO model of Stable-Baselines3, with the statistics of VecNormalize if it was trained with them.

    They are in the file that ``CheckpointCallback(save_vecnormalize=True)`` writes beside it: for
    ``rl_model_1000_steps.zip``, ``rl_model_vecnormalize_1000_steps.pkl``. The env must stack frames like VecFrameStack;
    SB3 refuses observations of another shape.
    """
    from stable_baselines3 import PPO

    return Predicts(PPO.load(path, device="cpu"), path)


def load_recurrent(path: str) -> Predicts:
    """Load a recurrent PPO model of sb3-contrib, as ``load`` does those of Stable-Baselines3."""
    from sb3_contrib import RecurrentPPO

    return Predicts(RecurrentPPO.load(path, device="cpu"), path)


def load_torch(path: str) -> Callable[[Any], Any]:
    """Load the weights of a torch module, which scores the actions."""
    import torch

    network = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))  # as it was trained
    network.load_state_dict(torch.load(path, weights_only=True))
    return lambda observation: int(network(torch.as_tensor(observation)).argmax())
