from collections import deque

import tune_media as tm
from tests.support.results import clip, evaluated, media, places, read
from tune_media.storage.known_media import KnownMedia

COUNTER = "num_env_steps_sampled_lifetime"


def test_a_repeated_evaluation_is_recognised_whatever_its_shape():
    (fresh,) = media(evaluated([clip()]))
    assert fresh.may_repeat is None
    for shape in (clip(), [clip()], [[clip()]]):
        (repeat,) = media(evaluated(shape, iteration=3, new=False))
        assert fresh.id.startswith(repeat.may_repeat)


def test_a_later_evaluation_that_looks_the_same_is_another_one():
    first, second = media(evaluated(clip())) + media(evaluated(clip(), iteration=4))
    assert first.id != second.id
    assert second.may_repeat is None


def test_each_clip_of_a_window_of_ray_2_50_is_stored_once():
    """A new evaluation reports the window's oldest clip alone, a repetition all of them, the first one twice."""
    values = [clip(2), window(2), clip(2), window(2, 2, 4), clip(2), window(2, 4, 6), clip(4), window(4, 6, 8)]
    results = [evaluated(value, i, new=i % 2 == 0) for i, value in enumerate(values, start=2)]
    assert new_clips(results) == [1, 0, 0, 1, 0, 1, 0, 1]
    values = [window(1), window(1, 1, 2), window(1, 2, 3), window(2, 3, 4)]
    assert new_clips({"env_runners": {"videos": value, COUNTER: i}} for i, value in enumerate(values)) == [1, 1, 1, 1]


def window(*seeds):
    return deque(map(clip, seeds), maxlen=3)


def new_clips(results):
    known, windows = KnownMedia("trial"), set()
    of_each = (media(result, windows) for result in results)
    return [sum(known.register(one, "any", "videos", step=1).is_new for one in clips) for clips in of_each]


def test_equal_clips_of_one_report_are_two_and_their_order_does_not_matter():
    first = {medium.id for medium in media(evaluated([clip(0), clip(0), clip(1)]))}
    assert len(first) == 3
    assert {medium.id for medium in media(evaluated([clip(1), clip(0), clip(0)]))} == first


def test_training_sections_are_told_apart_by_their_counters():
    def trained(steps):
        return media({"env_runners": {"videos": clip(), COUNTER: steps}})[0]

    assert trained(100).id == trained(100).id != trained(200).id


def test_without_counters_the_content_decides():
    (first,), (again,), (other,) = media({"x": clip(0)}), media({"x": clip(0), "epoch": 2}), media({"x": clip(1)})
    assert first.id.startswith(again.may_repeat)
    assert not first.id.startswith(other.may_repeat)


def test_clips_of_an_evaluation_are_filed_under_the_name_that_the_user_gave_it(frames):
    def video():
        return tm.Video(frames(2))

    result = {
        "eval": {"rollout": video(), "env_runners": {"best": video()}},
        "test/rollout": video(),
        "validation": video(),
        "train": {"rollout": video()},
        "train/late": video(),
        "evaluations": {"rollout": video()},
    }
    assert places(read(result)) == [
        ("eval", "rollout"),
        ("eval", "best"),
        ("test", "rollout"),
        ("validation", "validation"),
        ("train", "rollout"),
        ("train", "late"),
        ("train", "evaluations/rollout"),
    ]
