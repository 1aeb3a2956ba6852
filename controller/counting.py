"""Requests to bins: per-partition counting in small time bins, closed by watermark.

Each sidecar is one ordered source; its watermark is the newest time it has shown, less the
allowed lateness. An event whose bin has closed is late: counted as such, kept by the run log,
and in no bin; so is a single event far in the future, which would close every bin before it.
The same event twice in an open bin counts once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slackwater.clock import US_PER_S
from slackwater.events import BinRow, Bins, Load, Request

# One event so far ahead of its sidecar's last is a wrong clock; two are a long silence.
JUMP_US = 900 * US_PER_S
MAX_COUNT = (1 << 63) - 1


@dataclass(slots=True)
class _OpenBin:
    ends_us: list[int] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    failed: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    e2e_sum_s: float = 0.0
    samples: int = 0
    in_system: int | None = None
    sample_us: int | None = None


@dataclass(slots=True)
class _Sidecar:
    closed_us: int
    newest_us: int
    open: dict[int, _OpenBin] = field(default_factory=dict)
    late: int = 0
    jump_us: int | None = None

    def confirms(self, at_us: int) -> bool:
        """True when this is the second event in a row far ahead of all before: time did jump."""
        before, self.jump_us = self.jump_us, at_us
        return before is not None and abs(at_us - before) <= JUMP_US


@dataclass(slots=True)
class Counted:
    """What became of one batch: indices of late events, and of repeated ones."""

    late: list[int] = field(default_factory=list)
    repeated: list[int] = field(default_factory=list)


class PartitionCounter:
    """Counts the events of one partition of the requests topic.

    Args:
        partition: number of the partition.
        bin_s: width of a bin, event time.
        lateness_s: how far behind its sidecar's newest event an event may come and still count.
        closed_us: sidecar to the time up to which its bins were closed before, after a restart.
    """

    def __init__(
        self,
        partition: int,
        bin_s: float,
        lateness_s: float,
        closed_us: Mapping[str, int] | None = None,
    ) -> None:
        self.partition = partition
        self.bin_s = bin_s
        self._bin_us = round(bin_s * US_PER_S)
        self._lateness_us = round(lateness_s * US_PER_S)
        self._sidecars = {
            name: _Sidecar(closed_us=us, newest_us=us) for name, us in (closed_us or {}).items()
        }

    def add(self, events: Iterable[Request | Load]) -> Counted:
        """Count a batch, in the order it came."""
        counted, width = Counted(), self._bin_us
        for index, event in enumerate(events):
            at_us = event.at_us
            sidecar = self._sidecars.get(event.sidecar)
            if sidecar is None:
                sidecar = self._sidecars[event.sidecar] = self._new_sidecar(at_us)
            if at_us < sidecar.closed_us:
                sidecar.late += 1
                counted.late.append(index)
                continue
            if at_us - sidecar.newest_us > JUMP_US and not sidecar.confirms(at_us):
                sidecar.late += 1
                counted.late.append(index)
                continue
            sidecar.newest_us = max(sidecar.newest_us, at_us)
            start_us = at_us - at_us % width
            bin_ = sidecar.open.get(start_us)
            if bin_ is None:
                bin_ = sidecar.open[start_us] = _OpenBin()
            if isinstance(event, Load):
                _add_load(bin_, event)
            elif event.id in bin_.ids:
                counted.repeated.append(index)
            else:
                _add_request(bin_, event)
        return counted

    def close(self, run_id: str, group: str) -> Bins | None:
        """Close every bin that the watermarks have passed; None when none was passed."""
        rows: list[BinRow] = []
        passed = False
        for name, sidecar in self._sidecars.items():
            until_us = self._watermark_us(sidecar)
            if until_us > sidecar.closed_us:
                passed = True
                rows += self._close_sidecar(name, sidecar, until_us)
        if not passed:
            return None
        watermarks = {name: s.closed_us for name, s in self._sidecars.items()}
        return Bins(
            run_id=run_id,
            at_us=max(watermarks.values()),
            group=group,
            partition=self.partition,
            bin_s=self.bin_s,
            watermarks_us=watermarks,
            rows=sorted(rows, key=lambda row: (row.start_us, row.sidecar)),
        )

    def newest_us(self, sidecar: str) -> int | None:
        """The newest event time seen of a sidecar; None if it is not known here."""
        known = self._sidecars.get(sidecar)
        return known.newest_us if known else None

    def closed_us(self, sidecar: str) -> int | None:
        """Up to where a sidecar's bins are closed; None if it is not known here."""
        known = self._sidecars.get(sidecar)
        return known.closed_us if known else None

    def _new_sidecar(self, at_us: int) -> _Sidecar:
        # Nothing can be late before something was seen: start one allowed lateness earlier.
        first_us = at_us - self._lateness_us
        return _Sidecar(closed_us=first_us - first_us % self._bin_us, newest_us=at_us)

    def _watermark_us(self, sidecar: _Sidecar) -> int:
        passed_us = sidecar.newest_us - self._lateness_us
        return passed_us - passed_us % self._bin_us

    def _close_sidecar(self, name: str, sidecar: _Sidecar, until_us: int) -> list[BinRow]:
        rows = []
        for start_us in sorted(start for start in sidecar.open if start < until_us):
            rows.append(_row(name, start_us, sidecar.open.pop(start_us), sidecar.late))
            sidecar.late = 0
        sidecar.closed_us = until_us
        return rows


def _add_load(bin_: _OpenBin, load: Load) -> None:
    bin_.samples += 1
    if bin_.sample_us is None or load.at_us >= bin_.sample_us:
        bin_.sample_us = load.at_us
        bin_.in_system = load.in_system


def _add_request(bin_: _OpenBin, request: Request) -> None:
    bin_.ids.add(request.id)
    bin_.ends_us.append(request.at_us)
    bin_.prompt_tokens += request.prompt_tokens or 0
    bin_.output_tokens += request.output_tokens or 0
    if request.status == "ok" and request.e2e_s is not None:
        bin_.e2e_sum_s += request.e2e_s
    else:
        bin_.failed += 1


def _row(sidecar: str, start_us: int, bin_: _OpenBin, late: int) -> BinRow:
    sample_us = bin_.sample_us
    return BinRow(
        sidecar=sidecar,
        start_us=start_us,
        finished=len(bin_.ends_us),
        failed=bin_.failed,
        prompt_tokens=min(bin_.prompt_tokens, MAX_COUNT),
        output_tokens=min(bin_.output_tokens, MAX_COUNT),
        e2e_sum_s=bin_.e2e_sum_s,
        samples=bin_.samples,
        in_system=bin_.in_system,
        sample_us=sample_us,
        finished_after_sample=None
        if sample_us is None
        else sum(end_us > sample_us for end_us in bin_.ends_us),
        late=late,
    )
