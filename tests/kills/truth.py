"""What the drivers of a round told, and what is on the storage at its end."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pyarrow.fs

from tests.support.json_lines import read_lines

Stored = dict[str, set[tuple[str, str]]]


class Truth:
    """What the drivers of a round told; ``lost`` is the last process whose machine was lost, -1 if none was."""

    def __init__(self, folder: Path, lost: int, stored: Stored) -> None:
        lines = read_lines(folder / "truth.jsonl")
        self.returned = {line["number"]: line["paths"] for line in lines if line["event"] == "returned"}
        self.reports = [line for line in lines if line["event"] == "report"]
        self.ends = {line["trial"]: line["process"] for line in lines if line["event"] == "end"}
        self.over = lines[-1] if lines and lines[-1]["event"] == "over" else {}
        self.lost, self.stored = lost, stored
        self.is_gone: dict[int, bool] = {}  # whether a report was undone later
        for at, report in enumerate(self.reports):
            later = (other for other in self.reports[at + 1 :] if other["trial"] == report["trial"])
            self.is_gone[report["number"]] = any(other["iteration"] <= report["iteration"] for other in later)

    def of_trial(self, trial: str) -> list[dict[str, Any]]:
        return [report for report in self.reports if report["trial"] == trial]

    def counting(self, trial: str) -> dict[int, int]:
        reports = (report for report in self.of_trial(trial) if not self.is_gone[report["number"]])
        return {report["iteration"]: report["number"] for report in reports}

    def ended_before_loss(self, trial: str) -> bool:
        return self.ends.get(trial, self.lost + 1) <= self.lost

    def counts(self, report: dict[str, Any]) -> bool:
        return self.must_be_there(report) and not self.is_gone[report["number"]]

    def must_be_there(self, report: dict[str, Any]) -> bool:
        return report["number"] in self.returned and report["process"] > self.lost


class TrialThere:
    """A trial as it is on the storage; the paths of its files are relative to its folder."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem, folder: str, files: list[str]) -> None:
        self.filesystem, self.folder, self.files = filesystem, folder, files

    def read(self, path: str) -> bytes:
        with self.filesystem.open_input_stream(f"{self.folder}/{path}") as stream:
            return bytes(stream.read())

    def copy(self, beginning: str, target: Path) -> list[Path]:
        copies = []
        for path in self.files:
            if path.startswith(beginning):
                copies.append(target / path)
                copies[-1].parent.mkdir(parents=True, exist_ok=True)
                copies[-1].write_bytes(self.read(path))
        return copies

    @functools.cached_property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read("media/index.jsonl").splitlines()]

    @property
    def counting(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["status"] == "stored" and not line.get("rolled_back")]
