"""Results with media, and what the reader finds in them."""

import numpy as np

from tune_media.results.reader import replace_media


def clip(seed=0, frames=4, layout="TCHW"):
    array = np.random.default_rng(seed).integers(0, 255, (1, frames, 3, 16, 24), np.uint8)
    return array if layout == "TCHW" else array.transpose(0, 1, 3, 4, 2)


def read(result, windows=None):
    """Replace the media of a result by numbered paths, and return what was found."""
    found = []

    def place(item):
        found.append(item)
        return f"path{len(found) - 1}"

    replace_media(result, place, windows=windows)
    return found


def places(found):
    """Return the section and the key of all that was found."""
    return [(item.section, item.key) for item in found]


def evaluated(value, iteration=2, new=True):
    """Make a result as RLlib does: what is new brings health counts, what repeats does not."""
    section = {"env_runners": {"videos_best": value}} | ({"num_healthy_workers": 1} if new else {})
    return {"training_iteration": iteration, "evaluation": section}


def media(result, windows=None):
    return [item.medium for item in read(result, windows)]
