"""Ideas for cheaper frames, each against what the package does today.

An idea is kept if it clearly pays and stays simple. The first table plays CartPole with a torch policy (two layers of
256 units, one thread), as an env runner does; frames are 400x600. The other tables encode frames that were rendered
beforehand.
"""

from __future__ import annotations

import argparse
import multiprocessing
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any

import av
import numpy as np
import torch

from tests.benchmarks.common import compare, show
from tests.benchmarks.recording_envs import frames_of, make_env
from tune_media.encoding import VideoEncoder, decode_video, encode_video

FRAMES, QUEUE, BATCH = 150, 32, 16
PRESETS = ("ultrafast", "superfast", "veryfast", "faster", "medium")


class InThread:
    """Encodes in a thread; ``feed`` copies the frame and waits while the queue is full."""

    def __init__(self, batch: int = 1) -> None:
        self._queue: queue.Queue[Any] = queue.Queue(max(1, QUEUE // batch))
        self._batch, self._waiting = batch, []
        self._encoder = VideoEncoder(50)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def feed(self, frame: np.ndarray) -> None:
        self._waiting.append(frame.copy())
        if len(self._waiting) == self._batch:
            self._queue.put(self._waiting)
            self._waiting = []

    def finish(self) -> None:
        self._queue.put(self._waiting)
        self._queue.put(None)
        self._thread.join()
        self._encoder.finish()

    def _run(self) -> None:
        while (frames := self._queue.get()) is not None:
            for frame in frames:
                self._encoder.feed(frame)


class InProcess:
    """Encodes in a helper process that stays; frames go through a pipe, which holds few of them."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=encode_from, args=(theirs,), daemon=True)
        self._process.start()

    def feed(self, frame: np.ndarray) -> None:
        self._pipe.send(frame.shape)
        self._pipe.send_bytes(memoryview(np.ascontiguousarray(frame)).cast("B"))

    def finish(self) -> None:
        self._pipe.send(None)
        assert self._pipe.recv()

    def close(self) -> None:
        self._pipe.close()
        self._process.join()


def encode_from(pipe: Any) -> None:
    """Encode the clips that come through a pipe, until it is closed."""
    while True:
        encoder = VideoEncoder(50)
        try:
            while (shape := pipe.recv()) is not None:
                encoder.feed(np.frombuffer(pipe.recv_bytes(), np.uint8).reshape(shape))
        except EOFError:
            return
        pipe.send(len(encoder.finish().data))


def policy() -> Callable[[np.ndarray], int]:
    layers = torch.nn.Sequential(
        torch.nn.Linear(4, 256), torch.nn.Tanh(), torch.nn.Linear(256, 256), torch.nn.Tanh(), torch.nn.Linear(256, 2)
    )

    def act(observation: np.ndarray) -> int:
        with torch.no_grad():
            logits = layers(torch.from_numpy(observation)[None])
            return int(torch.distributions.Categorical(logits=logits).sample())

    return act


def beside_a_policy(rounds: int) -> None:
    torch.set_num_threads(1)
    env, act = make_env("CartPole", FRAMES), policy()

    def play(feed: Callable[[np.ndarray], None]) -> None:
        observation, _ = env.reset(seed=0)
        for _ in range(FRAMES):
            feed(env.render())
            observation, *_ = env.step(act(observation))

    def encoded(make: Callable[[], Any]) -> Callable[[], object]:
        def method() -> None:
            encoder = make()
            play(encoder.feed)
            encoder.finish()

        return method

    helper = InProcess()
    methods = {
        "encoded in the sampling thread (today)": encoded(lambda: VideoEncoder(50)),
        "policy and rendering, no clip": lambda: play(lambda frame: None),
        "a thread, a queue of 32 frames": encoded(InThread),
        "a thread, batches of 16 frames": encoded(lambda: InThread(BATCH)),
        "a helper process": encoded(lambda: helper),
        "ultrafast": encoded(lambda: VideoEncoder(50, preset="ultrafast")),
    }
    times = compare(methods, rounds)
    helper.close()
    verdicts = {
        "a thread, a queue of 32 frames": "dropped: no gain where all cores are busy; more CPU time",
        "a thread, batches of 16 frames": "dropped: the same, and more memory",
        "a helper process": "dropped: the same, and a process for each env runner; its CPU time is not in the column",
        "ultrafast": "dropped: clips are larger, see below; preset= has it",
    }
    show(f"Encoding {FRAMES} frames beside a torch policy", times, more={"verdict": verdicts})


def encode(frames: Iterable[np.ndarray], **options: Any) -> int:
    return len(encode_video(frames, 50, **options).data)


def second_pass(frames: list[np.ndarray], rounds: int) -> None:
    """Ten candidates, one of which wins."""

    def two_passes() -> None:
        clips = [encode_video(frames, 50, preset="ultrafast", crf=12) for _ in range(10)]
        encode(decode_video(clips[0].data))

    methods = {
        "ten candidates, veryfast (today)": lambda: [encode(frames) for _ in range(10)],
        "ten candidates, ultrafast, and a second pass for the winner": two_passes,
    }
    second = encode(decode_video(encode_video(frames, 50, preset="ultrafast", crf=12).data))
    sizes = {name: f"{size / 1000:.0f}" for name, size in zip(methods, (encode(frames), second), strict=True)}
    verdict = dict.fromkeys(list(methods)[1:], "dropped: render='replay' renders and encodes the winner only")
    show(
        "A second pass for winners, CartPole",
        compare(methods, rounds),
        more={"kB of the winner": sizes, "verdict": verdict},
    )


def skipping(frames: list[np.ndarray], rounds: int) -> None:
    """Three of four frames are the same as the one before: the best case."""
    repeated = [frame for frame in frames[::4] for _ in range(4)]

    def differing(given: list[np.ndarray]) -> int:
        kept = [given[0]]
        for frame in given[1:]:
            if not np.array_equal(frame, kept[-1]):
                kept.append(frame)
        return encode(kept)

    methods = {
        "frames that all differ, all encoded (today)": lambda: encode(frames),
        "frames that all differ, each compared with the last": lambda: differing(frames),
        "three of four frames repeated, all encoded (today)": lambda: encode(repeated),
        "three of four frames repeated, and skipped": lambda: differing(repeated),
    }
    verdict = {
        "three of four frames repeated, and skipped": "dropped: envs seldom repeat frames, and a clip of fewer frames "
        "has no fixed step; every= saves the rendering, too"
    }
    show("Skipping identical frames, CartPole", compare(methods, rounds), more={"verdict": verdict})


def conversion(frames: list[np.ndarray], rounds: int) -> None:
    pictures = [av.VideoFrame.from_ndarray(frame, format="rgb24") for frame in frames]

    def each(*passes: dict[str, Any]) -> Callable[[], object]:
        def method() -> None:
            for picture in pictures:
                for options in passes:
                    picture = picture.reformat(**options)

        return method

    size = {"width": 240, "height": 160, "interpolation": "AREA"}
    methods = {
        "scaled and converted in one pass (today)": each({**size, "format": "yuv420p"}),
        "scaled as RGB, then converted": each({**size, "format": "rgb24"}, {"format": "yuv420p"}),
        "converted, then scaled": each({"format": "yuv420p"}, {**size, "format": "yuv420p"}),
    }
    verdict = dict.fromkeys(list(methods)[1:], "dropped: slower")
    verdict["scaled and converted in one pass (today)"] = "kept"
    show(f"{len(frames)} frames from 400x600 to 160x240", compare(methods, rounds), more={"verdict": verdict})


def presets(name: str, frames: list[np.ndarray], rounds: int) -> None:
    order = ["veryfast", *(preset for preset in PRESETS if preset != "veryfast")]
    methods = {preset: lambda preset=preset: encode(frames, preset=preset) for preset in order}
    sizes = {preset: f"{encode(frames, preset=preset) / 1000:.1f}" for preset in methods}
    verdict = {"veryfast": "kept as the default"}
    show(
        f"x264 presets, {len(frames)} frames of {name}",
        compare(methods, rounds),
        more={"kB": sizes, "verdict": verdict},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    beside_a_policy(rounds)
    cartpole = frames_of("CartPole", FRAMES)
    second_pass(cartpole, min(rounds, 3))
    skipping(cartpole, rounds)
    conversion(cartpole, rounds)
    presets("CartPole, 400x600", cartpole, rounds)
    for name, count in {"Breakout": FRAMES, "HalfCheetah": 15}.items():
        try:
            frames = frames_of(name, count)
        except Exception as error:
            print(f"\n{name} is left out: {type(error).__name__}: {error}")
            continue
        height, width = frames[0].shape[:2]
        presets(f"{name}, {height}x{width}", frames, rounds)


if __name__ == "__main__":
    main()
