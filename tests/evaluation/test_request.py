"""The arguments of an evaluation: what they mean, and what is refused."""

import functools
import inspect
import re

import pytest

import tune_media as tm
from tune_media.cli import main
from tune_media.evaluation.request import EnvCondition, Request, as_conditions, evaluation_seeds, parsed_env_config

pytestmark = pytest.mark.any_ray


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"seeds": "a:b"}, "takes seeds such as '0:40'"),
        ({"seeds": [True]}, "takes seeds such as '0:40'"),
        ({"seeds": "10"}, "pass '10:11' for the one, or '0:10' for the others"),
        ({"seeds": range(10**12)}, "takes at most 100,000 seeds, got range"),
        ({"checkpoint": "first"}, "'last', 'best', 'all' or the number"),
        ({"connectors": "own"}, "takes 'evaluation' or 'training' or None"),
        ({"workers": -1}, "a number of Ray tasks"),
        ({"policy": "a:b"}, "needs env="),
        ({"clips": "nicest"}, "nicest"),
    ],
)
def test_a_wrong_argument_fails_before_anything_is_read(arguments, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        tm.evaluate("no/such/experiment", **arguments)


@pytest.mark.parametrize("name", ["evaluate", "gate", "fork"])
def test_an_option_means_the_same_in_all_commands(name):
    options = {option.name: option for option in main.commands[name].params}
    assert options["explore"].default is False
    assert inspect.signature(getattr(tm, name)).parameters["explore"].default is False
    assert options["policy"].metavar == "MODULE:FUNCTION" and "episodes" not in options


def test_the_same_request_has_the_same_name_and_another_one_another():
    requests = [
        Request(),
        Request("all", (7,)),
        Request(seeds=(1, 5)),
        Request(explore=True),
        Request(explore=None),
        Request(connectors="training"),
        Request(env="envs:make"),
    ]
    names = [request.default_name for request in requests]
    assert names[:2] == ["last-seeds-0-39", "all-seed-7"]
    assert len(set(names)) == len(names)


def test_conditions_are_all_combinations_and_their_folders_have_safe_names():
    conditions = as_conditions(parsed_env_config(["wind=0,5", "sizes=[1,2]", "map=a/b"]))
    rest = {"sizes": [1, 2], "map": "a/b"}
    assert [dict(one.overrides) for one in conditions] == [{"wind": 0} | rest, {"wind": 5} | rest]
    assert conditions[0].suffix == "_wind=0_sizes=_1__2__map=a_b"


def test_seeds_are_played_once_each():
    assert evaluation_seeds(["0:3", 2, 9]) == (0, 1, 2, 9)
    assert evaluation_seeds("0:100000") == tuple(range(100_000)) == evaluation_seeds(100_000)


def test_two_lambdas_are_two_requests():
    """They have one name; an evaluation that goes on must not take the rates of the other one."""

    def of(success):
        return Request.of("last", 2, None, None, None, None, None, success)

    assert of(lambda episode: episode.episode_return > 195) != of(lambda episode: episode.episode_return > 300)
    assert of(lambda episode: any(length > 3 for length in episode.lengths)) != of(
        lambda episode: any(length > 5 for length in episode.lengths)
    )
    assert of(lambda episode, *, least=1: episode.seed > least) != of(lambda episode, *, least=2: episode.seed > least)
    over = [of(functools.partial(_is_over, least)).default_name for least in (195, 300, 300)]
    assert over[0] != over[1] == over[2]


def test_a_lambda_with_a_set_is_the_same_request_in_another_process():
    """Python orders the texts of a set anew in every process, and there these two numbers as they come."""
    one, other = (eval(f"lambda episode: episode.seed in {{{seeds}}}") for seeds in ("0, 8", "8, 0"))
    assert repr(one.__code__.co_consts) != repr(other.__code__.co_consts)
    first, second = (Request.of("last", 2, None, None, None, None, None, one) for one in (one, other))
    assert first == second


def _is_over(least, episode):
    return episode.episode_return > least


def test_the_name_of_a_condition_has_no_secret_and_tells_two_apart():
    one, other = (
        EnvCondition((("api_key", key), ("wind", 5), ("url", f"https://u:{key}@h/x"))) for key in ("k1", "k2")
    )
    assert "k1" not in one.label and "wind=5" in one.label and one.label.startswith("api_key=***")
    assert one.label != other.label and one.suffix != other.suffix
