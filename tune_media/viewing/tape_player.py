"""Plays tapes for the viewer: a click renders an episode in its own process."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from tune_media.encoding.encoder import EncodedVideo
from tune_media.experiment.trial_files import TrialFiles
from tune_media.replay.render_pool import RenderPool
from tune_media.values.secrets import redacted
from tune_media.values.threads import start_thread
from tune_media.viewing.taped_episodes import TapedEpisode, by_id, recipe_of

_MOST_KEPT = 20  # clips, of those that were played last
_MOST_WAITING = 5
_FACTS = ("note", "frames", "fps", "width", "height")


@dataclass
class _Playing:
    """An episode that is played, or was."""

    step: int = 0  # the last one that has been played
    steps: int = 0  # of the episode
    problem: str | None = None  # why there is no clip
    clips: dict[str, EncodedVideo] = field(default_factory=dict)  # of each view; empty until the end

    @property
    def is_over(self) -> bool:
        return self.problem is not None or bool(self.clips)


class TapePlayer:
    """Renders episodes that have tapes, one at a time, in a process that runs the code of their recipe.

    Nothing is written to the experiment: the clips that were played last are kept in memory. Any thread may call any
    method. ``token`` is what a click must bring; no page has it, since others on this machine can read the pages.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self._pool = RenderPool()
        self._playing: OrderedDict[str, _Playing] = OrderedDict()
        self._lock = threading.Lock()

    def allows(self, token: str) -> bool:
        """Return whether a request with this token comes from somebody who was given the page's whole address."""
        return hmac.compare_digest(token.encode(), self._token.encode())

    def play(self, trial: TrialFiles, report: str, episode_id: str) -> str:
        """Begin to render an episode, unless it is there or under way; return its name for ``state``.

        ``report`` is the path of its report in the index. ValueError if too many episodes wait already.
        """
        name = self.name_of(trial, report, episode_id)
        with self._lock:
            known = self._playing.get(name)
            if known is not None and known.problem is None:
                self._playing.move_to_end(name)
                return name
            if sum(not episode.is_over for episode in self._playing.values()) >= _MOST_WAITING:
                raise ValueError(f"{_MOST_WAITING} episodes are being rendered; wait for one of them")
            playing = self._playing[name] = _Playing()
            for old in [old for old, episode in self._playing.items() if episode.is_over][:-_MOST_KEPT]:
                del self._playing[old]
        start_thread("tune_media-play", self._render, playing, trial, report, episode_id)
        return name

    @staticmethod
    def name_of(trial: TrialFiles, report: str, episode_id: str) -> str:
        """Return the name under which an episode is, or would be, rendered."""
        return hashlib.blake2s(repr((trial.path, report, episode_id)).encode(), digest_size=12).hexdigest()

    def state(self, name: str) -> dict[str, Any]:
        """Return how far an episode is: ``step`` of ``steps``, ``problem`` or None, and ``views``, empty until the end.

        A view has its ``name``, and its clip's ``note``, ``frames``, ``fps``, ``stride``, ``width`` and ``height``.
        KeyError if nobody has asked for it lately.
        """
        with self._lock:
            playing = self._playing[name]
        return {
            "step": playing.step,
            "steps": playing.steps,
            "problem": playing.problem,
            "views": [
                {"name": view, "stride": clip.frame_stride} | {name: getattr(clip, name) for name in _FACTS}
                for view, clip in playing.clips.items()
            ],
        }

    def clip(self, name: str, view: int) -> bytes:
        """Return the mp4 of a view; KeyError if it is not there."""
        with self._lock:
            clips = list(self._playing[name].clips.values())
        if not 0 <= view < len(clips):
            raise KeyError(view)
        return clips[view].data

    def _render(self, playing: _Playing, trial: TrialFiles, report: str, episode_id: str) -> None:
        def tell(step: int, steps: int) -> None:
            playing.step, playing.steps = step, steps

        try:
            episode = by_id(TapedEpisode.of_report(trial, report), episode_id)
            how = {"is_lenient": True, "on_step": tell, **episode.place()}
            playing.clips = self._pool.render(recipe_of(episode), episode.tape(), **how)
        except KeyError as error:
            playing.problem = str(error.args[0])
        except Exception as error:  # whatever it is, the page says so
            playing.problem = redacted(str(error) or type(error).__name__)
