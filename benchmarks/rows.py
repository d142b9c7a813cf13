"""One row per scenario and contender, gathered from the samples of several processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.contenders import ENTRIES


@dataclass(slots=True)
class Row:
    """What became of one scenario with one contender."""

    scenario: str
    contender: str
    status: str = "ok"
    note: str = ""
    samples: list[float] = field(default_factory=list[float])
    peak_mb: list[float] = field(default_factory=list[float])

    def add(self, outcome: dict[str, Any]) -> None:
        """Take in what one child reported; whatever went wrong once voids the row."""
        if outcome["status"] != "ok":
            self.status, self.note = outcome["status"], outcome.get("note", "")
        elif self.status == "ok":
            self.note = outcome.get("note", "")
            self.samples += outcome["samples"]
            self.peak_mb += outcome.get("peak_mb", [])

    @property
    def counts(self) -> bool:
        """Whether the row has a figure that may be compared."""
        return self.status == "ok" and bool(self.samples)

    @property
    def minimum(self) -> float:
        """The best sample, in microseconds of CPU per unit."""
        return min(self.samples)

    @property
    def middle(self) -> float:
        """The median sample."""
        return median(self.samples)

    @property
    def memory(self) -> float | None:
        """Median of the peak resident memory in MB, where it was measured."""
        return median(self.peak_mb) if self.peak_mb else None


@dataclass(frozen=True, slots=True)
class Ratios:
    """A row beside the floor and the fastest peer of its scenario, by their best samples."""

    floor: float | None
    peer: float | None


def ratios(row: Row, rows: list[Row]) -> Ratios:
    """Compare a row with the others of its scenario."""
    beside = [each for each in rows if each.scenario == row.scenario and each.counts]
    floor = [each.minimum for each in beside if each.contender == "floor"]
    peers = [each.minimum for each in beside if ENTRIES[each.contender].peer]
    if not row.counts:
        return Ratios(None, None)
    return Ratios(_over(row.minimum, floor), _over(row.minimum, peers))


def _over(figure: float, others: list[float]) -> float | None:
    return figure / min(others) if others else None
