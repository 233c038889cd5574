"""All but RLlib's recorder, the logger callbacks and what plays RLlib's checkpoints works without Ray and tensorboardX.

`.ci/beside no_ray` runs this file where neither is installed.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tune_media as tm
from tune_media.cli.delivery import _TRACKERS
from tune_media.values.installing import pip_install

ROOT = Path(__file__).parents[1]
NO_RAY = """
import sys

class NoRay:
    def find_spec(self, name, path=None, target=None):
        if (library := name.partition(".")[0]) in ("ray", "tensorboardX"):
            raise ModuleNotFoundError(f"No module named {library!r}", name=name)

sys.meta_path.insert(0, NoRay())
"""


@pytest.fixture
def run(tmp_path):
    """Return a function that runs a script without Ray, and so all processes that it starts; it returns its output."""
    (tmp_path / "start").mkdir()
    (tmp_path / "start" / "sitecustomize.py").write_text(NO_RAY)
    others = {name: value for name, value in os.environ.items() if name != "TUNE_MEDIA_FORK_WORKERS"}
    environment = {**others, "PYTHONPATH": os.pathsep.join([str(tmp_path / "start"), str(ROOT)])}

    def run_script(script):
        command = [sys.executable, "-c", textwrap.dedent(script)]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_script


@pytest.mark.slow
def test_episodes_are_recorded_and_played_again(run):
    printed = run("""
        import gymnasium as gym
        import tune_media as tm

        class Walk(gym.Env):  # of a script, and so in no module that another process could import
            metadata = {"render_modes": ["rgb_array"], "render_fps": 5}
            observation_space, action_space = gym.spaces.Discrete(9), gym.spaces.Discrete(2)
            render_mode, at = "rgb_array", 0

            def reset(self, *, seed=None, options=None):
                super().reset(seed=seed)
                self.at = 0
                return 0, {}

            def step(self, action):
                self.at += 1
                return self.at, 1.0, self.at == 3, False, {}

            def render(self):
                import numpy as np
                return np.full((32, 32, 3), 60 * self.at, np.uint8)

        for render in ("direct", "replay"):
            folder = {"video_folder": "videos"} if render == "direct" else {"env_fn": Walk}
            env = tm.gym.RecordEpisodes(Walk(), keep="best", render=render, strict=True, **folder)
            env.reset(seed=1)
            while not env.step(1)[2]:
                pass
            (clip,) = [env.take()["best"]]
            print(clip.episode.rendered, clip.episode.episode_return, clip.frames)
            env.close()
        """)
    assert printed.split("\n")[:2] == ["direct 3.0 4", "replay 3.0 4"]


@pytest.mark.slow
def test_folders_of_loops_are_listed_drawn_tiled_and_examined(run):
    printed = run("""
        import json
        from pathlib import Path
        from click.testing import CliRunner
        import gymnasium as gym
        import tune_media as tm
        from tune_media.cli import main

        for aim in (0.0, 1.0):
            for seed in (0, 1, 2):
                from tests.support.aim import Aim

                place = {"video_folder": f"runs/aim_{aim}_{seed}", "params": {"aim": aim}}
                env = tm.gym.RecordEpisodes(Aim(), keep="best", **place)
                for episode in range(3):
                    env.reset(seed=10 * seed + episode)
                    while not env.step([aim])[2]:
                        pass
                env.close()

        def command(*words):
            done = CliRunner().invoke(main, list(words))
            assert done.exit_code == 0, done.output
            return done.output

        configurations = command("list", "runs", "--rows", "configurations", "--json").splitlines()
        print(len(configurations))
        for words in (
            ("figure", "runs", "-o", "figure.svg"),
            ("grid", "runs", "-o", "grid.mp4"),
            ("filmstrip", "runs", "-o", "strip.png"),
            ("gallery", "runs", "-o", "gallery"),
        ):
            command(*words)
            assert Path(words[-1]).exists(), words
        print(command("doctor", "CartPole-v1").splitlines()[-1])
        Path("rllibs.py").write_text("from ray.rllib.env.multi_agent_env import MultiAgentEnv")
        of_rllib = CliRunner().invoke(main, ["doctor", "rllibs:MultiAgentEnv"])
        print(of_rllib.output.splitlines()[-1])
        """)
    told = "- it cannot be made: ModuleNotFoundError: No module named 'ray'. Install it: "
    assert printed.splitlines() == ["2", "This env can be recorded.", told + RLLIB]


@pytest.mark.slow
def test_an_experiment_is_loaded_listed_rendered_and_shown(run):
    printed = run("""
        import http.client, json, sys, threading
        from pathlib import Path
        from click.testing import CliRunner
        import tune_media as tm
        from tests.support.stores import StoredTrial
        from tests.support.taped import taped_clip
        from tune_media.cli import main
        from tune_media.encoding.decode import decode_video
        from tune_media.values.episodes import EpisodeBatch, EpisodeData

        clip = taped_clip(2, episode_return=7.0)
        data = EpisodeData(clip.episode, tape=clip.tape, recipe=clip.recipe.hash)
        trial = StoredTrial.in_folder(Path("sweep/trial"))
        trial.add(EpisodeBatch((data,), recipes={clip.recipe.hash: clip.recipe.content}), "evaluation", "episodes/data")
        trial.finish()
        Path("sweep/trial/params.json").write_text("{}")

        def command(*words):
            done = CliRunner().invoke(main, list(words))
            assert done.exit_code == 0, done.output
            return done.output

        command("render", "sweep", "-o", "rendered")
        (rendered,) = Path("rendered").rglob("*.mp4")
        trial.add(tm.Video(decode_video(rendered.read_bytes()), episode=clip.episode), "evaluation", "episodes/best")
        trial.finish()
        assert "7" in command("list", "sweep")
        command("gallery", "sweep", "-o", "gallery")
        assert list(Path("gallery").rglob("*.mp4")) and Path("gallery/index.html").is_file()
        (row,) = tm.load("sweep").clips
        print(row["episode_return"], row["frames"], sum(1 for _ in row.frames()))

        from tune_media.viewing.watch import make_watch_server

        server = make_watch_server("sweep", port=0)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", "/")
        print(connection.getresponse().status)
        server.shutdown()
        """)
    assert printed.split("\n")[:2] == ["7.0 5 5", "200"]


@pytest.mark.slow
def test_policies_of_other_libraries_are_evaluated_compared_and_followed(run):
    printed = run("""
        import json, sys
        from pathlib import Path
        from tests.support.commands import split_runner
        from tests.support import aim
        from tests.support.aim import saved_sweep
        from tune_media.cli import main

        for step, well in ((1, 0.1), (2, 0.9)):
            Path("models").mkdir(exist_ok=True)
            Path(f"models/aim_{step}.json").write_text(json.dumps({"aim": well}))
        how = ["--policy", f"{aim.__name__}:load_policy", "--env", f"{aim.__name__}:make_env", "--json"]

        def command(*words):
            done = split_runner().invoke(main, [*words, *how])
            assert done.exit_code == 0, done.output
            return json.loads(done.stdout)

        print(command("gate", "models/aim_2.json", "models/aim_2.json", "--allow-same", "--clips", "0")["verdict"])
        print(command("evaluate", "models/aim_1.json", "--seeds", "0:2")["problems"])
        follow = ["--follow", "--until-idle", "1", "--no-clips"]  # last: the process stands back then
        evaluated = command("evaluate", "models/*.json", "--seeds", "0:3", *follow)
        print([one["episodes"] for one in evaluated["checkpoints"]], evaluated["problems"])
        saved_sweep("sweep", 0.1)
        how[1] = f"{aim.__name__}:load_only_file"
        print(command("evaluate", "sweep", "--seeds", "0:2", "--name", "two", "--no-clips")["problems"])
        episode = "sweep/evaluations/two:worst"
        del how[2:4]
        print(command("fork", episode, "sweep", "--at", "1", "--clips", "0")["is_same"])
        print(sorted({name.partition(".")[0] for name in sys.modules} & {"ray"}))
        """)
    assert printed.splitlines() == ["pass", "[]", "[3, 3] []", "[]", "True", "[]"]


PLAYS, RLLIB, TENSORBOARD = "Playing RLlib's checkpoints", pip_install("rllib"), pip_install("tensorboard")
TASKS = "--policy tests.support.aim:load_policy --env tests.support.aim:make_env --workers 2"
CALLBACKS = {name: (f"tune_media.{name}", pip_install(extra)) for name, (_, extra) in tm._NAMES.items() if extra}
NEEDS = {
    "tm.evaluate('sweep')": (PLAYS, RLLIB),
    "tm.fork('sweep:best', 'sweep', at=1)": (PLAYS, RLLIB),
    "tm.gate('sweep', 'sweep')": (PLAYS, RLLIB),
    **{f"tm.{name}": needs for name, needs in CALLBACKS.items()},
    "tm.rllib": ("tune_media.rllib", RLLIB),
    "tm.export.to_tensorboard('sweep', 'logs')": ("to_tensorboard", TENSORBOARD),
    "tm.export.to_tracker('sweep', None)": "to_tracker",
    "demo": ("tune_media.rllib", RLLIB),
    f"evaluate sweep {TASKS}": "Playing in tasks (--workers)",
    f"gate sweep sweep {TASKS}": "Playing in tasks (--workers)",
    "evaluate sweep --workers 2": (PLAYS, RLLIB),
    "gate sweep sweep": (PLAYS, RLLIB),
    **{f"export sweep --to {name}": CALLBACKS[of.callback] for name, of in _TRACKERS.items() if of.callback},
    "export sweep --to tensorboard -o logs": ("to_tensorboard", TENSORBOARD),
}


def test_what_needs_ray_or_tensorboardx_says_so_and_names_what_to_install(run):
    printed = run(f"""
        from click.testing import CliRunner
        import tune_media as tm
        from tune_media.cli import main

        for needs in {[one for one in NEEDS if one.startswith("tm.")]}:
            try:
                eval(needs)
            except ImportError as error:
                print(f"{{needs}}| {{error}}")
        for words in {[one for one in NEEDS if not one.startswith("tm.")]}:
            done = CliRunner().invoke(main, words.split())
            print(f"{{words}}| {{done.output.splitlines()[-1]}}")
            assert done.exit_code == 2, words
        for name in tm.__all__:
            if f"tm.{{name}}" not in {list(NEEDS)}:
                getattr(tm, name)
        try:
            import tune_media.callbacks.tensorboard
        except ImportError as error:
            print(f"tensorboardX| {{error}}")
        """)
    told = dict(line.split("| ", 1) for line in printed.splitlines())
    of_events = "TensorBoard's events need tensorboardX, which cannot be imported (No module named 'tensorboardX'): "
    assert told.pop("tensorboardX") == of_events + TENSORBOARD
    assert set(told) == set(NEEDS)
    for what, needs in NEEDS.items():
        needed, install = needs if isinstance(needs, tuple) else (needs, pip_install("tune"))
        message = f"{needed} needs Ray, which cannot be imported (No module named 'ray'): {install}"
        assert told[what].removeprefix("Error: ") == message
