"""What became of one request, times on one clock and no latency where it did not end well."""

import msgspec

from sidecar.load.schedule import Scheduled
from slackwater.clock import US_PER_S
from slackwater.statuses import ClientStatus


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request that came due. Times are microseconds since the epoch, all of one `Anchor`.

    Attributes:
        id: unique within one run of a client.
        status: `ok`; `aborted`: its stream was cut before the end; `timeout`: given up by the
            client; `error`: refused, or an HTTP error, or one said in the stream; `dropped`:
            never sent, since as many as allowed were in flight.
        scheduled_us: when it was to arrive; latencies count from here.
        sent_us: when the client began to send it; None when it was never sent.
        first_token_us: when the first token came; None when none came, or nobody could tell.
        finished_us: when the last token came; None unless `ok`.
        ended_us: when it ended, however it did.
        prompt_tokens: as the server counted; None when it did not say.
        output_tokens: as the server counted; None when it did not say.
        http_status: of the response; None when there was none.
        error: what went wrong; None when nothing did.
        batch: number of its closed-loop batch; None in an open loop.
        tenant: whom the trace says it was for.
    """

    id: str
    status: ClientStatus
    scheduled_us: int
    sent_us: int | None = None
    first_token_us: int | None = None
    finished_us: int | None = None
    ended_us: int
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    http_status: int | None = None
    error: str | None = None
    batch: int | None = None
    tenant: str | None = None

    @property
    def e2e_s(self) -> float | None:
        """Seconds from the scheduled arrival to the last token; None unless `ok`."""
        return self._since_scheduled_s(self.finished_us)

    @property
    def ttft_s(self) -> float | None:
        """Seconds from the scheduled arrival to the first token; None unless `ok` and known."""
        return self._since_scheduled_s(self.first_token_us)

    @property
    def lag_s(self) -> float | None:
        """Seconds that the client was late in sending, a part of both latencies."""
        if self.sent_us is None:
            return None
        return (self.sent_us - self.scheduled_us) / US_PER_S

    def _since_scheduled_s(self, at_us: int | None) -> float | None:
        if self.status != "ok" or at_us is None:
            return None
        return (at_us - self.scheduled_us) / US_PER_S


def dropped(item: Scheduled, scheduled_us: int, now_us: int) -> Outcome:
    """The outcome of a request that was never sent."""
    return Outcome(
        id=item.id,
        status="dropped",
        scheduled_us=scheduled_us,
        ended_us=now_us,
        batch=item.batch,
        tenant=item.tenant,
    )
