"""What the path of a clip says of it: its section, its step, and the numbers that stand behind their names.

Gymnasium's ``RecordVideo`` writes ``<prefix>-episode-<n>.mp4`` and ``<prefix>-step-<n>.mp4``, Stable-Baselines3's
``VecVideoRecorder`` ``<prefix>-step-<n>-to-step-<m>.mp4``, and ``RecordEpisodes`` names that begin like these: both
numbers are steps. So are a name that is a number, beside DreamerV3's scalars; the number at the end of a name, beside
TorchRL's; the number of a folder such as LeRobot's ``videos_step_<n>``; and the name of a folder of Trackio's media.
Another number counts only behind the name of a fact, as in ``episode_3_return_11.0_seed_2.mp4``. W&B's names have the
step of another row: its log has that of the clip.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from tune_media.foreign.clip_facts import facts_of, names_of
from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.told import Told, name_it
from tune_media.storage.clip_names import section_of
from tune_media.values.clip_columns import FACTS, Columns
from tune_media.values.problems import remedy
from tune_media.values.sections import EVALUATION, TRAIN

_RECORDERS = re.compile(
    r"(?P<prefix>[^/]*?)(?:-env-(?P<env>\d+))?"
    r"-(?:episode-(?P<episode>\d{1,15})|step-(?P<step>\d{1,15})(?:-to-step-\d+)?)(?:-[^/]+)?\.mp4"
)
_ID = re.compile(r"[_-][0-9a-f]{12,40}$")
_NAMED = re.compile(
    r"(?P<words>[A-Za-z]+(?:[ _-]+[A-Za-z]+)*)(?P<between>[ _=:-]*)(?P<number>\d+(?:\.\d+)?(?:[eE]-?\d+)?)"
    r"(?![A-Za-z0-9.]|[_-]\d)"
)
_TRUTH = re.compile(r"(?:^|[_-])success(?:[_=-]?(?P<word>true|false)|=(?P<digit>[01]))(?![A-Za-z0-9.])", re.IGNORECASE)
_ENDS = re.compile(r"[_-](?:(?P<success>success)|fail(?:ed|ure)?)$", re.IGNORECASE)
_OF_MANY = frozenset(("avg", "average", "max", "mean", "median", "min", "n", "no", "num", "per", "std", "target"))
_MAYBE_RETURN = re.compile(r"(?<![A-Za-z])(return|reward|score|ret|rew)[ _=:-]*\d", re.IGNORECASE)
_SCORES = ("scores.jsonl", "metrics.jsonl")  # DreamerV3's
_STEP_FOLDER = re.compile(r"(?:.*[_-])?step[_=-]?(\d{1,15})")
_STEP_NAME = re.compile(r"(\d{1,20})(?:-[0-9a-f]{16})?")
_TRAINS = re.compile(rf"{TRAIN}(ing)?(?![A-Za-z])", re.IGNORECASE)


def is_recorders_name(path: str) -> bool:
    """Return whether a known recorder gave a clip its name.

    >>> is_recorders_name("videos/train/rl-video-step-2000.mp4"), is_recorders_name("eval_episode_0.mp4")
    (True, False)
    """
    return _RECORDERS.fullmatch(posixpath.basename(path)) is not None


def section_of_path(path: str) -> str:
    """Return the section of a clip: of the innermost folder that names one, or else of its name.

    >>> section_of_path("videos/eval_episode_0.mp4"), section_of_path("eval/videos_step_5/a.mp4")
    ('evaluation', 'evaluation')
    >>> section_of_path("videos/train/a.mp4"), section_of_path("videos/a.mp4")
    ('train', 'train')
    """
    folder, name = posixpath.split(path)
    for part in reversed(folder.split("/")):
        if section_of(part) == EVALUATION:
            return EVALUATION
        if _TRAINS.match(part):
            return TRAIN
    return section_of(name)


def paths_meant(text: str, place: str = "", own: str | None = None) -> list[str]:
    """Return the paths in a run's folder that a text in a file at a place in this folder may mean, the longest first.

    They are the path from there, and the ends of a path of elsewhere: all, or those after a folder called ``own``.

    >>> paths_meant("outputs/x/videos/a.mp4"), paths_meant("outputs/x/videos/a.mp4", own="x")
    (['outputs/x/videos/a.mp4', 'x/videos/a.mp4', 'videos/a.mp4', 'a.mp4'], ['outputs/x/videos/a.mp4', 'videos/a.mp4'])
    >>> paths_meant("../a.mp4"), paths_meant("../a.mp4", "eval")
    (['a.mp4'], ['a.mp4', 'eval/a.mp4'])
    """
    parts = posixpath.normpath(text.replace("\\", "/")).split("/")
    starts = [start for start in range(len(parts)) if not start or own in (None, parts[start - 1])]
    paths = (posixpath.normpath(posixpath.join(place, *parts[start:])) for start in starts)
    return [path for path in dict.fromkeys(paths) if not path.startswith("../")]


def named_clip(clips: Collection[str], text: str, place: str = "", own: str | None = None) -> str | None:
    """Return the clip that a text means, see ``paths_meant``; None if it means none of these.

    >>> named_clip({"videos/a.mp4"}, "outputs/y/videos/a.mp4"), named_clip({"videos/a.mp4"}, "y/videos/a.mp4", own="")
    ('videos/a.mp4', None)
    """
    return next((path for path in paths_meant(text, place, own) if path in clips), None)


def read_paths(files: RunFiles, paths: Sequence[str], columns: Columns | None) -> Told:
    """Return the facts of clips in their paths."""
    has_scores, has_scalars = bool(files.matching(*_SCORES)), bool(files.matching("scalars/*.csv"))
    facts: dict[str, dict[str, Any]] = {}
    names, unsure = set[str](), dict[str, list[str]]()
    for path in files.clips:
        name = posixpath.basename(path)
        stem = _ID.sub("", posixpath.splitext(name)[0])
        numbers = list(_numbers(stem))
        names.update(words for words, _, _ in numbers)
        found = facts_of(_row(stem, numbers, columns or {}), columns or {})
        if (maybe := _MAYBE_RETURN.search(stem)) and "return" not in found:
            unsure.setdefault(maybe[1].lower(), []).append(path)
        facts[path] = {FACTS[fact]: value for fact, (value, _) in found.items()}
        if recorders := _RECORDERS.fullmatch(name):
            given = {"step": recorders["episode"] or recorders["step"], "env_index": recorders["env"]}
            facts[path] |= {name: int(number) for name, number in given.items() if number is not None}
        elif "step" not in found:
            facts[path] |= _step(files.run_folder, path, has_scores=has_scores, has_scalars=has_scalars)
    return Told(clips=facts, columns=frozenset(names), not_understood=[_sentence(*one) for one in unsure.items()])


def _numbers(stem: str) -> Iterator[tuple[str, str, bool]]:
    """Yield each number that stands behind words in a name: the words, the number, and whether its sign is sure.

    >>> list(_numbers("episode_3_return_-11.0_seed2"))
    [('episode', '3', True), ('return', '-11.0', True), ('seed', '2', True)]
    >>> list(_numbers("eval-ep-3-return-11")), list(_numbers("ep_3_return-11"))
    ([('eval_ep', '3', True), ('return', '11', True)], [('ep', '3', True), ('return', '11', False)])
    >>> list(_numbers("return_11_5_v2")), list(_numbers("step_2000k"))
    ([('v', '2', True)], [])
    """
    separates = stem.count("-") > 1 and not re.search("[_= :]", stem)
    for match in _NAMED.finditer(stem):
        words, between = re.sub("[ _-]+", "_", match["words"]).lower(), match["between"]
        is_negative = between.endswith("-") and between != "-"
        yield words, f"{'-' * is_negative}{match['number']}", separates or between != "-"


def _row(stem: str, numbers: Iterable[tuple[str, str, bool]], columns: Columns) -> dict[str, str]:
    """Return the numbers in a name as a table would have them; of a name that is there twice with others, none.

    >>> _row("a", [("eval_episode_return", "3", True), ("max_step", "9", True)], {})
    {'episode_return': '3', 'return': '3'}
    """
    row: dict[str, set[str]] = {}
    facts = [fact for fact in FACTS if fact != "success" or fact in columns]  # the first of some clips may be success_0
    known = [(fact == "return", name, f"_{name.lower()}") for fact in facts for name in names_of(fact, columns)]
    for words, number, is_sure in numbers:
        for is_return, name, end in known:
            if f"_{words}".endswith(end) and (is_sure or not is_return):
                before = set(words.removesuffix(end[1:]).split("_"))
                if not before & (_OF_MANY | {"best"} if is_return else _OF_MANY):
                    row.setdefault(name, set()).add(number)
    row["success"] = {*row.get("success", ()), *_successes(stem)}
    return {name: min(values) for name, values in row.items() if len(values) == 1}


def _successes(stem: str) -> Iterator[str]:
    if truth := _TRUTH.search(stem):
        yield truth["word"] or truth["digit"]
    if last := _ENDS.search(stem):
        yield str(last["success"] is not None)


def _step(folder: str, path: str, *, has_scores: bool, has_scalars: bool) -> dict[str, int]:
    """Return the step that a clip's name or an inner folder is, or else an outer one, if any is."""
    *parts, name = path.split("/")
    stem = posixpath.splitext(name)[0]
    is_trackios = folder.split("/")[-3:-2] == ["media"]
    step = (
        (_STEP_NAME.fullmatch(stem) if has_scores or "scope" in parts else None)
        or (re.fullmatch(r".*_(\d{1,15})", stem) if has_scalars and parts[:1] == ["videos"] else None)
        or next(filter(None, map(_STEP_FOLDER.fullmatch, reversed(parts))), None)
        or (re.fullmatch(r"(\d{1,15})", "".join(parts[:1])) if is_trackios else None)
    )
    return {"step": int(step[1])} if step else {}


def _sentence(word: str, clips: Sequence[str]) -> str:
    more = f" and of {len(clips) - 1} more clips" if len(clips) > 1 else ""
    doubt = f"the name of {clips[0]}{more}: the number behind {word!r} may be something else than the return; "
    return doubt + remedy(
        "if it is, " + name_it(f"return={word}") + "; or list the clips in a CSV file with the columns file and return."
    )
