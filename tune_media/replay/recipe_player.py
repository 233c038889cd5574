"""Plays the tapes of one recipe, each in a new env, and finds out whether the replays are the episodes."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import random
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from tune_media.encoding.encoder import SAME, EncodedVideo, look_of
from tune_media.encoding.frames import Frame, as_rgb
from tune_media.encoding.stills import SHOWS_NOTHING, reason_of
from tune_media.recording.pictures import SPARSE, STEPS, Pictures
from tune_media.recording.rendering import FrameFunction, Renderer, remedy_for
from tune_media.replay.forks import in_fork, may_fork
from tune_media.replay.generators import RenderDraws, RenderGuard
from tune_media.replay.player import RenderError, ReplayDiffers, random_step
from tune_media.replay.recipe import Creator, LoadedRecipe, differences, facts_here, updates
from tune_media.replay.tape import Tape
from tune_media.replay.tape_rendering import frames_at, raise_if_other, render_tape
from tune_media.values.medium import joined
from tune_media.values.named_function import named_function
from tune_media.values.options import VideoOptions
from tune_media.values.problems import FrameError, Problem, argument, message_of, parts_of
from tune_media.values.secrets import error_text

_STEPS = 10  # of a frame check
_TELL_SECONDS = 1.0  # between two signs that an env comes back
_NOT_THE_EPISODE = (
    "nothing that is known of the machine or of the packages has changed, so either your code changed the env while it "
    "ran (between episodes, that does no harm), or the env draws numbers, or keeps a state, that no seed and no "
    "generator of its own reaches (have it draw all from self.np_random, and begin each episode afresh)"
)
_IS_CONFINED = "a replay may change nothing outside its own folder"
_OTHER_TASK = "the env was given another task while it ran, before or at step {} (between episodes, that does no harm)"
_NO_OWN_FRAME = "no frame of it was rendered while it ran, so nothing would show if a clip of its tape is its episode"

_Found = tuple[Pictures, list[str] | None]  # frames, and the global generators that rendering drew from, if known
Tell = Callable[..., None]  # writes an answer: the contents behind it, and its facts


class RecipePlayer:
    """Plays the tapes of one recipe; for ``recipe``, ``env`` and ``frame`` see ``RenderProcess``.

    ``is_confined``: the system refuses this process to change files outside its own folder.
    """

    def __init__(
        self,
        recipe: bytes | None,
        env: Creator | str | None,
        frame: FrameFunction | str | None,
        *,
        is_confined: bool = False,
    ) -> None:
        self._draws = RenderDraws()  # before the user's modules and envs, which may start threads that draw
        makes_env = named_function(env) if isinstance(env, str) else env
        self._content, self._is_own, self._has_own_frame = recipe, makes_env is not None, frame is not None
        creator = None if makes_env is None else _taking_config(makes_env)
        if recipe is not None:
            self._recipe = LoadedRecipe.of(recipe, creator)
        else:
            assert creator is not None
            self._recipe = LoadedRecipe(facts_here(), creator, {})
        own_frame = named_function(frame) if isinstance(frame, str) and ":" in frame else frame
        self._frame = self._recipe.frame if own_frame is None else own_frame
        self.name = next(reversed(self._recipe.facts.get("wrappers", ())), None)  # as the recorder names the env
        self._is_confined = is_confined
        self._edited = ""
        self._on_compared: Callable[[int, int], None] = lambda step, steps: None

    def answer(self, request: dict[str, Any], tell: Tell) -> None:
        """Write the answer to a request (``do``: ``check``, ``prove`` or ``render``, and its arguments)."""
        do = request.pop("do")
        self._on_compared = lambda step, steps: tell(step=step, steps=steps, is_compared=True)
        try:
            if "tape" in request:
                request["tape"] = Tape.unpacked(request["tape"])
            if do == "check":
                tell(**self.check())
            elif do == "prove":
                tell(facts=self.prove(**request))
            else:
                clips = self.render(**request, on_step=lambda step, steps: tell(step=step, steps=steps))
                facts = {view: dict(vars(clip)) for view, clip in clips.items()}
                contents = [fields.pop("data") for fields in facts.values()]
                tell(*contents, clips=facts, nbytes=list(map(len, contents)))
        except RenderError as error:
            parts = parts_of(message_of(error))
            tell(error=parts, at=error.step, is_of_env=error.is_of_env, touches=error.touches)
        except Exception as error:
            tell(error=parts_of(_told(error)), at=None)

    def render(
        self,
        tape: Tape,
        video: VideoOptions | None,
        place: tuple[int, int],
        *,
        is_lenient: bool,
        on_step: Callable[[int, int], None],
    ) -> dict[str, EncodedVideo]:
        """Return the clips of a tape, whose own frames are compared. Raises RenderError, or whatever the env raises."""
        video, notes = video or self._recipe.video, list[str]()
        places = tape.pictures.places(tape.every, len(tape))
        if not places and tape.pictures.how != STEPS and not is_lenient:
            raise RenderError(_NO_OWN_FRAME, is_of_env=False)

        compared = _compared(tape, places, video)
        try:
            if is_lenient:
                note = self._difference_as_recorded(tape, place, places)
                notes, compared = ([note], _compared(tape, (), video)) if note else ([], compared)
                places = set()
            elif tape.pictures.how == SPARSE:
                raise_if_other(tape, self._frames_alone(tape, place, places)[0], places)
                places &= {0}  # the first frame that is rendered is the same, however many there are
            with self._new_env(place, notes if is_lenient else None) as renderer:
                clips = render_tape(tape, renderer, video, env_index=place[1], on_step=on_step, compared=places)
        except ReplayDiffers as error:
            raise self._render_error(error, tape) from error
        if tape.pictures.how == STEPS and (updated := updates(self._recipe.facts, facts_here(), but="tune_media")):
            notes.append(f"its frames were not compared: {'; '.join(updated)}")
        for view, clip in clips.items():
            clips[view] = dataclasses.replace(clip, note=joined(clip.note, *notes), compared=compared)
        return clips

    def prove(self, tape: Tape, place: tuple[int, int], *, is_first: bool) -> dict[str, Any]:
        """Compare a replay with an episode of which all frames were rendered; return the facts of a ``ReplayVerdict``.

        ``is_first``: also find out if a frame looks otherwise when others were rendered before it. Raises RenderError.
        """
        steps = len(tape)
        every = tape.pictures.places(tape.every, steps)
        try:
            whole, draws = self._frames_alone(tape, place, every)
            raise_if_other(tape, whole, every)
            if not is_first:
                return {}
            some = {0, random.choice(sorted(every)), max(every)}
            alone = self._frames_alone(tape, place, some)[0]
            ages = any(alone.at(step) != whole.at(step) for step in some)
            if ages and alone.difference(self._frames_alone(tape, place, some)[0], some) is not None:
                raise ReplayDiffers("the env draws other pictures in each replay", steps)
        except ReplayDiffers as error:
            raise self._render_error(error, tape) from error
        return {"ages": ages, "length": steps, "draws": draws}

    def _frames_alone(self, tape: Tape, place: tuple[int, int], places: Collection[int]) -> _Found:
        """Play a tape in a separate process: what an env leaves in classes and modules must not reach the next one."""

        def play() -> _Found:
            with self._new_env(place) as renderer:
                return self._frames_at(tape, renderer, places)

        return in_fork(play) if may_fork() else play()

    def _frames_at(self, tape: Tape, renderer: Renderer, places: Collection[int]) -> _Found:
        """Do as ``frames_at``, and tell now and then that the env comes back."""
        told = time.monotonic()

        def on_step(step: int) -> None:
            nonlocal told
            if (now := time.monotonic()) > told + _TELL_SECONDS or step == len(tape):
                told = now
                self._on_compared(step, len(tape))

        return frames_at(tape, renderer, places, on_step, self._draws)

    def _difference_as_recorded(self, tape: Tape, place: tuple[int, int], places: Collection[int]) -> str | None:
        """Return why an episode may not have looked as it does now: its own frames differ, or are not compared."""
        if not places:
            return None
        if not self._is_own and not self._has_own_frame:
            recipe, frame = self._recipe, self._frame
        elif self._content is None:
            return "its frames were not compared: its recipe is not there"
        else:
            try:
                recipe = LoadedRecipe.of(self._content)
                frame = recipe.frame
            except Exception as error:
                return f"its frames were not compared: its recipe cannot be read ({error_text(error)})"
        try:
            with _closing(recipe.make(*place)) as env:
                shown, _ = self._frames_at(tape, Renderer(env, frame, recipe.example), places)
        except ReplayDiffers:
            if self._is_own:
                return "its frames were not compared: the env of its recipe does not play it here"
            raise
        except Exception as error:
            return f"its frames were not compared: {error_text(error)}"
        difference = tape.pictures.difference(shown, places)
        if difference is None:
            return None
        changed = differences(self._recipe.facts, facts_here())
        why = f" ({'; '.join(changed)})" if changed else ""
        return f"all steps are those of the episode, but its frames looked different, {difference[1]}{why}"

    def check(self) -> dict[str, Any]:
        """Return why a new env shows no frame after a reset, or nothing on it, or None if it shows one (``problem``).

        ``draws``: the names of the global generators that rendering draws from, or None if not known.
        """
        guard, shows = RenderGuard(None, self._draws), False
        with _closing(self._recipe.make()) as env:
            try:
                observation, _ = env.reset(seed=0)
                renderer = Renderer(env, self._frame, self._recipe.example, name=self.name)
                first = np.array(guard(lambda: _picture_of(renderer)))
                shows = (look := look_of(first)) == SAME
                with contextlib.suppress(Exception):
                    for _ in range(_STEPS):  # the first frame may be dark, and rendering may draw numbers later only
                        observation = random_step(env, observation)
                        renderer.new_step()
                        shows |= not np.array_equal(guard(lambda: _picture_of(renderer)), first)
            except FrameError as error:
                return {"problem": Problem.no_clip(str(error)).text, "draws": None}
        return {"problem": None if shows else f"{SHOWS_NOTHING}: {reason_of(look)}", "draws": guard.drawn}

    @contextlib.contextmanager
    def _new_env(self, place: tuple[int, int], notes: list[str] | None = None) -> Iterator[Renderer]:
        """Make an env, and close it afterwards; ``notes`` take that its code was edited. None: must not be."""
        try:
            made = self._recipe.make(*place)
        except Exception as error:
            raise cannot_make(error) from error
        with _closing(made) as env:
            edited = [] if self._is_own else self._recipe.edited(env)
            if edited:
                self._edited = f"the code of {', '.join(edited)} was edited since the episode was recorded"
                if notes is None:
                    raise RenderError(self._edited)
                notes.append(self._edited)
            yield Renderer(env, self._frame, self._recipe.example)

    def _render_error(self, error: ReplayDiffers, tape: Tape) -> RenderError:
        """Return the error of a replay that is not the episode, with what is known of the reason."""
        if error.is_refused and self._is_confined:
            return RenderError(f"{error}; {_IS_CONFINED}", touches=True)
        if self._is_own:
            told = f"{error}: the env that " + argument("env=") + " makes does not play this episode"
            return RenderError(told, error.step)
        if error.step and tape.has_other_task:
            return RenderError(f"{error}; {_OTHER_TASK.format(error.step)}", error.step)
        changed = [*differences(self._recipe.facts, facts_here()), *filter(None, [self._edited])]
        return RenderError(f"{error}; {'; '.join(changed) if changed else _NOT_THE_EPISODE}", error.step)


def _taking_config(creator: Any) -> Creator:
    """Return a function that takes an ``env_config``, even if the one that it calls takes none."""
    try:
        inspect.signature(creator).bind({})
    except TypeError:
        return lambda config: creator()
    except ValueError:  # written in C
        pass
    taking: Creator = creator
    return taking


@contextlib.contextmanager
def _closing(env: Any) -> Iterator[Any]:
    try:
        yield env
    finally:
        with contextlib.suppress(Exception):
            env.close()


def _compared(tape: Tape, places: Collection[int], video: VideoOptions | None) -> str:
    """Return how many of the frames of a clip were compared with those of the episode."""
    count = len({*range(0, len(tape) + 1, tape.every), len(tape)})
    if video is not None and video.max_frames is not None:
        count = min(count, video.max_frames)
    if not places:
        return "steps only"
    return f"all {len(places)} frames" if tape.pictures.are_all else f"{len(places)} of {count} frames"


def cannot_make(error: Exception) -> RenderError:
    """Return the error that an env cannot be made."""
    return RenderError(f"the env cannot be made again: {_told(error)}")


def _told(error: Exception) -> str:
    return error_text(error) if isinstance(error, FrameError) else f"{error_text(error)}{remedy_for(error)}"


def _picture_of(renderer: Renderer) -> Frame:
    """Return the current frame of the first view."""
    return as_rgb(next(iter(renderer.frames(0).values())))
