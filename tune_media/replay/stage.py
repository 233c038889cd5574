"""Plays the tapes of one recipe, each in a new env, and finds out whether the replays are the episodes.

It imports RLlib only if the function that makes the envs does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tune_media.encoding.encoder import SAME, EncodedVideo, look_of
from tune_media.encoding.frames import Frame, as_rgb
from tune_media.encoding.stills import SHOWS_NOTHING, reason_of
from tune_media.recording.pictures import WHOLE, Pictures
from tune_media.recording.rendering import FrameFunction, Renderer, remedy_for
from tune_media.replay.env_state import EnvState, text_of
from tune_media.replay.generators import Snapshot
from tune_media.replay.leaves import Path as StatePath
from tune_media.replay.player import RenderError, ReplayDiffers, StateCheck, random_step
from tune_media.replay.recipe import Creator, LoadedRecipe, differences, facts_here
from tune_media.replay.rendering import play_tape, raise_if_other, render_tape
from tune_media.replay.tape import Tape
from tune_media.values.medium import joined
from tune_media.values.named_function import named_function
from tune_media.values.options import VideoOptions
from tune_media.values.plain import pack_exactly
from tune_media.values.problems import FrameError
from tune_media.values.secrets import error_text

_STEPS_PER_LINE = 20
_DARK_STEPS = 10
_NOT_THE_EPISODE = (
    "nothing that is known of the machine or of the packages has changed, so the env draws numbers, or keeps a state, "
    "that no seed and no generator of its own reaches"
)
_DRAWS = "render() of the env draws random numbers, so episodes that are rendered are others"

Tell = Callable[..., None]
"""Writes an answer: the contents behind it, and its facts."""


class Stage:
    """Plays the tapes of one recipe.

    Args:
        recipe, env, frame: See ``RenderProcess``.

    Attributes:
        learned: The leaves of the env's state that do not tell one episode from another.
    """

    def __init__(self, recipe: bytes | None, env: Creator | str | None, frame: FrameFunction | str | None) -> None:
        own = named_function(env) if isinstance(env, str) else env
        self._is_own, self._has_own_frame = own is not None, frame is not None
        creator = None if own is None else _taking_config(own)
        if recipe is not None:
            self._recipe = LoadedRecipe.of(recipe, creator)
        else:
            assert creator is not None
            self._recipe = LoadedRecipe(facts_here(), creator, {})
        is_path = isinstance(frame, str) and ":" in frame
        own_frame = named_function(frame) if isinstance(frame, str) and is_path else frame
        self._frame = self._recipe.frame if own_frame is None else own_frame
        self._name = next(reversed(self._recipe.facts.get("wrappers", ())), None)  # as the recorder names the env
        self._edited = ""
        self.learned: set[tuple[str, StatePath]] = set()

    def answer(self, request: dict[str, Any], tell: Tell) -> None:
        """Do what is asked for (``do``: ``check``, ``prove`` or ``render``, and its arguments); write the answer."""
        do = request.pop("do")
        try:
            if "tape" in request:
                request["tape"] = Tape.unpacked(request["tape"])
            if do == "check":
                tell(problem=self.problem())
            elif do == "prove":
                tell(facts=self.prove(**request))
            else:
                clips = self.render(**request, on_step=lambda step, steps: tell(step=step, steps=steps))
                facts = {view: _facts_of(clip) for view, clip in clips.items()}
                contents = [clip.data for clip in clips.values()]
                tell(*contents, clips=facts, nbytes=list(map(len, contents)))
        except RenderError as error:
            tell(error=str(error), at=error.step)
        except Exception as error:
            tell(error=_told(error), at=None)

    def render(
        self,
        tape: Tape,
        video: VideoOptions | None,
        place: tuple[int, int],
        *,
        may_be_edited: bool,
        on_step: Callable[[int, int], None],
    ) -> dict[str, EncodedVideo]:
        """Return the clips of a tape.

        Raises:
            RenderError: The replay is not the episode.
            Exception: Whatever the env raises.
        """
        steps, video, notes = len(tape), video or self._recipe.video, list[str]()

        def tell(step: int) -> None:
            if step % _STEPS_PER_LINE == 0:
                on_step(step, steps)

        def play(check: StateCheck | None) -> dict[str, EncodedVideo]:
            with self._new_env(place, notes if may_be_edited else None) as renderer:
                how: dict[str, Any] = {"env_index": place[1], "on_step": tell, "check": check}
                return render_tape(tape, renderer, video, **how, compares=self._shows_the_same)

        check = self._check(tape)
        try:
            try:
                clips = play(check)
            except ReplayDiffers as error:
                if check is None or error.step or not check.has_changed:
                    raise
                notes.append(f"its env's state from before the episode was not restored: {error}")
                check = None
                clips = play(None)
            if check is not None:
                self._compare_states(tape, place, check)
        except ReplayDiffers as error:
            raise RenderError(self._why(error), error.step) from error
        compared = self._compared(tape, check)
        return {
            view: dataclasses.replace(clip, note=joined(clip.note, *notes), compared=compared)
            for view, clip in clips.items()
        }

    def prove(self, tape: Tape, place: tuple[int, int], *, is_first: bool) -> dict[str, Any]:
        """Compare a replay with the episode; the first time, find out what rendering changes, too.

        Returns:
            The facts of a ``Verdict``.

        Raises:
            RenderError: The replay is not the episode, or the env is another one if it is rendered.
            Exception: Whatever the env raises.
        """
        try:
            check, wants = self._check(tape), tape.pictures.wants
            pictures, seconds, drawn = self._played(tape, place, check, wants)
            raise_if_other(tape, pictures, compares=self._shows_the_same)
            if check is not None:
                self._compare_states(tape, place, check)
            if not is_first or not tape.pictures.are_all:
                return {}
            last, steps = Pictures(), len(tape)
            try:
                last, _, not_drawn = self._played(tape, place, self._check(tape), lambda step: step == steps)
            except ReplayDiffers as error:
                if self._states_without_frames(tape, place) is None:
                    raise ReplayDiffers(steps, f"{_DRAWS} ({error})", is_told=True) from error
                raise
            if others := {name for name in drawn.keys() & not_drawn.keys() if drawn[name] != not_drawn[name]}:
                third = self._states_without_frames(tape, place) or {}
                if any(not_drawn[name] == third.get(name) for name in others):  # else it differs in each play
                    raise ReplayDiffers(steps, _DRAWS, is_told=True)
        except ReplayDiffers as error:
            raise RenderError(self._why(error), error.step) from error
        return {"shows_alone": last.at(steps) == pictures.at(steps), "frame_seconds": seconds}

    def _states_without_frames(self, tape: Tape, place: tuple[int, int]) -> dict[str, str] | None:
        """Return the generators' states after a play that draws the last frame alone; None if it is not the episode."""
        try:
            return self._played(tape, place, self._check(tape), lambda step: step == len(tape))[2]
        except ReplayDiffers:
            return None

    def problem(self) -> str | None:
        """Return why a new env shows no frame after a reset, or nothing on it; None: it shows something."""
        env = self._recipe.make()
        try:
            observation, _ = env.reset(seed=0)
            renderer = Renderer(env, self._frame, name=self._name)
            first = np.array(_picture_of(renderer))
            if (look := look_of(first)) != SAME:
                with contextlib.suppress(Exception):
                    for _ in range(_DARK_STEPS):  # the first frame may be dark
                        observation = random_step(env, observation)
                        renderer.new_step()
                        if not np.array_equal(_picture_of(renderer), first):
                            return None
                    return f"{SHOWS_NOTHING}: {reason_of(look)}"
        except FrameError as error:
            return f"no clip: {error}"  # as the recording of an episode names it
        finally:
            with contextlib.suppress(Exception):
                env.close()
        return None

    @contextlib.contextmanager
    def _new_env(self, place: tuple[int, int], notes: list[str] | None = None) -> Iterator[Renderer]:
        """Make an env, and close it afterwards.

        Args:
            notes: Takes the note that its code was edited. None: it must not have been.
        """
        try:
            env = self._recipe.make(*place)
        except Exception as error:
            raise cannot_make(error) from error
        try:
            edited = [] if self._is_own else self._recipe.edited(env)
            if edited:
                self._edited = f"the code of {', '.join(edited)} was edited since the episode was recorded"
                if notes is None:
                    raise RenderError(self._edited)
                notes.append(self._edited) if self._edited not in notes else None
            yield Renderer(env, self._frame)
        finally:
            with contextlib.suppress(Exception):
                env.close()

    def _check(self, tape: Tape) -> StateCheck | None:
        base = self._recipe.base
        return None if base is None or tape.change is None else StateCheck(base, is_same=self._shows_the_same)

    def _played(
        self, tape: Tape, place: tuple[int, int], check: StateCheck | None, wants: Callable[[int], bool]
    ) -> tuple[Pictures, tuple[float, float], dict[str, str]]:
        """Play a tape without a clip; return its frames, the seconds of a frame, and the generators' states at the end.

        Raises:
            ReplayDiffers: The replay is not the episode.
        """
        _seed_process()
        with self._new_env(place) as renderer:
            _seed_process()  # modules that the env's maker imports the first time may draw
            pictures, seconds = play_tape(tape, renderer, check, wants)
            states = Snapshot(EnvState(renderer.env), with_emulator=False).states
        of_numpy: Any = np.random.get_state(legacy=False)["state"]
        known = {name: pack_exactly(state).hex() for name, state in states.items()}
        known |= {"random": repr(random.getstate()), "numpy": f"{of_numpy['pos']} {of_numpy['key'].tobytes().hex()}"}
        return pictures, seconds, known

    def _compare_states(self, tape: Tape, place: tuple[int, int], check: StateCheck) -> None:
        """Compare the states of an env with those on the tape.

        A difference counts if all replays have it. Of one that only a replay with frames has, rendering is the reason;
        of one that two replays have among themselves, a clock, say.

        Raises:
            ReplayDiffers: The env has ended in another state, so frames may have been others.
        """
        left = check.differing.keys() - self.learned
        if not left or (tape.pictures.are_all and tape.pictures.how == WHOLE and self._shows_the_same):
            return
        replays = []
        for _ in range(2):
            one = self._check(tape)
            assert one is not None
            self._played(tape, place, one, tape.pictures.wants)  # as it was rendered while it was recorded
            replays.append(one.differing)
        real = {path for path in left if replays[0].get(path) == replays[1].get(path) and path in replays[0]}
        self.learned |= left - real
        if real:
            when, path = min(real, key=repr)
            with self._new_env(place) as renderer:
                name = text_of(path[:2], EnvState(renderer.env).layers)
            not_restored = f"; not restored: {', '.join(check.not_restored[:3])}" if check.not_restored else ""
            step = 0 if when == "after" else len(tape)
            raise ReplayDiffers(step, f"has another state than the episode, {name}{not_restored}")

    def _compared(self, tape: Tape, check: StateCheck | None) -> str:
        """Return what of a replay was compared with the episode."""
        told, pictures = ["steps"], tape.pictures
        if check is not None and self._shows_the_same and tape.end is not None:
            base = self._recipe.base
            is_part = check.not_restored or (tape.change and tape.change.left_out) or (base and base.left_out)
            told.append("state in part" if is_part else "state")
        if pictures and self._shows_the_same and pictures.how != "sparse":
            count = sum(1 for _ in pictures.ranges)
            told.append(
                "all pictures"
                if pictures.are_all
                else "last picture"
                if pictures.how != WHOLE and count == 1
                else "pictures"
            )
        return ", ".join(told)

    @functools.cached_property
    def _shows_the_same(self) -> bool:
        """Whether it has the env runner's env, frames, packages and kind of machine: pictures equal to the last bit."""
        is_same = not self._is_own and not self._has_own_frame
        return is_same and not differences(self._recipe.facts, facts_here())

    def _why(self, error: ReplayDiffers) -> str:
        if self._is_own:
            return f"{error}: the env that env= makes does not play this episode"
        changed = [*differences(self._recipe.facts, facts_here()), *filter(None, [self._edited])]
        return f"{error}; {'; '.join(changed) if changed else _NOT_THE_EPISODE}"


def _taking_config(creator: Any) -> Creator:
    """Return a function that takes an ``env_config``, even if the one that it calls takes none."""
    try:
        inspect.signature(creator).bind({})
    except TypeError:
        return lambda config: creator()
    except ValueError:  # written in C
        pass
    found: Creator = creator
    return found


def _seed_process() -> None:
    random.seed(0)
    np.random.seed(0)


def cannot_make(error: Exception) -> RenderError:
    """Return the error that an env cannot be made."""
    return RenderError(f"the env cannot be made again: {_told(error)}")


def _told(error: Exception) -> str:
    return f"{error_text(error)}{remedy_for(error)}"


def _picture_of(renderer: Renderer) -> Frame:
    """Return the current frame of the first view."""
    return as_rgb(next(iter(renderer.frames(0).values())))


def _facts_of(clip: EncodedVideo) -> dict[str, Any]:
    """Return all of a clip but its bytes."""
    return {field.name: getattr(clip, field.name) for field in dataclasses.fields(clip) if field.name != "data"}
