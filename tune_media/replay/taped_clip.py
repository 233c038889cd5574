"""A clip of an episode that has a tape, and that is not rendered yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from typing_extensions import override

from tune_media.encoding.encoder import EncodedVideo
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.verdicts import refuse, verdict_on
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.medium import joined
from tune_media.values.video import Video

_RENDERED = ("data", "width", "height", "frames", "fps", "frame_stride")
_HERE = RenderPool()  # for clips whose bytes are read in this process


class TapedClip(Video):
    """A clip that is rendered when its bytes, its size or its frames are first asked for, in a separate process.

    In a Tune run with one of our logger callbacks the driver renders it, and its path replaces it in the result. Any
    attribute of the rendered clip raises RenderError if the replay is not the episode, or the env cannot be made or
    rendered.
    """

    tape: bytes  # as it is stored
    recipe: Recipe  # it holds code, which runs in the process that renders

    def __init__(self, tape: bytes, recipe: Recipe, episode: EpisodeRecord) -> None:
        self._set(tape=tape, recipe=recipe, episode=episode, id=episode.clip_id, note=episode.note)

    @property
    @override
    def is_rendered(self) -> bool:
        return "data" in self.__dict__

    def clips_by(self, pool: RenderPool) -> dict[str, EncodedVideo]:
        """Return the clips of the tape by view, rendered by a pool's process. Raises RenderError."""
        clips = pool.render(self.recipe, self.tape, **self._place())
        return {view: replace(clip, recipe_hash=self.recipe.hash) for view, clip in clips.items()}

    def compared_by(self, pool: RenderPool, *, is_first: bool = False) -> dict[str, Any]:
        """Have a pool's process compare a replay, see ``RenderProcess.prove``. Raises RenderError."""
        return pool.prove(self.recipe, self.tape, is_first=is_first, **self._place())

    def _place(self) -> dict[str, Any]:
        assert self.episode is not None
        return {"env_runner": self.episode.env_runner or 0, "env_index": self.episode.env_index or 0}

    def finished(self, clips: dict[str, EncodedVideo]) -> Video:
        """Return the finished clip: of the clips of its tape, the one of its view."""
        assert self.episode is not None
        clip = clips.get(self.episode.view or "")
        if clip is None:
            shown = ", ".join(map(repr, sorted(clips)))
            raise RenderError(f"the env shows the views {shown}, and not {self.episode.view or ''!r}")
        return Video.from_encoded(clip, episode=self.episode, note=joined(self.note, clip.note), id=self.id)

    @override
    def of_episode(self, episode: EpisodeRecord, note: str | None = None) -> Video:
        if self.is_rendered:
            return super().of_episode(episode, note)
        clip = TapedClip(self.tape, self.recipe, episode)
        clip._set(note=joined(note, clip.note))
        return clip

    @property
    @override
    def nbytes(self) -> int:
        return len(self.__dict__.get("data", self.tape))

    @override
    def facts(self) -> dict[str, Any]:
        if self.is_rendered:
            return super().facts()
        return {"format": "mp4", **(self.episode.facts() if self.episode else {})}

    def __getattr__(self, name: str) -> Any:
        if name not in _RENDERED:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if "refused" in self.__dict__:
            raise RenderError(self.__dict__["refused"])
        verdict = verdict_on(self.recipe.hash)
        if verdict is not None and not verdict.repeats:
            self._refuse(verdict.reason)
            raise RenderError(verdict.reason)
        try:
            video = self.finished(self.clips_by(_HERE))
        except RenderError as error:
            if error.is_of_env:
                self._refuse(str(error))
            raise
        fields = {"compared": video.compared, "recipe_hash": video.recipe_hash, "note": video.note}
        self._set(**{field: getattr(video, field) for field in _RENDERED}, **fields)
        return self.__dict__[name]

    def _refuse(self, reason: str) -> None:
        """Count this clip as lost, once: no callback sees it in a loop around ``algo.train()``."""
        refuse(self.recipe.hash, reason, lost=1)
        self._set(refused=reason)

    def __repr__(self) -> str:
        return super().__repr__() if self.is_rendered else f"Video(not rendered yet, a tape of {len(self.tape)} bytes)"
