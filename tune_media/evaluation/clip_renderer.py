"""The clips of an evaluation: of the episodes that selectors choose, played again from their tapes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tune_media.encoding.stills import SHOWS_NOTHING, Stills
from tune_media.recording.choosing import CHOOSES_NOTHING, chosen_by
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_pool import RenderPool
from tune_media.selection import Selector
from tune_media.values.options import VideoOptions
from tune_media.values.secrets import error_text, redacted
from tune_media.values.video import Video
from tune_media.viewing.taped_episodes import TapedEpisode, recipe_of


class ClipRenderer:
    """Makes clips of the episodes of each checkpoint that selectors choose, in a subprocess.

    Without ``video``, a clip has the frames that would have been recorded. ``problems`` says why clips are missing;
    ``failed`` counts the episodes and the choices that have none for it.
    """

    def __init__(self, selectors: Sequence[Selector], video: VideoOptions | None = None) -> None:
        self.selectors, self.video = selectors, video
        self._pool = RenderPool()
        self._recipes: dict[str, Recipe] = {}  # by hash
        self._useless: set[str] = set()  # the hashes of recipes whose envs show nothing
        self.problems: list[str] = []
        self.failed = 0
        self._stills = Stills(lambda reason: self._add_once(f"{SHOWS_NOTHING}: {reason}"))

    def close(self) -> None:
        """End the process."""
        self._pool.close()

    def clips(
        self, episodes: Sequence[TapedEpisode], are_there: Collection[tuple[str, str]] = ()
    ) -> Iterator[tuple[str, Video]]:
        """Yield the clips of one checkpoint with the names of their selectors; those in ``are_there`` are left out."""
        by_id = {episode.id: episode for episode in episodes}
        chosen, reasons = chosen_by(self.selectors, [episode.record for episode in episodes], argument="clips")
        self.failed += len(reasons)
        for reason in reasons:
            self._add_once(f"{CHOOSES_NOTHING}: {reason}")
        made: dict[str, dict[str, Video]] = {}
        for name, records in chosen.items():
            for record in records:
                if (name, record.episode_id) in are_there:
                    continue
                if record.episode_id not in made:
                    made[record.episode_id] = self._rendered(by_id[record.episode_id])
                for view, video in made[record.episode_id].items():
                    yield f"{name}/{view}" if view else name, video

    def _rendered(self, episode: TapedEpisode) -> dict[str, Video]:
        """Return the clips of an episode by view; none, with a problem, if it cannot be rendered."""
        recipe = str(episode.row["recipe"] or "")
        if recipe in self._useless:
            self.failed += 1
            return {}
        try:
            if recipe not in self._recipes:
                self._recipes[recipe] = recipe_of(episode)
            clips = self._pool.render(self._recipes[recipe], episode.tape(), video=self.video, **episode.place())
        except (RenderError, KeyError, ValueError) as error:
            reason = redacted(str(error)) if isinstance(error, RenderError) else error_text(error)
            self.problems.append(f"no clip of episode {episode.id} (seed {episode.row['seed']}): {reason}")
            self.failed += 1
            if isinstance(error, RenderError) and error.step is None and error.is_of_env:
                self._useless.add(recipe)  # its envs do not render, or cannot be made
            return {}
        self._stills.look(clips.values())
        return episode.videos(clips)

    def _add_once(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)
