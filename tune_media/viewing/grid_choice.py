"""Chooses the clips that a grid or a filmstrip shows: one for each trial, one trial's over its training, or a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tune_media.encoding import labels
from tune_media.experiment.params import setting_of
from tune_media.values import checks, score
from tune_media.values.number import counted
from tune_media.values.problems import remedy
from tune_media.values.safe_names import full_name
from tune_media.values.secrets import without_secret
from tune_media.viewing.catalog import Catalog, load, names_of_trials
from tune_media.viewing.catalog_row import CatalogRow
from tune_media.viewing.configurations import by_difference, short
from tune_media.viewing.filmstrip import Strip

MAX_TILES = 64


@dataclass(frozen=True)
class Tile:
    """A clip of a grid."""

    row: CatalogRow
    title: str  # the first line of its label, such as ``lr=0.001  gamma=0.98``
    mark: str = ""  # ``"winner"``, see ``Catalog.winner``, or ``"best"`` for the best clip of one trial

    @property
    def caption(self) -> str:
        """The second line of its label: return, length, and the step at which it was recorded."""
        episode_return, length = self.row.get("episode_return"), self.row.get("episode_length")
        told = [f"return {episode_return:g}"] if isinstance(episode_return, (int, float)) else []
        told += [counted(length, "step")] if isinstance(length, int) else []
        text = ", ".join([*told, f"at step {self.row.get('step', '?')}"])
        return f"{self.mark}: {text}" if self.mark else text


def choose_tiles(
    catalog: Catalog,
    *,
    trials: Sequence[str] = (),
    step: str | int = "best",
    over_training: str | None = None,
    key: str | None = None,
) -> list[Tile]:
    """Return the clips of a grid, at most 64: the trial with the highest score first; over training, the first step.

    Args:
        trials: The names of the trials to show, or a part of each that no other trial has. Empty: all.
        step: ``"best"`` for the clip with the best return of each trial, ``"last"`` for its last one, or a step: its
            last clip up to that step. Clips that were rolled back are chosen only if there are no others.
        over_training: The name of a trial: its clips from the first to the last step, instead of one of each trial.
        key: The key of the clips, such as ``"episodes/best"``, or its last part. None: the evaluation's best episodes
            if there are any, or else the key that has most clips. If clips of several sections have it, the
            evaluation's are shown, or else those of the section that has most.
    """
    if over_training and (trials or step != "best"):
        raise ValueError("--over-training shows all steps of one trial: " + remedy("leave --trials and --step out."))
    names = names_of_trials(catalog, [over_training] if over_training else trials)
    clips = catalog.clips
    if not len(clips):
        raise ValueError(f"There is no clip in {catalog.path}: nothing was recorded, or it is not an experiment.")
    key = _key_named(clips, key)
    rows = _of_one_section(clips, key, names)
    if over_training:
        chosen = _evenly(rows)
        marked, mark = max(chosen, key=score.clip_rank), "best"
    else:
        chosen, mark = _winner_first(catalog, _one_each(rows, key, step))
        marked = chosen[0]
    shown = chosen[:MAX_TILES]
    return [
        Tile(row, title, mark if row is marked and len(chosen) > 1 else "")
        for row, title in zip(shown, _titles(shown, catalog, over_training), strict=True)
    ]


def _keys(clips: Catalog) -> list[str]:
    return sorted({row["key"] for row in clips})


def _key_named(clips: Catalog, name: str | None) -> str:
    """Return the key that is meant by its name or the last part of it. Raises ValueError."""
    if name is None:
        return _default_key(clips)
    keys = _keys(clips)
    key = full_name(name, keys)
    if key is None:
        raise ValueError(f"There is no clip with key {name!r}; the keys with clips are {checks.name_some(keys)}.")
    return key


def _default_key(clips: Catalog) -> str:
    """Return the key of the evaluation's best episodes, or the key that has most clips."""
    counts = Counter((row["section"] == "evaluation", row["key"].endswith("best"), row["key"]) for row in clips)
    *_, key = max(counts, key=lambda found: (found[0], found[1], counts[found], found[2]))
    return str(key)


def _of_one_section(clips: Catalog, key: str, names: Sequence[str]) -> list[CatalogRow]:
    """Return the clips of a key, of the evaluation if there are any, of some trials or of all. Raises ValueError."""
    rows = [row for row in clips if row["key"] == key and (not names or row["trial"] in names)]
    if not rows:
        names_of_keys = checks.name_some(_keys(clips))
        raise ValueError(f"There is no clip with key {key!r} of these trials; the keys are {names_of_keys}.")
    counts = Counter(row["section"] for row in rows)
    shown = max(counts, key=lambda section: (section == "evaluation", counts[section], section))
    return [row for row in rows if row["section"] == shown]


def _one_each(rows: Sequence[CatalogRow], key: str, step: str | int) -> list[CatalogRow]:
    """Return the clip of each trial. Raises ValueError if none is that old."""
    chosen: dict[str, CatalogRow] = {}
    for row in rows:
        held = chosen.get(row["trial"])
        if isinstance(step, int) and row.get("step", 0) > step:
            continue
        is_later = step != "best" and held is not None and score.does_count(row) >= score.does_count(held)
        is_new = "episode_return" not in row  # of clips without one, the newest is the best
        if (
            held is None
            or is_later
            or (step == "best" and (score.clip_rank(row), is_new) > (score.clip_rank(held), False))
        ):
            chosen[row["trial"]] = row
    if not chosen:
        first, last = (of_all(row.get("step", 0) for row in rows) for of_all in (min, max))
        there = f"the only one is at step {first}" if first == last else f"they are at the steps {first} to {last}"
        raise ValueError(f"There is no clip with key {key!r} up to step {step}; {there}.")
    return list(chosen.values())


def _winner_first(catalog: Catalog, clips: Sequence[CatalogRow]) -> tuple[list[CatalogRow], str]:
    """Return one clip of each trial, the highest score first, and the mark of the first one."""
    order = {trial.name: place for place, trial in enumerate(catalog.winner_first())}
    ranked, winner = sorted(clips, key=lambda row: order[row["trial"]]), catalog.winner
    return ranked, "winner" if winner is not None and ranked[0]["trial"] == winner.name else ""


def _evenly(clips: Sequence[CatalogRow]) -> Sequence[CatalogRow]:
    """Return clips; if there are too many, evenly spread ones, the first and the last among them."""
    if len(clips) <= MAX_TILES:
        return clips
    return [clips[round(place * (len(clips) - 1) / (MAX_TILES - 1))] for place in range(MAX_TILES)]


def _titles(rows: Sequence[CatalogRow], catalog: Catalog, over_training: str | None) -> list[str]:
    """Return the hyperparameters of each clip's trial, those first that differ most; without any the trial's name."""
    params = [] if over_training else catalog.differing_params
    texts = {name: [short(without_secret(name, setting_of(row.config, name))) for row in rows] for name in params}
    names = by_difference(texts)
    told = ("  ".join(f"{n.rpartition('/')[2]}={texts[n][place]}" for n in names) for place in range(len(rows)))
    return [title or row["trial"] for title, row in zip(told, rows, strict=True)]


def strip_of(tile: Tile) -> Strip:
    """Return the row of a clip of an experiment, under its title and its caption."""
    lines = [(tile.title, labels.INK), (tile.caption, labels.WINNER if tile.mark else labels.PALE)]
    return Strip(tile.row.read_bytes(), tile.row, lines, tile.row["file"])


def strip_of_file(path: Path, catalog: Catalog | None) -> Strip:
    """Return the row of a clip's file; the catalog of its trial, if there is one, tells the steps of its frames."""
    rows = (row for row in catalog or () if Path(row["file"]).resolve() == path.resolve())
    return Strip(path.read_bytes(), next(rows, {}), name=str(path))


def catalog_of_file(path: Path) -> Catalog | None:
    """Return the catalog of the trial in whose folder a clip is; None of a clip that is elsewhere."""
    trial = next((parent for parent in path.resolve().parents if (parent / "media" / "index.jsonl").is_file()), None)
    return load(str(trial)) if trial else None
