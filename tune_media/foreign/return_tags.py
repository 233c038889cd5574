"""Under which tags tools log the return of episodes, and what their steps count; makes curves of tagged numbers."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tune_media.foreign.curve_cache import Series
from tune_media.foreign.told import ENV_STEPS, EPISODES, ITERATIONS, STEPS, Curve
from tune_media.storage.clip_names import section_of
from tune_media.values.checks import first_names
from tune_media.values.clip_columns import Columns
from tune_media.values.metric_names import RETURN_NAMES
from tune_media.values.sections import EVALUATION, TRAIN

WINDOW = 100
"""Of a tool that logs each episode, the curve of returns is the mean over the last ones, as most tools log it."""


class ReturnTag(NamedTuple):
    """A tag of the usual return of a tool: the mean over some episodes, or one point for each episode."""

    tag: str
    unit: str
    section: str = TRAIN
    is_each_episode: bool = False


RETURN_TAGS = (
    ReturnTag("rollout/ep_rew_mean", ENV_STEPS),  # Stable-Baselines3
    ReturnTag("eval/mean_reward", ENV_STEPS, EVALUATION),
    ReturnTag("charts/episodic_return", ENV_STEPS, is_each_episode=True),  # CleanRL
    ReturnTag("eval/episodic_return", EPISODES, EVALUATION, is_each_episode=True),  # its enjoy scripts
    ReturnTag("Train/mean_reward", ITERATIONS),  # rsl_rl: Isaac Lab, mjlab
    ReturnTag("rewards/step", ENV_STEPS),  # rl_games
    ReturnTag("rewards/iter", ITERATIONS),
    ReturnTag("Reward / Total reward (mean)", STEPS),  # skrl: steps of all its envs at once
    ReturnTag("episode/score", ENV_STEPS, is_each_episode=True),  # DreamerV3
    ReturnTag("train/returns_stat/mean", ENV_STEPS),  # Tianshou
    ReturnTag("test/returns_stat/mean", ENV_STEPS, EVALUATION),
    ReturnTag("train/return", ENV_STEPS),  # ManiSkill
    ReturnTag("eval/return", ENV_STEPS, EVALUATION),
    ReturnTag("Environment/Cumulative Reward", ENV_STEPS),  # ML-Agents
    ReturnTag("reward/reward", ENV_STEPS),  # Sample Factory
    ReturnTag("Metrics_vs_EnvironmentSteps/AverageReturn", ENV_STEPS),  # TF-Agents
    ReturnTag("Train/AverageReturns", ITERATIONS),  # Dopamine
    ReturnTag("Eval/AverageReturns", ITERATIONS, EVALUATION),
    ReturnTag("eprewmean", ENV_STEPS),  # OpenAI Baselines
    ReturnTag("AverageEpRet", ENV_STEPS),  # Spinning Up
    ReturnTag("AverageTestEpRet", ENV_STEPS, EVALUATION),
    ReturnTag("Evaluation/AverageReturn", ENV_STEPS),  # garage; of the training's episodes in spite of its name
)
_OF_EPISODES = frozenset(
    f"{start}{word}{end}"
    for start in ("", "mean_", "avg_", "average_")
    for word in ("episode_return", "episode_reward", "episodic_return", "episodic_reward", "ep_rew", "ep_ret")
    for end in ("", "_mean", "/mean")
)
"""The ends of tags of no tool in the table that say what they are; taken if a run has one such tag."""
_LIKE_RETURNS = ("return", "rew", "score")
STEP_COLUMNS = {
    **dict.fromkeys(("time/total_timesteps", "total_timesteps", "timesteps_total", "num_timesteps"), ENV_STEPS),
    **dict.fromkeys(("env_step", "env_steps", "num_env_steps", "total_env_steps"), ENV_STEPS),
    **dict.fromkeys(("misc/total_timesteps", "TotalEnvInteracts", "TotalEnvSteps"), ENV_STEPS),
    **dict.fromkeys(("step", "global_step", "_step", "steps", "timestep", "timesteps", "frame", "frames"), STEPS),
    **dict.fromkeys(("training_iteration", "iteration", "iter", "Itr", "Iteration", "epoch", "Epoch"), ITERATIONS),
    **dict.fromkeys(("episode", "episodes"), EPISODES),
}
"""The columns of steps in tables of scalars, and their units: the first that a table has is taken."""
_OTHER_AXES = (("/time", ""), *((other, own) for other in ("/time", "/iter") for own in ("/step", "/frame", "/mean")))
"""Ends of tags that have the numbers of the second one once more, over seconds or iterations: rsl_rl, rl_games."""


def return_name(section: str) -> str:
    """Return the name of a section's mean return in results.

    >>> return_name("train"), return_name("evaluation")
    ('episode_return_mean', 'evaluation/episode_return_mean')
    """
    return RETURN_NAMES[0] if section == TRAIN else f"{section}/{RETURN_NAMES[0]}"


def curves_of(
    series: Mapping[tuple[str, str], Series],
    columns: Columns,
    unit: str = STEPS,
    known: Sequence[ReturnTag] = RETURN_TAGS,
) -> list[Curve]:
    """Return curves of the numbers under tags: the returns under their names in results, the others under their tags.

    Args:
        series: By the part of the run that the numbers come from (empty: the run itself), and their tag.
        columns: ``return`` names the tag of the return, if it is none of ``known``.
        unit: In which the steps count, if something beside the tags says it: else as the tag of the return has it.

    >>> ones = Series(*np.ones((3, 2)))
    >>> curves_of({("", "Train/mean_reward"): ones, ("", "Train/mean_reward/time"): ones, ("", "loss"): ones}, {})
    ... # doctest: +NORMALIZE_WHITESPACE
    [Curve(name='episode_return_mean', tag='Train/mean_reward', unit='iterations', steps=[1.0, 1.0], values=[1.0, 1.0],
     times=[1.0, 1.0]),
     Curve(name='loss', tag='loss', unit='iterations', steps=[1.0, 1.0], values=[1.0, 1.0], times=[1.0, 1.0])]
    """
    tags = [
        (part, tag)
        for part, tag in series
        if not any(tag.endswith(end) and (part, tag.removesuffix(end) + other) in series for end, other in _OTHER_AXES)
    ]
    chosen = _returns(tags, columns, known)
    units = [found.unit for found in chosen.values()]
    curves = [
        _curve(return_name(section), found, series[key], unit)
        for section in (TRAIN, EVALUATION)
        for key, found in chosen.items()
        if found.section == section
    ]
    for part, tag in tags:
        found = chosen.get((part, tag))
        if found is None or found.is_each_episode:
            own = ReturnTag(tag, units[0] if units else STEPS)
            curves.append(_curve(_name(part, tag), own, series[part, tag], unit))
    return curves


def hidden_returns(tags: Collection[str], columns: Columns, known: Sequence[ReturnTag] = RETURN_TAGS) -> str:
    """Return the names of the first tags that may be those of a return, if none is known to be it.

    >>> hidden_returns(["my_reward", "loss"], {}), hidden_returns(["my_reward"], {"return": "my_reward"})
    ('my_reward', '')
    """
    if _returns([("", tag) for tag in tags], columns, known):
        return ""
    return first_names(sorted(tag for tag in tags if any(word in tag.lower() for word in _LIKE_RETURNS)))


def _returns(
    tags: Collection[tuple[str, str]], columns: Columns, known: Sequence[ReturnTag]
) -> dict[tuple[str, str], ReturnTag]:
    """Return the tag of each section's return: what ``columns`` names, the first known, or the only one alike."""
    named = [ReturnTag(columns["return"], STEPS)] if "return" in columns else []
    chosen: dict[str, tuple[tuple[str, str], ReturnTag]] = {}
    for entry in (*named, *known):
        for part, tag in tags:
            if tag == entry.tag:
                section = entry.section if entry not in named else section_of_tag(tag)
                section = EVALUATION if section_of_tag(f"{part}/-") == EVALUATION else section
                chosen.setdefault(section, ((part, tag), entry._replace(section=section)))
    for section in {TRAIN, EVALUATION} - chosen.keys():
        alike = [key for key in tags if _says_return(key[1]) and section_of_tag("/".join(key)) == section]
        if len(alike) == 1:
            chosen[section] = (alike[0], ReturnTag(alike[0][1], STEPS, section))
    return dict(chosen.values())


def _says_return(tag: str) -> bool:
    return tag in _OF_EPISODES or any(tag.endswith(f"/{end}") for end in _OF_EPISODES)


def by_part(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return files, those of the outermost folder first, each with its part of the run: its folder below that one.

    >>> by_part(["summaries/eval/b", "summaries/a"]), by_part(["a", "eval/b"])
    ([('summaries/a', ''), ('summaries/eval/b', 'eval')], [('a', ''), ('eval/b', 'eval')])
    """
    ordered = sorted(paths, key=lambda path: (path.count("/"), path))
    base = posixpath.dirname(ordered[0]) if ordered else ""
    folders = [(path, posixpath.dirname(path)) for path in ordered]
    return [(path, "" if folder == base else folder.removeprefix(f"{base}/")) for path, folder in folders]


def section_of_tag(tag: str) -> str:
    """Return the section of a tag, by the words before its last slash.

    >>> section_of_tag("eval/mean_reward"), section_of_tag("rollout/ep_rew_mean"), section_of_tag("eval_return")
    ('evaluation', 'train', 'train')
    """
    sections = map(section_of, posixpath.dirname(tag).split("/"))
    return EVALUATION if EVALUATION in sections else TRAIN


def _name(part: str, tag: str) -> str:
    """Return the name of a tag of a part of a run; ``SummaryWriter.add_scalars`` puts the tag into the part's name.

    >>> _name("", "loss"), _name("eval", "loss"), _name("a_loss_critic", "a/loss"), _name("a/loss/critic", "a/loss")
    ('loss', 'eval/loss', 'a/loss/critic', 'a/loss/critic')
    """
    for start in (f"{tag.replace('/', '_')}_", f"{tag}/"):
        if part.startswith(start):
            return f"{tag}/{part.removeprefix(start)}"
    return posixpath.join(part, tag)


def _curve(name: str, tag: ReturnTag, series: Series, unit: str) -> Curve:
    values = np.asarray(series.values)
    if tag.is_each_episode and name == return_name(tag.section):
        series = Series(*(column[np.isfinite(values)] for column in series))
        values = _window_means(series.values)
    times = series.times.tolist() if np.isfinite(series.times).all() else ()
    own = tag.unit if unit == STEPS else unit
    return Curve(name, tag.tag, own, series.steps.tolist(), values.tolist(), times)


def _window_means(values: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    """Return the mean of each value and those before it, ``WINDOW`` in all.

    >>> _window_means(np.array([1.0, 3.0, 5.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(0, ends - WINDOW)
    means: np.typing.NDArray[np.float64] = (sums[ends] - sums[starts]) / (ends - starts)
    return means
