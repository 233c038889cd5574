"""The recipe of an env: all that it takes to make the env again, in another process, now or years later.

It holds the function that makes the env, pickled, so reading it runs code. It is a separate file,
``<experiment>/media_recipes/<hash>.pickle``, that tapes name by its hash, and only the process that plays them reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import io
import os
import pickle
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typing_extensions import override

from tune_media._version import __version__
from tune_media.ray_compat import cloudpickle
from tune_media.recording.overlay_lines import by_name
from tune_media.recording.rendering import GYM_EXAMPLE, RLLIB_EXAMPLE, FrameSource, describe, inside
from tune_media.replay.generators import classes_of
from tune_media.replay.own_code import code_hashes
from tune_media.values.options import VideoOptions

MAX_BYTES = 2**20  # of a recipe, which travels with the episodes of a round; a larger ``env_config`` holds data
VERSION = 3
# the environment variables that decide how an env renders
ENVIRONMENT = ("MUJOCO_GL", "PYOPENGL_PLATFORM", "SDL_VIDEODRIVER", "EGL_PLATFORM", "LIBGL_ALWAYS_SOFTWARE")
_PACKAGES = ("numpy", "gymnasium", "ray", "mujoco", "ale_py", "pygame", "Box2D", "pettingzoo", "minigrid", "OpenGL")
_INSTALLED = (sys.prefix, sys.base_prefix)  # packages are looked for where they are installed by then
_CPU_FLAGS = ("avx2", "fma", "avx512f")  # of those that libm and MuJoCo choose their code by

Creator = Callable[[Any], Any]  # makes an env from an ``env_config``


class EnvConfig(dict[str, Any]):
    """RLlib's ``EnvContext`` if RLlib is not imported; ``num_workers`` counts the remote env runners."""

    def __init__(
        self, config: Mapping[str, Any], worker_index: int = 0, vector_index: int = 0, num_workers: int = 0
    ) -> None:
        super().__init__(config)
        self.worker_index, self.vector_index, self.num_workers = worker_index, vector_index, num_workers
        self.remote = self.recreated_worker = False

    def set_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Add the keys that are missing."""
        for key, value in defaults.items():
            self.setdefault(key, value)


@dataclass(frozen=True)
class FromKeywords:
    """Makes an env by a function that takes an ``env_config`` as keywords, such as ``gymnasium.make``."""

    function: Callable[..., Any]
    first: Any

    def __call__(self, config: Mapping[str, Any]) -> Any:
        """Make an env."""
        return self.function(self.first, **config)


@dataclass(frozen=True)
class Recipe:
    """A recipe as it is stored."""

    hash: str  # the first 16 digits of its SHA-256
    content: bytes  # of its file

    @classmethod
    def of(
        cls,
        creator: Creator,
        config: Mapping[str, Any],
        env: Any = None,
        *,
        num_workers: int = 0,
        frame: FrameSource = None,
        video: VideoOptions | None = None,
        example: str = GYM_EXAMPLE,
    ) -> Recipe:
        """Note a recipe; ``env``, if there is one, gives the names of its wrappers. ValueError above ``MAX_BYTES``.

        ``example``: as ``Renderer`` has it.

        >>> recipe = Recipe.of(FromKeywords(dict, {}), {"size": 5})
        >>> LoadedRecipe.of(recipe.content).make()
        {'size': 5}
        """
        fields = {"version": VERSION, "facts": facts_here(env), "num_workers": num_workers, "example": example}
        parts = {"creator": creator, "config": dict(config), "frame": frame, "video": by_name(video)}
        fields |= {name: _pickled(part) for name, part in parts.items()}
        content = pickle.dumps(fields, protocol=4)
        return cls(hashlib.sha256(content).hexdigest()[:16], content)


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe that can make envs. Reading one runs the code that is in it."""

    facts: Mapping[str, Any]  # where it was noted, see ``facts_here``
    make_env: Creator
    config: Mapping[str, Any]
    num_workers: int = 0  # the number of remote env runners
    frame: FrameSource = None  # the recorder's source of frames, ``render()`` by default
    video: VideoOptions | None = None  # of the recorder's clips, with names for functions, or None if not known
    example: str = GYM_EXAMPLE  # how its user sets the render mode

    @classmethod
    def of(cls, content: bytes, creator: Creator | None = None) -> LoadedRecipe:
        """Read a recipe, and set the environment variables of rendering that are not set.

        ``creator`` makes the envs instead. Raises ValueError, or whatever importing its modules raises.
        """
        fields = pickle.loads(content)
        if not isinstance(fields, dict) or "creator" not in fields:
            raise ValueError("this is no recipe of an env")
        if fields["version"] != VERSION:
            raise ValueError(f"the recipe has version {fields['version']}, and this tune_media reads {VERSION}")
        for name, value in fields["facts"]["environment"].items():
            os.environ.setdefault(name, value)
        sys.path += [path for path in fields["facts"]["path"] if path not in sys.path and Path(path).is_dir()]
        make_env = pickle.loads(fields["creator"]) if creator is None else creator
        config, frame, video = (pickle.loads(fields[name]) for name in ("config", "frame", "video"))
        example = fields.get("example", RLLIB_EXAMPLE) if creator is None else GYM_EXAMPLE  # older ones have none
        return cls(fields["facts"], make_env, config, fields["num_workers"], frame, video, example)

    def edited(self, env: Any) -> list[str]:
        """Return the user's modules, loaded by making an env, of which a function was edited since the recording."""
        then = self.facts["sources"]
        if not then or self.facts["versions"]["python"] != platform.python_version():
            return []
        now = code_hashes(classes_of(env))
        edited = (name.partition(":")[0] for name in then if now.get(name, then[name]) != then[name])
        return list(dict.fromkeys(edited))

    def make(self, env_runner: int = 0, env_index: int = 0, **overrides: Any) -> Any:
        """Return a new env, as this env runner made this sub-env, with some keys of the ``env_config`` replaced."""
        config = {**self.config, **overrides}
        if isinstance(self.make_env, FromKeywords) and self.make_env.function.__name__ == "make":
            config.setdefault("render_mode", "rgb_array")  # an env that was not rendered while it was recorded
        place = {"worker_index": env_runner, "vector_index": env_index, "num_workers": self.num_workers}
        rllibs = sys.modules.get("ray.rllib.env.env_context")  # loaded if the creator needs RLlib
        return self.make_env(EnvConfig(config, **place) if rllibs is None else rllibs.EnvContext(config, **place))


def facts_here(env: Any = None) -> dict[str, Any]:
    """Return the facts that decide how an env plays and looks in this process: versions, CPU, system, rendering.

    >>> sorted(facts_here())
    ['cpu', 'environment', 'libm', 'os', 'path', 'sources', 'versions', 'wrappers']
    """
    layers = [] if env is None else list(inside(env))
    modules = {*_PACKAGES, *(type(layer).__module__.partition(".")[0] for layer in layers)}
    versions = {name: _version_of(name) for name in sorted(modules) if name in sys.modules}
    return {
        "versions": {"python": platform.python_version(), "tune_media": __version__, **versions},
        "cpu": _cpu(),
        "os": platform.platform(),
        "libm": " ".join(platform.libc_ver()),
        "environment": {name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
        "sources": {} if env is None else code_hashes(classes_of(env)),
        "wrappers": [*(type(layer).__name__ for layer in layers[:-1]), *([describe(env)] if layers else [])],
        "path": [path for path in sys.path if Path(path).is_absolute() and not path.startswith(_INSTALLED)],
    }


def facts_of_renderer() -> dict[str, Any]:
    """Return the facts of a process that renders and has not made an env: packages count that it would import."""
    facts = facts_here()
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            facts["versions"].setdefault(name, importlib.metadata.version(name))
    return facts


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences of two places as text, those first that most likely change how an env plays."""
    names = {"cpu": "CPU", "libm": "C library", "os": "operating system"}
    others = [name for name in names if then.get(name) != now.get(name)]
    texts = [f"other {names[name]} (then {then.get(name)}, now {now.get(name)})" for name in others]
    texts += updates(then, now)
    before, after = then.get("environment", {}), now.get("environment", {})
    changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return texts + [f"{name}={before.get(name, '')}, now {after.get(name, 'not set')}" for name in changed]


def updates(then: Mapping[str, Any], now: Mapping[str, Any], but: str = "") -> list[str]:
    """Return the packages, but one, of which two places have other versions, as text."""
    before, after = then.get("versions", {}), now.get("versions", {})
    changed = [name for name in before if after.get(name, before[name]) != before[name] and name != but]
    return [f"{name} {before[name]}, now {after[name]}" for name in changed]


_PICKLED: dict[int, tuple[Any, bytes]] = {}  # by the id of a class or function, whose own state changes its pickle


def _pickled(value: Any) -> bytes:
    cached = _PICKLED.get(id(value))
    if cached is not None:
        return cached[1]
    file = _BoundedFile()
    cloudpickle().dump(value, file)
    if isinstance(value, type) or inspect.isroutine(value):
        _PICKLED[id(value)] = value, file.getvalue()
    return file.getvalue()


class _BoundedFile(io.BytesIO):
    """Takes ``MAX_BYTES``: an ``env_config`` of 800 MB is not copied to find out that it is too large."""

    @override
    def write(self, content: Any) -> int:
        if self.tell() + memoryview(content).nbytes > MAX_BYTES:
            raise ValueError(f"the function that makes the env, and its env_config, take more than {MAX_BYTES:,} bytes")
        return super().write(content)


def _version_of(module: str) -> str:
    version = getattr(sys.modules.get(module), "__version__", None)
    if version is None:
        with contextlib.suppress(Exception):
            version = importlib.metadata.version(module)
    return str(version)


def _cpu() -> str:
    """Return the CPU's model, and those of its instructions that change the last digits of results."""
    model, flags = platform.processor() or platform.machine(), ""
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                model = value.strip()
            elif name.strip() in ("flags", "Features"):
                flags = " ".join(flag for flag in _CPU_FLAGS if flag in value.split())
            if not line.strip():
                break
    return f"{model}, {flags}" if flags else model
