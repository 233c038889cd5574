"""Renders the frames of any env, its wrappers, or one sub-env of a vector env, however it is vectorised.

If only the vector env can be rendered, one call makes the frames of all its sub-envs, at most once a vector step.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tune_media.values.checks import as_shown, did_you_mean
from tune_media.values.convert import as_array
from tune_media.values.foreign import of_type
from tune_media.values.installing import pip_install
from tune_media.values.problems import FrameError
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)

FrameFunction = Callable[[Any], Any]  # gets an env, returns its current frame (HWC uint8), or several as a dict by name
# a function of the env, the name of one of its methods, or a dict of these by view; ``render()`` if None
FrameSource = FrameFunction | str | Mapping[str, FrameFunction | str] | None
Frames = dict[str, Any]  # the current frames of one env by the name of their view; that of the only one is empty

GYM_EXAMPLE = "gymnasium.make('CartPole-v1', render_mode='rgb_array')"
RLLIB_EXAMPLE = "config.environment(env_config={'render_mode': 'rgb_array'})"
_SYNC = (
    "make the sub-envs one by one (gymnasium.make_vec with vectorization_mode='sync', in RLlib "
    "gym_env_vectorize_mode='sync')"
)
_GL_WORDS = re.compile(  # of libraries that cannot draw with OpenGL or in a window; «display» alone may be any env's
    r"\b(glfw\w*|(lib)?egl\w*|(lib)?osmesa\w*|\w*opengl\w*|x11|\w*gladload\w*|framebuffer|gl context"
    r"|(video|display|open|no)\W+(display|device|driver))\b",
    re.IGNORECASE,
)
_OF_ARRAYS = (ValueError, TypeError, LookupError, ArithmeticError)  # of an env that draws with NumPy, whatever it says
_PACKAGE_OF = {
    "pygame": "pip install 'gymnasium[classic-control]'",
    "Box2D": "pip install 'gymnasium[box2d]'",
    "mujoco": "pip install 'gymnasium[mujoco]'",
    "ale_py": "pip install ale-py",
}
_EXTRA_OF = {"gymnasium": "gym", "ray": "rllib"}  # asked for by an env of theirs
DEFAULT_FPS = 30.0
_MIN_FPS, _MAX_FPS = 0.1, 1000.0  # of an env's metadata
_CHANNELS = (1, 3, 4)
_A_FRAME = "one array of uint8, height x width x channels"
_FPS_KEYS = ("render_fps", "video.frames_per_second")  # of Gymnasium, and of old Gym
FRAME_MODE = "rgb_array"
_VECTOR_CLASSES = frozenset({"VectorEnv", "VectorMultiAgentEnv"})  # Gymnasium's and RLlib's, neither imported here
ONLY_VIEW = ""
_MAX_WRAPPERS = 64
_SPACES = ("observation_space", "observation_spaces", "possible_agents")  # one of them, an env has
_OWN_ENTROPY = 2**63  # an unseeded generator states 128 random bits


class Renderer:
    """Renders the sub-envs of one env. Raises FrameError if ``frame`` is a function and the sub-envs are out of reach.

    ``example`` shows in messages how a user of this framework sets the render mode.
    """

    def __init__(
        self, env: Any, frame: FrameSource = None, example: str = RLLIB_EXAMPLE, *, name: str | None = None
    ) -> None:
        self.env, self._example = env, example
        self._name = name or describe(env)
        views = frame if isinstance(frame, Mapping) else {ONLY_VIEW: "render" if frame is None else frame}
        self._views: dict[str, FrameFunction | str] = dict(views)
        self._whole: dict[str, Any] = {}  # by method: all frames of this vector step
        self._depth: dict[tuple[str, int], int] = {}  # by method and sub-env: how deep in its wrappers it works
        self._asked: int | None = None  # the sub-env that was asked for last
        self.set_fps: float | None = None  # instead of those of the env's metadata
        if any(not isinstance(view, str) for view in self._views.values()) and sub_env(env, 0) is None:
            raise FrameError(
                f"frame= is a function of the sub-env, and the sub-envs of {describe(env)} are in other processes or "
                f"in one batch. Pass the name of a method of the env instead, for example frame='render', or {_SYNC}."
            )

    def frames(self, index: int) -> Frames:
        """Return the current frames of a sub-env; or a FrameError that names the env and the remedy."""
        frames: Frames = {}
        for name, view in self._views.items():
            picture = self._picture(view, index)
            if isinstance(picture, Mapping):  # one call gave several: a frame for each agent, for example
                frames |= {f"{name}/{key}".strip("/"): self._checked(value, view) for key, value in picture.items()}
            else:
                frames[name] = self._checked(picture, view)
        if not frames:
            raise FrameError(f"env {self._name}: frame= returned an empty dict; return at least one frame")
        return frames

    def at(self, index: int) -> None:
        """Note which sub-env is being stepped; when they start over, a new vector step has been made."""
        if self._asked is None or index <= self._asked:
            self.new_step()
        self._asked = index

    def new_step(self) -> None:
        """Note that the env has been stepped or reset: frames that were made before are old."""
        self._whole.clear()
        self._asked = None

    def fps(self, index: int) -> float:
        """Frames per second: those that were set, or that the env's metadata state, or 30."""
        if self.set_fps is not None:
            return self.set_fps
        reachable = sub_env(self.env, index)
        for env in inside(self.env if reachable is None else reachable):
            metadata = getattr(env, "metadata", None)
            stated: list[Any] = [metadata.get(key) for key in _FPS_KEYS] if isinstance(metadata, Mapping) else []
            for fps in stated:
                with contextlib.suppress(TypeError, ValueError):  # None, say
                    if not isinstance(fps, (bool, np.bool_)) and _MIN_FPS <= float(fps) <= _MAX_FPS:
                        return float(fps)
                if fps is not None:
                    _warn_of_speed(self._name, as_shown(fps))
        return DEFAULT_FPS

    def _picture(self, view: FrameFunction | str, index: int) -> Any:
        try:
            reachable = sub_env(self.env, index)
            if not isinstance(view, str):
                return view(reachable)
            if reachable is not None:
                return self._call(reachable, view, index)
            if view not in self._whole:
                base = getattr(self.env, "unwrapped", self.env)
                self._whole[view] = base.call(view) if hasattr(base, "call") else getattr(base, view)()
            return self._part_of(self._whole[view], index, view)
        except FrameError:
            raise
        except Exception as error:
            raise FrameError(
                f"env {self._name}: {_call_name(view)} raised {error_text(error)}"
                f"{remedy_for(error) or self._remedy_of_inner_envs(view) or self._try_it()}"
            ) from error

    def _part_of(self, pictures: Any, index: int, method: str) -> Any:
        """Return the picture of one sub-env, of all that one call of the vector env returned. Raises FrameError."""
        count = int(getattr(self.env, "num_envs", 1))
        if pictures is None:
            return None
        if not isinstance(pictures, (list, tuple, Mapping)):
            pictures = as_array(pictures)
        is_many = isinstance(pictures, (list, tuple)) or (isinstance(pictures, np.ndarray) and pictures.ndim == 4)
        number = len(pictures) if is_many else 1
        if is_many and number == count:
            return pictures[index]
        if number == 1 and index == 0:  # it may show any of the sub-envs, or all
            return pictures
        came = "one picture" if number == 1 else f"{number} pictures"
        raise FrameError(
            f"env {self._name} returned {came} from {method}() for its {count} sub-envs, so nothing says what each "
            f"of them looks like. Let {method}() return a list of {count} frames, or {_SYNC}."
            + (" Only the clips of sub-env 0 show the one picture, as it is: env_indices=[0]." * (number == 1))
        )

    def _call(self, env: Any, method: str, index: int) -> Any:
        """Call a method of an env, or of the first env inside it that has it and takes the call.

        RLlib's PettingZoo wrappers pass a render mode to envs that take none, and not every wrapper passes methods on.
        """
        envs = list(inside(env))
        if method == "render":
            envs = envs[_depth_of_frames(envs) :]
        if (method, index) in self._depth:  # an exception from now on is the env's own
            return getattr(envs[self._depth[method, index]], method)()
        failure: Exception | None = None
        for depth, candidate in enumerate(envs):
            function = getattr(candidate, method, None)
            if function is None:
                continue
            try:
                picture = function()
            except (TypeError, AttributeError, NotImplementedError) as error:
                failure = failure or error
                continue
            if picture is not None:
                self._depth[method, index] = depth
                return picture
        if failure is not None:
            raise failure
        check_method(self._name, envs, method)
        return None

    def _checked(self, picture: Any, view: FrameFunction | str) -> Any:
        """Return a frame if it can be encoded. Raises FrameError."""
        if isinstance(picture, (list, tuple)) and len(picture) == 1:
            picture = picture[0]
        came = f"env {self._name} returned {{}} from {_call_name(view)}"
        if picture is None or isinstance(picture, (list, tuple, str)):
            kind = "None" if picture is None else f"{of_type(picture)} instead of one frame"
            raise FrameError(f"{came.format(kind)}. {self._mode_remedy(view)}.{self._try_it()}")
        array = as_array(picture)
        if array.ndim == 4 and len(array) == 1:
            array = array[0]
        if array.ndim == 0 or array.dtype.kind not in "biuf":
            kind = f"{type(picture).__name__!r} object" if array.ndim == 0 else f"array of {array.dtype}"
            is_surface = type(picture).__module__.startswith("pygame")
            remedy = _instead("pygame.surfarray.array3d({}).transpose(1, 0, 2)", view) if is_surface else ""
            raise FrameError(f"{came.format(f'one {kind}')}; a frame is {_A_FRAME}{remedy and f': {remedy}'}.")
        shape = f"an array of shape {array.shape}"
        if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in _CHANNELS) or 0 in array.shape:
            remedy = _shape_remedy(array.shape, view)
            raise FrameError(f"{came.format(shape)}; a frame is height x width x channels, with 1, 3 or 4: {remedy}.")
        if array.dtype != np.uint8:
            remedy = _values_remedy(array, view)
            text = came.format(f"{array.dtype} of shape {array.shape}")
            raise FrameError(f"{text}; a frame is uint8 in 0..255: {remedy}.")
        return array

    def _mode_remedy(self, view: FrameFunction | str) -> str:
        """Return the remedy for an env that shows nothing, or many pictures at once."""
        if not isinstance(view, str):
            return f"Let frame= return {_A_FRAME}"
        mode = getattr(sub_env(self.env, 0) or self.env, "render_mode", None)
        if view == "render" and mode != FRAME_MODE:
            create = "Create" if mode is None else f"Its render_mode is {mode!r}: create"
            return f"{create} it with render_mode='rgb_array', for example {self._example}"
        has_mode = f"Its render_mode is {FRAME_MODE!r} already: let" if view == "render" else "Let"
        return f"{has_mode} {view}() return {_A_FRAME}"

    def _remedy_of_inner_envs(self, view: FrameFunction | str) -> str:
        """Return the remedy for an env that asks several envs inside it for frames, which have no mode for them."""
        envs = getattr(sub_env(self.env, 0), "envs", None)
        if view != "render" or not isinstance(envs, list) or not envs:
            return ""
        if all(getattr(env, "render_mode", None) == FRAME_MODE for env in envs):
            return ""
        return (
            ". Make the envs inside it with render_mode='rgb_array'. env_config does not reach those that RLlib's "
            "make_multi_agent makes of an id: pass it lambda config: gymnasium.make('CartPole-v1', "
            "render_mode='rgb_array') instead of 'CartPole-v1'"
        )

    def _try_it(self) -> str:
        """Return the command that tries a recording of this env, as the end of a message, or nothing."""
        base, id = _innermost(self.env)
        kind = type(base)
        is_hidden = kind.__module__ == "__main__" or "<" in kind.__qualname__ or kind.__module__.startswith("ray.")
        if id is None and is_hidden:
            return ""
        return f" To check it: tune-media doctor {id or f'{kind.__module__}:{kind.__qualname__}'}"


def _shape_remedy(shape: tuple[int, ...], view: FrameFunction | str) -> str:
    """Return the remedy for an array whose shape is not that of a picture."""
    if 0 in shape:
        return "this one is empty, so nothing was drawn"
    if len(shape) == 4:
        return f"these are {shape[0]} pictures; {_instead('{}[0]', view)}, or let frame= return a dict of them by name"
    if len(shape) == 3 and shape[0] in _CHANNELS:
        return f"for channels first, {_instead('{}.transpose(1, 2, 0)', view)}"
    if len(shape) == 3:
        few = "..., :3" if shape[2] > max(_CHANNELS) else "..., 0"
        return f"this one has {shape[2]}; {_instead(f'{{}}[{few}]', view)}"
    return f"this has {len(shape)} dimension{'s' * (len(shape) > 1)}, and is no picture"


def _values_remedy(array: np.ndarray[Any, Any], view: FrameFunction | str) -> str:
    """Return the remedy for a picture whose values are not uint8."""
    if not np.isfinite(array).all():
        return "some of its values are NaN or infinite; let it return numbers"
    low, high = array.min(), array.max()
    if low < 0 or high > 255:
        scaled = _instead("{}.clip(0, 255).astype('uint8')", view)
        return f"its values are from {low:.6g} to {high:.6g}, so scale them, or cut them off: {scaled}"
    if high > 1:
        return _instead("{}.astype('uint8')", view)
    scaled = _instead("(255 * {}).astype('uint8')", view)
    return f"if the values are in 0..1, {scaled}"


def _instead(expression: str, view: FrameFunction | str) -> str:
    """Return how to change the recorded picture, which is ``{}`` in the expression."""
    if isinstance(view, str):
        return f"pass frame=lambda env: {expression.format(f'env.{view}()')}"
    return f"let frame= return {expression.format('picture')}"


@functools.lru_cache(64)
def _warn_of_speed(name: str, stated: str) -> None:
    logger.warning(
        "env %s states %s frames per second in its metadata; its clips have %g. Pass video=VideoOptions(fps=...), or "
        'set metadata["render_fps"] to a number from %g to %g.',
        *(name, stated, DEFAULT_FPS, _MIN_FPS, _MAX_FPS),
    )


def check_method(name: str, envs: Sequence[Any], method: str) -> None:
    """Check that an env has a method that ``frame`` names. Raises FrameError."""
    if not any(hasattr(env, method) for env in envs):
        kind = type(envs[-1])  # asking the env for its properties might change it
        there = [attr for attr in dir(kind) if not attr.startswith("_") and callable(getattr(kind, attr, None))]
        hint = did_you_mean(method, there, "it has")
        raise FrameError(f"env {name} has no method {method!r}, which frame= names; {hint}")


def remedy_for(error: Exception) -> str:
    """Return the remedy for an exception that envs are known to raise, as the end of a message; empty if unknown."""
    text = f"{error}"
    missing = getattr(error, "name", "") or ""
    if missing in _EXTRA_OF:  # not in the text of others, which name Gymnasium as their own package
        return ". Install it: " + pip_install(_EXTRA_OF[missing])
    for package, command in _PACKAGE_OF.items():
        if package in (missing.split(".")[0], *text.replace("'", " ").replace("`", " ").split()):
            return f". Install it: {command}"
    if isinstance(error, TypeError) and "render()" in text and "'mode'" in text:  # an env of old Gym
        return ". Pass frame=lambda env: env.unwrapped.render(mode='rgb_array')"
    if _GL_WORDS.search(text) and not isinstance(error, _OF_ARRAYS):
        return (
            ". If there is no display here, then before Ray is started, set MUJOCO_GL=egl (GPU) or MUJOCO_GL=osmesa "
            "(Debian's libosmesa6), or SDL_VIDEODRIVER=offscreen for pygame"
        )
    return ""


def sub_env(env: Any, index: int) -> Any | None:
    """Return the sub-env with this index, or None if it is out of reach (another process, one batched env)."""
    envs = sub_envs(env)
    return envs[index] if index < len(envs) else None


def sub_envs(env: Any) -> list[Any]:
    """Return all sub-envs that are in reach; those of a single env are itself."""
    if hasattr(env, "get_sub_environments") and not hasattr(env, "reset"):  # the old API stack's BaseEnv
        return [inner for inner in env.get_sub_environments() if not is_actor(inner)]
    if is_actor(env):
        return []
    base = getattr(env, "unwrapped", env)
    if not _has_vector_class(type(base).__mro__):
        return [env]
    return list(getattr(base, "envs", None) or ())


@functools.lru_cache(64)
def _has_vector_class(classes: tuple[type, ...]) -> bool:
    return not _VECTOR_CLASSES.isdisjoint(vector_class.__name__ for vector_class in classes)


def is_actor(env: Any) -> bool:
    """Return whether an env is the handle of a Ray actor that steps it (``remote_worker_envs`` of RLlib)."""
    return hasattr(getattr(env, "step", None), "remote")


def describe(env: Any) -> str:
    """Name an env as its user would."""
    base, id = _innermost(env)
    return repr(type(base).__name__ if id is None else id)


def _innermost(env: Any) -> tuple[Any, str | None]:
    """Return the first sub-env without its wrappers, and the id with which a user makes it, or None."""
    inner = sub_env(env, 0)
    base = getattr(env if inner is None else inner, "unwrapped", env)
    id = getattr(getattr(base, "spec", None), "id", None)
    return base, None if id is None or id.startswith("rllib-") else str(id)


def reset_seed(env: Any) -> int | None:
    """Return the seed that an env's generator was last given, if the env knows it."""
    # Gymnasium's public np_random_seed makes a new generator if the env has set its own, and so changes its episodes
    seed = getattr(getattr(env, "unwrapped", None), "_np_random_seed", None)
    return int(seed) if isinstance(seed, (int, np.integer)) and 0 <= seed < _OWN_ENTROPY else None


def renders_inside(env: Any) -> bool:
    """Return whether an env with ``render_mode="rgb_array_list"`` has one inside it that renders a frame at a time."""
    return _depth_of_frames(list(inside(sub_env(env, 0) or env))) > 0


def _depth_of_frames(envs: Sequence[Any]) -> int:
    """Return how deep in its wrappers an env renders single frames, below a ``RenderCollection``, which empties."""
    if getattr(envs[0], "render_mode", None) != f"{FRAME_MODE}_list":
        return 0
    return next((index for index, layer in enumerate(envs) if getattr(layer, "render_mode", None) == FRAME_MODE), 0)


def inside(env: Any) -> Iterator[Any]:
    """Yield an env and, one after the other, the envs that it wraps."""
    seen: set[int] = set()
    while env is not None and id(env) not in seen and len(seen) < _MAX_WRAPPERS:
        seen.add(id(env))
        yield env
        env = _inner(env)


def _inner(env: Any) -> Any:
    """Return the env that an env wraps: its ``env``, or another attribute that is an env, as PettingZoo has it."""
    for name in ("par_env", "env"):
        try:  # contextlib.suppress would take a microsecond
            inner = getattr(env, name, None)
        except Exception:  # a property of the user's
            continue
        if inner is not None and inner is not env:
            return inner
    for value in list((getattr(env, "__dict__", None) or {}).values()):
        acts_like_one = value is not env and _acts_like_an_env(type(value))  # type: ignore[arg-type]
        if acts_like_one and any(hasattr(value, name) for name in _SPACES):
            return value
    return None


@functools.lru_cache(4096)
def _acts_like_an_env(kind: type) -> bool:
    """Return whether a class has an env's methods, of whichever library; our own taps have some of them, too."""
    has_all = all(callable(getattr(kind, name, None)) for name in ("reset", "step", "render"))
    return has_all and not str(kind.__module__).startswith("tune_media.")


def _call_name(view: FrameFunction | str) -> str:
    return f"{view}()" if isinstance(view, str) else "frame="
