"""TensorBoard's HParams tab: one line a trial, with the metrics that matter first, filled in while the trial runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tensorboardX.proto.api_pb2 import Experiment, MetricInfo, MetricName, Status
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData, SessionEndInfo
from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboardX.summary import hparams

from tune_media.values.foreign import shown
from tune_media.values.metric_names import RETURN_NAMES, main_metrics
from tune_media.values.number import as_number
from tune_media.values.secrets import without_secret

_PREFIX = "ray/tune/"  # of all scalars that Ray's logger writes
_EXPERIMENT, _END = "_hparams_/experiment", "_hparams_/session_end_info"
_EVALUATION, _BEST = "evaluation/", "best/"
_MAX_NUMBER = 1e300  # larger whole numbers are no floats
_MAX_LISTED = 1000  # values of an array; NumPy's text of a longer one leaves most of them out


class HparamsTable:
    """The line of one trial; TensorBoard shows the metrics that the first one names, in its order.

    Tune's loop calls it. Without ``params``, the hyperparameters that Tune chose, nothing is written. ``best`` is the
    largest value so far of each metric, if the trial is restored.
    """

    def __init__(self, params: Mapping[str, Any], best: Mapping[str, float]) -> None:
        self.best = dict(best)
        self._params = {name: _as_hparam(without_secret(name, value)) for name, value in params.items()}
        self._has_begun = False

    def add(self, writer: Any, flat: Mapping[str, Any], step: int, *, evaluates: bool = False) -> None:
        """Write the largest returns so far; before the first ones, the trial's hyperparameters and metrics.

        If it ``evaluates``, the metrics of evaluations are named even if none has run yet.
        """
        if not self._params:
            return
        if not self._has_begun:
            self._has_begun = True
            self._begin(writer, main_metrics(_with_evaluation(flat, evaluates)))
        for name, value in flat.items():
            if _is_return(name) and math.isfinite(as_number(value)):
                self.best[name] = max(float(value), self.best.get(name, float("-inf")))
                writer.add_scalar(f"{_BEST}{name}", self.best[name], global_step=step)

    def end(self, writer: Any, *, failed: bool) -> None:
        """Write how the trial ended."""
        if self._has_begun:
            status = Status.Value("STATUS_FAILURE" if failed else "STATUS_SUCCESS")
            _write(writer, _END, HParamsPluginData(session_end_info=SessionEndInfo(status=status)))

    def _begin(self, writer: Any, names: list[str]) -> None:
        of_rays, start, _ = hparams(self._params, {})
        metrics = []
        for name in names:
            tags = {"best": f"{_BEST}{name}"} if _is_return(name) else {}
            for which, tag in {**tags, "last": f"{_PREFIX}{name}"}.items():
                metrics.append(MetricInfo(name=MetricName(tag=tag), display_name=f"{which} {_shown(name)}"))
        rays_data = HParamsPluginData.FromString(of_rays.value[0].metadata.plugin_data.content)
        experiment = Experiment(hparam_infos=rays_data.experiment.hparam_infos, metric_infos=metrics)
        _write(writer, _EXPERIMENT, HParamsPluginData(experiment=experiment))
        writer.file_writer.add_summary(start)


def _with_evaluation(flat: Mapping[str, Any], evaluates: bool) -> list[str]:
    """Return the names of a result's numbers, and the names that the first evaluation will add."""
    names = [name for name, value in flat.items() if isinstance(value, (int, float)) and not isinstance(value, bool)]
    coming = [f"{_EVALUATION}{name}" for name in names if name.startswith("env_runners/")] if evaluates else []
    return [*names, *coming]


def _is_return(name: str) -> bool:
    return name.rpartition("/")[2] in RETURN_NAMES


def _shown(name: str) -> str:
    """Return a metric's name as a column's title: ``evaluation return`` for RLlib's, a trainable's own as it is."""
    section = "evaluation" if name.startswith(_EVALUATION) else "training"
    leaf = name.rpartition("/")[2]
    if _is_return(name):
        return f"{section} return"
    return f"{section} episode length" if leaf == "episode_len_mean" else name


def _as_hparam(value: Any) -> Any:
    """Return a hyperparameter as TensorBoard takes it: a number, a truth value, or text."""
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < _MAX_NUMBER):
        return value
    if isinstance(value, np.ndarray) and value.size <= _MAX_LISTED:  # NumPy's print options would round it
        value = value.tolist()
    return shown(value, str).encode("utf-8", "replace").decode()


def _write(writer: Any, tag: str, data: HParamsPluginData) -> None:
    plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=data.SerializeToString())
    metadata = SummaryMetadata(plugin_data=plugin)
    writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=tag, metadata=metadata)]))
