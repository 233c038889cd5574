"""Counts the modules and functions of the package that one clip enters: wrapper -> callback -> files -> ``tm.load``.

``python -m tests.support.trace_clip [--list]``. Only functions with a name count, no lambdas and no comprehensions. No
Ray is started. The timing of threads changes the number of functions by one.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium as gym
import numpy as np

import tune_media as tm
import tune_media.experiment.trial_folders
import tune_media.viewing.catalog
import tune_media.viewing.payload
from tests.support.fake_trial import FakeTrial, run

PACKAGE = f"{Path(tm.__file__).parent}/"


class Env(gym.Env[int, int]):
    """Episodes of four steps, with a value of the env's own."""

    observation_space, action_space = gym.spaces.Discrete(9), gym.spaces.Discrete(2)
    render_mode, metadata = "rgb_array", {"render_fps": 5}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self.t, 1.0, self.t == 4, False, {"data": {"running": {"speed": 1.0 * self.t}}}

    def render(self) -> Any:
        return np.full((32, 32, 3), 20 * self.t, "uint8")


class Trace:
    """The modules, and the functions in them, that were entered in each phase."""

    def __init__(self) -> None:
        self.entered: dict[str, set[tuple[str, str]]] = defaultdict(set)

    def of(self, phase: str, work: Callable[[], Any]) -> Any:
        def note(frame: FrameType, event: str, _: Any) -> None:
            path = frame.f_code.co_filename
            if event == "call" and frame.f_code.co_flags & 1 and path.startswith(PACKAGE):  # 1: no class body
                name = frame.f_code.co_qualname
                self.entered[phase].add((path[len(PACKAGE) :], "" if "<" in name.rpartition(".")[2] else name))

        sys.setprofile(note)
        threading.setprofile(note)
        try:
            return work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)


def episode(env: Any, seed: int) -> dict[str, Any]:
    env.reset(seed=seed)
    while not env.step(0)[2]:
        pass
    return dict(env.take())


def logged(taken: dict[str, Any], folder: Path) -> None:
    run([tm.JsonMediaLoggerCallback()], FakeTrial(folder), [{"env_runners": {"episodes": taken}, "score": 1.0}])


def counted(places: set[tuple[str, str]]) -> str:
    return f"{len({module for module, _ in places})} modules, {sum(bool(function) for _, function in places)} functions"


def main() -> None:
    env = tm.gym.RecordEpisodes(Env(), keep="best", render="direct")
    warm, folder = (Path(tempfile.mkdtemp()) for _ in range(2))  # imports and caches are not counted
    logged(episode(env, 9), warm)
    list(tm.load(str(warm / "storage")))
    trace = Trace()
    taken = trace.of("record", lambda: episode(env, 0))
    trace.of("driver", lambda: logged(taken, folder))
    trace.of("read", lambda: list(tm.load(str(folder / "storage"))))
    for phase, places in trace.entered.items():
        print(f"{phase}: {counted(places)}")
        if "--list" in sys.argv:
            for module, count in sorted(Counter(module for module, _ in places).items()):
                print(f"    {module} {count}")
    print(f"all: {counted(set().union(*trace.entered.values()))}")


if __name__ == "__main__":
    main()
