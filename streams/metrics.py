"""Prometheus metrics of the stream job: every name is registered here and nowhere else."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.samples import Sample

SECONDS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

COUNTERS = {
    "requests": ("requests that ended", ("sidecar", "status")),
    "decisions": ("decisions of every policy", ("group", "policy", "active", "action", "reason")),
    "merges": ("merge reports of learners", ("group", "phase")),
    "dead_letters": ("lines that could not be read", ("topic",)),
    "late_events": ("events that came after their bin had closed", ("topic",)),
    "repeated_events": ("events that came twice in an open bin", ("topic",)),
    "rows": ("rows written to the run log", ("table",)),
}
GAUGES = {
    "request_rate": ("requests that ended per second, newest bin", ("sidecar",)),
    "forecast_rate": ("forecast arrivals per second", ("group",)),
    "forecast_overlap_requests": ("expected overlap cost of a window now", ("group",)),
    "signal_age_seconds": ("age of the oldest load signal, event time", ("group",)),
    "stale_sidecars": ("sidecars whose load is unknown", ("group",)),
    "gap_steps": ("inner steps since the last merge", ("group",)),
    "watermark_delay_seconds": ("event time now less the group's watermark", ("group",)),
    "late_observations": ("observations that came after their tick", ("group",)),
    "consumer_lag_events": ("messages behind the end of the log", ("topic", "partition")),
}
HISTOGRAMS = {
    "merge_seconds": ("duration of a merge, event time", ("group",)),
    "commit_seconds": ("duration of a run log commit, wall time", ()),
}


class Metrics:
    """The job's metrics by name, on one registry; a test passes one of its own.

    Names carry the prefix `slackwater_`; counters end in `_total`, as Prometheus asks.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.counters = {
            name: Counter(f"slackwater_{name}", text, labels, registry=registry)
            for name, (text, labels) in COUNTERS.items()
        }
        self.gauges = {
            name: Gauge(f"slackwater_{name}", text, labels, registry=registry)
            for name, (text, labels) in GAUGES.items()
        }
        self.histograms = {
            name: Histogram(
                f"slackwater_{name}", text, labels, registry=registry, buckets=SECONDS_BUCKETS
            )
            for name, (text, labels) in HISTOGRAMS.items()
        }

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        self.counters[name].labels(**labels).inc(amount)

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""
        self.gauges[name].labels(**labels).set(value)

    def forget(self, name: str, **labels: str) -> None:
        """Show no value where it is unknown, instead of the last one."""
        self.gauges[name].remove_by_labels(labels)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        histogram = self.histograms[name]
        (histogram.labels(**labels) if labels else histogram).observe(seconds)

    def totals(self) -> dict[str, float]:
        """Every counter's sum by its labels, as `name{label=value,...}`."""
        return {
            f"{sample.name}{{{','.join(f'{k}={v}' for k, v in sorted(sample.labels.items()))}}}": (
                sample.value
            )
            for name in self.counters
            for sample in self._totals_of(name)
        }

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """A counter's sums by the values of one label."""
        sums: dict[str, int] = {}
        for sample in self._totals_of(name):
            value = sample.labels[label]
            sums[value] = sums.get(value, 0) + round(sample.value)
        return sums

    def _totals_of(self, name: str) -> Iterator[Sample]:
        for metric in self.counters[name].collect():
            yield from (s for s in metric.samples if s.name.endswith("_total"))
