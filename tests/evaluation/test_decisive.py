"""The seeds on which two policies differ most, and the clips of both from just before they differ."""

import base64
import random

import pytest

import tune_media as tm
from tests.support import aim
from tests.support.taped import take_step
from tune_media.encoding.decode import decode_video
from tune_media.evaluation.decisive import decisive, decisive_seeds, first_difference
from tune_media.evaluation.request import in_order
from tune_media.replay.tape import Tape

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray


def test_the_clips_of_a_seed_begin_before_both_differ(tmp_path):
    sides = [aim.saved(tmp_path, well) for well in (1, 0)]
    gate = tm.gate(*sides, output=str(tmp_path / "gate"), clips=1, policy=aim.load_policy, env=aim.make_env)
    taped, returns = {}, {}
    for episode in tm.load(gate.path).taped_episodes():
        taped[episode.trial.name, episode.row["seed"]] = episode
        returns[episode.trial.name, episode.row["seed"]] = episode.row["episode_return"]
    seeds = sorted(in_order(range(200))[: gate.verdicts[0].standing.seeds])
    first, second, *_ = decisive_seeds({seed: (returns["base", seed], returns["candidate", seed]) for seed in seeds})
    base, candidate = taped["base", first], taped["candidate", first]
    shown = decisive(base, candidate)
    assert shown.differs_at == 1  # the first action
    for clip in shown.clips:
        frames = list(decode_video(base64.b64decode(clip.src.partition(",")[2])))
        assert (clip.first, clip.last, clip.stride, clip.length) == (0, aim.STEPS, 1, aim.STEPS)
        assert len(frames) == clip.frames == aim.STEPS + 1
        assert clip.start.startswith("data:image/jpeg;base64,") and clip.end.startswith("data:image/jpeg;base64,")
    alone = decisive(base, None)
    assert (alone.differs_at, alone.clips[1]) == (None, None) and alone.clips[0].frames == aim.STEPS + 1
    assert decisive(taped["base", second], taped["candidate", second]).clips == (None, None)  # of one seed, there are


def test_a_clip_begins_before_the_first_difference():
    draws = random.Random(0)
    for _ in range(20):
        at, length = draws.randrange(1, 90), 100
        tapes = [Tape(seed=1), Tape(seed=1)]
        for number, tape in enumerate(tapes):
            tape.began(3)
            for step in range(1, length):
                take_step(tape, int(number and step == at), 256 * step + (step > at) * 512 * number)
        assert first_difference(*(Tape.unpacked(tape.packed()) for tape in tapes)) == at
