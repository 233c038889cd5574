"""The cost of recording an episode, compared with rendering it, and the cost of scaling.

Run it with ``python -m tests.benchmarks.bench_encoding``.
"""

from __future__ import annotations

import io
import tracemalloc

import av
import gymnasium as gym
import numpy as np
from PIL import Image as PILImage

from tests.benchmarks.common import compare, show
from tune_media.encoding import VideoEncoder, encode_video, gif_from_video, resize

FRAMES = 200


def play(env, use) -> None:
    env.reset(seed=0)
    for _ in range(FRAMES):
        use(env.render())
        if any(env.step(env.action_space.sample())[2:4]):
            env.reset()


def recording(env) -> None:
    def floor():
        play(env, lambda frame: None)

    def streaming():
        encoder = VideoEncoder(50)
        play(env, encoder.feed)
        encoder.finish()

    def streaming_small():
        encoder = VideoEncoder(50, height=64, width=96)
        play(env, encoder.feed)
        encoder.finish()

    def list_then_encode():
        frames = []
        play(env, lambda frame: frames.append(frame.copy()))
        encode_video(np.stack(frames), 50)

    methods = {
        "render alone (the floor)": floor,
        "tune_media, encoded as it is rendered": streaming,
        "the same at 64x96": streaming_small,
        "list, stack, encode at the end": list_then_encode,
    }
    show(f"CartPole 400x600, {FRAMES} frames rendered and recorded", compare(methods))
    for name, method in methods.items():
        tracemalloc.start()
        method()
        print(f"peak of Python's memory, {name}: {tracemalloc.get_traced_memory()[1] / 1e6:.1f} MB")
        tracemalloc.stop()


def pillow_gif(frames: list) -> bytes:
    shown = [PILImage.fromarray(frame).resize((320, 213)) for frame in frames[::4]]
    file = io.BytesIO()
    shown[0].save(file, "GIF", save_all=True, append_images=shown[1:], duration=80, loop=0)
    return file.getvalue()


def gifs(env) -> None:
    frames: list = []
    play(env, lambda frame: frames.append(frame.copy()))
    data = encode_video(frames, 50).data
    methods = {
        "tune_media, GIF of the finished mp4": lambda: gif_from_video(data),
        "Pillow, GIF of the frames, scaled alike": lambda: pillow_gif(frames),
    }
    show("A GIF for TensorBoard", compare(methods, rounds=3))


def scaling() -> None:
    rng = np.random.default_rng(0)
    frame = np.kron(rng.integers(0, 255, (50, 75, 3), np.uint8), np.ones((8, 8, 1), np.uint8))
    exact = frame[:384, :576].reshape(64, 6, 96, 6, 3).mean(axis=(1, 3))
    cut = np.ascontiguousarray(frame[:384, :576])

    def pillow(how):
        return np.asarray(PILImage.fromarray(cut).resize((96, 64), how))

    def libav(how):
        picture = av.VideoFrame.from_ndarray(cut, format="rgb24")
        return picture.reformat(96, 64, interpolation=how).to_ndarray(format="rgb24")

    methods = {
        "PyAV area (ours)": lambda: resize(cut, 64, 96),
        "PyAV bilinear": lambda: libav("BILINEAR"),
        "PyAV lanczos": lambda: libav("LANCZOS"),
        "Pillow box": lambda: pillow(PILImage.Resampling.BOX),
        "Pillow lanczos": lambda: pillow(PILImage.Resampling.LANCZOS),
    }
    show("Scaling 384x576 to 64x96", compare(methods, rounds=51), 1e6, "us")
    for name, method in methods.items():
        print(
            f"mean error against the exact average, {name}: {np.abs(method().astype(float) - exact).mean():.2f} of 255"
        )


if __name__ == "__main__":
    cartpole = gym.make("CartPole-v1", render_mode="rgb_array", max_episode_steps=100_000)
    recording(cartpole)
    gifs(cartpole)
    scaling()
