"""TensorBoard's entry point of the Episodes tab.

TensorBoard imports this module in every start, whoever uses it, and ends if that fails. So it imports nothing but the
standard library and TensorBoard; everything else is imported by ``load``, whose failures TensorBoard only logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorboard.plugins import base_plugin

if TYPE_CHECKING:
    from tune_media.viewing.tensorboard_plugin.tab import EpisodesTab


class EpisodesLoader(base_plugin.TBLoader):
    """Makes the tab when TensorBoard starts."""

    def load(self, context: Any) -> EpisodesTab | None:
        """Return the tab, or None (and a line in the log) if it cannot be made."""
        try:
            from tune_media.viewing.tensorboard_plugin.tab import EpisodesTab

            return EpisodesTab(context)
        except Exception as error:
            import logging

            from tune_media.values.installing import pip_install

            told = "tune_media: no Episodes tab (%s). Try %s"
            logging.getLogger(__name__).warning(told, error, pip_install("tensorboard"))
            return None
