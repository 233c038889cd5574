"""Batches of episodes."""

from __future__ import annotations

import numpy as np

from tune_media import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series


def batch_of(*episodes):
    """Return a batch of an episode for each pair of metrics and series."""
    return EpisodeBatch(
        tuple(
            EpisodeData(
                EpisodeRecord(f"e{index}", float(index), 3, metrics=metrics),
                {name: Series(np.asarray(values, float), 1, len(values)) for name, values in series.items()},
            )
            for index, (metrics, series) in enumerate(episodes)
        )
    )


def episodes_of(*records):
    """Return a batch of episodes of which nothing but their records is known."""
    return EpisodeBatch(tuple(EpisodeData(record, {}) for record in records))
