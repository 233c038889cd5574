"""The page of a gate: one HTML file with its verdict, its seeds, and both clips of those that differ most, to mail."""

from __future__ import annotations

import html
import itertools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tune_media.evaluation.decisive import CutClip, decisive
from tune_media.evaluation.drawings import dot_plot, interval, short
from tune_media.evaluation.evaluation_part import EvaluationPart
from tune_media.evaluation.gate_folder import PAGE
from tune_media.evaluation.pairs import ROLES, Pairs
from tune_media.experiment.places import Folder
from tune_media.storage.filesystem import write_atomically
from tune_media.values.number import counted
from tune_media.values.secrets import error_text, redacted
from tune_media.viewing.single_page import single_page

Compared = tuple[Pairs, Sequence[EvaluationPart]]
"""What was played under a condition: the pairs of scores, and the parts of both sides."""


def write_page(
    place: Folder, request: Mapping[str, Any], decided: Mapping[str, Any], compared: Sequence[Compared], clips: int
) -> str | None:
    """Write ``index.html`` to a gate's folder, and return None; or why there is none. It never raises an Exception.

    Args:
        place: The folder.
        request: What ``gate.json`` has of what was asked for.
        decided: The gate's ``facts()``.
        compared: For each condition.
        clips: The number of seeds whose clips are shown.
    """
    try:
        content = "".join(_content(request, decided, compared, clips))
        names = " against ".join(_name(decided[role]) for role in reversed(ROLES) if decided[role])
        title = f"{decided['verdict'].upper()}: {names}"
        text = single_page("gate.html", title, content)
        write_atomically(place.filesystem, posixpath.join(place.path, PAGE), text.encode("utf-8", "replace"))
    except Exception as error:  # of a file, or of a clip: the verdict stays
        return f"no {PAGE}: {error_text(error)}"
    return None


def _content(
    request: Mapping[str, Any], decided: Mapping[str, Any], compared: Sequence[Compared], clips: int
) -> Iterator[str]:
    verdicts = decided["conditions"]
    passed = sum(facts["verdict"] == "pass" for facts in verdicts)
    has_one = len(verdicts) == 1
    head = _verdict(verdicts[0]) if has_one else f"{_word(decided)} {passed} of {len(verdicts)} verdicts pass."
    yield f"<h1>{head}</h1>"
    better = "larger" if request["sign"] > 0 else "smaller"
    texts = {
        "Base": decided["base"],
        "Candidate": decided["candidate"],
        "Metric": f"mean {decided['metric']}, {better} is better",
        "Played": verdicts[0]["played"] or "As the loaded policies act.",
    }
    rows = "".join(f"<dt>{name}</dt><dd>{_text(text)}</dd>" for name, text in texts.items() if text)
    yield f'<dl class="facts-of-gate">{rows}</dl>'
    shown: Pairs | None = None
    for facts, (pairs, parts) in zip(verdicts, compared, strict=True):
        title = "" if has_one else f"<h2>{_title(facts)}</h2><p>{_verdict(facts)}</p>"
        count = 0 if pairs is shown else clips  # a floor besides a base: the clips are shown with the base
        shown = pairs
        content = "".join(_section(facts, pairs, parts, request, count, 2 if has_one else 3))
        yield f"<section>{title}{content}</section>" if title or content else ""
    if decided["problems"]:
        problems = "".join(f"<li>{_text(problem)}</li>" for problem in decided["problems"])
        yield f'<section><h2>What to know besides</h2><ul class="notes">{problems}</ul></section>'


def _title(facts: Mapping[str, Any]) -> str:
    """Return what a verdict is on, if there are several."""
    against = "Against the base" if facts["at_least"] is None else f"At least {facts['at_least']:g}"
    return _text(f"{against}, {facts['condition']}" if facts["condition"] else against)


def _section(
    facts: Mapping[str, Any],
    pairs: Pairs,
    parts: Sequence[EvaluationPart],
    request: Mapping[str, Any],
    clips: int,
    level: int,
) -> Iterator[str]:
    """Yield what is shown of a verdict; ``level`` is that of the headings."""
    floor = facts["at_least"]
    base, lines = (0.0, {"margin": 0.0 - facts["margin"]}) if floor is None else (floor, {"floor": floor})
    lines |= {"equal": 0.0} if floor is None and facts["margin"] else {}
    if facts["seeds"]:
        name, least = ("The candidate is ahead by", "margin") if floor is None else ("Mean of the candidate", "floor")
        yield f"<h{level}>{name}</h{level}><p>The interval holds however many seeds are played. To pass, all of it "
        yield f"must be right of the dashed line, the {least}.</p>"
        value, low, high = (base + facts[name] for name in ("difference", "low", "high"))
        yield interval(value, low, high, lines)
    if facts["notes"]:
        items = "".join(f"<li>{_text(note[:1].upper() + note[1:])}.</li>" for note in facts["notes"])
        yield f'<ul class="notes">{items}</ul>'
    if facts["seeds"]:
        yield from _seeds(facts, pairs, request, lines, level)
    yield from _decisive(pairs, parts, request["sign"], clips, level)


def _seeds(
    facts: Mapping[str, Any], pairs: Pairs, request: Mapping[str, Any], lines: Mapping[str, float], level: int
) -> Iterator[str]:
    """Yield the differences by seed, or the values that a floor is asked of, as dots and as a table."""
    count = facts.get("different", facts["seeds"])
    scores, roles = dict(sorted(itertools.islice(pairs.scores.items(), count))), _roles(pairs)
    if facts["at_least"] is None:
        heading, won, values = (
            "Seeds won and lost",
            facts["margin"],
            {seed: values[1] - values[0] for seed, values in scores.items()},
        )
        within = count - facts["won"] - facts["lost"]
        told = f"By more than the margin: won {facts['won']}, lost {facts['lost']}, within the margin {within}"
        columns = [*roles, "better by"]
    else:
        heading, won, values = (
            "Seeds above and below",
            facts["at_least"],
            {seed: values[-1] for seed, values in scores.items()},
        )
        told, columns = f"Below the floor: {facts['lost']}", ["candidate"]
    yield f'<h{level}>{heading}</h{level}><p class="won-and-lost">{told}, of {counted(count, "seed")}; '
    yield f"at most {len(request['seeds'])} were allowed.</p>{dot_plot(values, lines, won, told)}"
    yield '<details><summary>All seeds</summary><div class="wide" tabindex="0" role="region" aria-label="All seeds">'
    yield "<table><thead><tr>"
    yield "".join(f'<th scope="col">{name}</th>' for name in ("seed", *columns))
    yield "</tr></thead><tbody>"
    for seed, value in values.items():
        shown = (*_metrics(pairs, seed, request["sign"]), value)[-len(columns) :]
        cells = "".join(f"<td>{short(number)}</td>" for number in shown)
        yield f'<tr><th scope="row">{seed}</th>{cells}</tr>'
    yield "</tbody></table></div></details>"


def _decisive(pairs: Pairs, parts: Sequence[EvaluationPart], sign: int, count: int, level: int) -> Iterator[str]:
    """Yield both clips of the seeds that differ most; of one policy, the clips of those furthest below the floor."""
    seeds, roles = pairs.decisive(count), _roles(pairs)
    if not seeds:
        return
    taped = [{episode.row["seed"]: episode for episode in part.taped()} for part in parts]
    if len(roles) > 1:
        yield f"<h{level}>The seeds that differ most</h{level}><p>Both play a seed in step: from just before they "
        yield "differ, the mark on the time line, to just after the end of the shorter episode.</p>"
    else:
        yield f"<h{level}>The seeds furthest below the floor</h{level}>"
    yield '<div class="seeds">'
    for seed in seeds:
        episodes = [rows.get(seed) for rows in taped]
        shown = decisive(*[None, *episodes][-2:])
        *base, score = pairs.scores[seed]
        result = [f": {'won' if score > other else 'lost'} by {short(abs(score - other))}" for other in base]
        yield f'<div class="seed"><h{level + 1}>Seed {seed}{"".join(result)}</h{level + 1}>'
        if base:
            step = shown.differs_at
            differ = (
                "Where they begin to differ is not known." if step is None else f"They first differ at step {step}."
            )
            yield f'<p class="differ">{differ}</p>'
        yield '<div class="both">'
        clips = shown.clips[-len(roles) :]
        for role, clip, value in zip(roles, clips, _metrics(pairs, seed, sign), strict=True):
            steps = "" if clip is None else f", {counted(clip.length, 'step')}"
            yield f"<figure><figcaption><b>{role}</b><span>{short(value)}{steps}</span></figcaption>"
            yield f'<div class="frame">{_clip(clip, f"{role}, seed {seed}")}</div></figure>'
        yield f"</div>{_controls([clip for clip in clips if clip], shown.differs_at, seed)}</div>"
    yield "</div>"


def _clip(clip: CutClip | None, name: str) -> str:
    if clip is None:
        return "<p>No clip.</p>"
    data = "".join(f' data-{key}="{getattr(clip, key)}"' for key in ("first", "last", "stride", "fps"))
    shows = f'src="{clip.src}" poster="{clip.start}"{data}'
    video = f'<video {shows} muted playsinline controls preload="auto" aria-label="{name}"></video>'
    return f'{video}<img src="{clip.end}" alt="Last frame: {name}">'


def _controls(clips: Sequence[CutClip], differs_at: int | None, seed: int) -> str:
    """Return the controls of both clips, which the page's script shows."""
    if not clips:
        return ""
    first, last, stride = min(clip.first for clip in clips), max(clip.last for clip in clips), clips[0].stride
    share = 0.0 if differs_at is None else min(1.0, max(0.0, (differs_at - first) / max(last - first, 1)))
    mark = "" if differs_at is None else f'<i style="left:calc(8px + (100% - 16px) * {share:.4f})"></i>'
    return (
        f'<div class="controls" hidden><button class="play" aria-label="Play seed {seed}">▶</button>'
        f'<div class="scrub"><input type="range" min="{first}" max="{last}" step="{stride}" value="{first}" '
        f'aria-label="Step of seed {seed}">{mark}</div><output></output></div>'
    )


def _roles(pairs: Pairs) -> Sequence[str]:
    """Return who played: the base and the candidate, or the candidate alone."""
    return ROLES if False in pairs.standings else ROLES[1:]


def _metrics(pairs: Pairs, seed: int, sign: int) -> list[float]:
    """Return the metric of both on a seed, in its own units."""
    return [sign * score for score in pairs.scores[seed]]


def _verdict(facts: Mapping[str, Any]) -> str:
    return f'{_word(facts)} <span class="sentence">{_text(facts["sentence"])}</span>'


def _word(facts: Mapping[str, Any]) -> str:
    return f'<b class="word {facts["verdict"]}">{facts["verdict"].upper()}</b>'


def _name(path: str) -> str:
    return posixpath.basename(redacted(path).rstrip("/"))


def _text(text: str) -> str:
    return html.escape(redacted(text))
