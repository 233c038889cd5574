"""The tiled clips of a sweep of RLlib's, on both API stacks."""

import pytest

import tune_media as tm
from tests.support.experiment import fit
from tests.support.rllib_configs import on_old_stack, ppo
from tune_media.encoding.decode import probe_video


@pytest.mark.slow
@pytest.mark.parametrize("on_stack", [lambda config: config, on_old_stack], ids=["new", "old"])
def test_each_evaluation_has_one_of_all_its_kept_clips(ray_session, tmp_path, on_stack):
    recorder = tm.rllib.record_episodes(keep=("worst", "median", "best"), tiled=True, check_frame=False)
    env_config = {"render_mode": "rgb_array", "length": 6}
    config = on_stack(ppo(recorder, env_config, evaluation_interval=1, evaluation_duration=5))
    callbacks = [tm.JsonMediaLoggerCallback(media=tm.MediaOptions(strict=True))]
    results = fit("PPO", tmp_path, callbacks, space=config, stop={"training_iteration": 2})
    assert not results.errors
    (trial,) = tm.load(results.experiment_path).trials
    tiled = [line for line in trial.lines if line["kind"] == "tiled"]
    assert [(line["section"], line["key"], line["training_iteration"]) for line in tiled] == [
        ("evaluation", "episodes/tiled", 1),
        ("evaluation", "episodes/tiled", 2),
    ]
    assert {probe_video(trial.read_media(line["path"])).frames for line in tiled} == {7}
    assert len([line for line in trial.lines if line["kind"] == "video"]) == 6
