"""Vector envs whose values are tensors on a GPU, as those of Isaac Lab and ManiSkill."""

import numpy as np
import pytest

import tune_media as tm
from tests.support.envs.batch import Batch
from tests.support.experiment import assert_whole_episode

torch = pytest.importorskip("torch")


class OnGpu(torch.Tensor):
    """A tensor that NumPy cannot read, like those on a GPU."""

    def __array__(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def on_gpu(array):
    return torch.as_tensor(np.array(array)).as_subclass(OnGpu)


class OfTensors(Batch):
    """A batch like those of Isaac Lab or ManiSkill: everything that it returns is a tensor on the GPU."""

    def reset(self, *, seed=None, options=None):
        return on_gpu(super().reset()[0]), {}

    def step(self, actions):
        observations, rewards, over, truncated, _ = super().step(actions.cpu())
        infos = {"data": {"running": {"speed": on_gpu(np.arange(1.0, 1 + self.num_envs))}}}
        return on_gpu(observations), on_gpu(rewards), on_gpu(over), on_gpu(truncated), infos

    def render(self):
        return on_gpu(super().render())


@pytest.mark.parametrize("overlay", [(), ("action",)])
def test_a_vector_env_of_tensors_on_a_gpu_is_recorded(overlay):
    video = tm.VideoOptions(overlay=overlay)
    env = tm.gym.RecordEpisodes(OfTensors(2, {"length": 4}), keep="all", trajectories=True, strict=True, video=video)
    env.reset()
    returns = np.zeros(2)
    for _ in range(4):
        _, rewards, *_, infos = env.step(on_gpu(np.zeros(2, int)))
        returns += rewards.cpu().numpy()
    assert infos["episode"]["r"] == pytest.approx(returns)
    taken = env.take()
    for index, clip in enumerate(taken["all"]):
        assert clip.frames == 5
        if not overlay:  # it covers what the frames say
            assert_whole_episode(clip, 4)
        assert clip.episode.episode_return == pytest.approx(returns[index])
        assert clip.episode.metrics["speed_avg"] == 1 + index
    columns = next(iter(taken["data"].trajectories.values())).columns
    assert columns["action"] == [None, 0, 0, 0, 0]


def test_a_masked_reset_takes_a_tensor():
    env = tm.gym.RecordEpisodes(Batch(2), video=None)
    env.reset()
    env.step(np.zeros(2, int))
    env.reset(options={"reset_mask": on_gpu([False, True])})
    assert env.episode_lengths.tolist() == [1, 0]
