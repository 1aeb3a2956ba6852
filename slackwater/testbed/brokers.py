"""The broker of a run: our own, which ends with it, or one that is there, from which topics go."""

from pathlib import Path

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from slackwater.broker import EmbeddedBroker
from slackwater.errors import BrokerError
from slackwater.topics import ALL_TOPICS
from slackwater.transport import make_topics, wait_for_broker


class OwnBroker:
    """The embedded broker with the run's topics on it."""

    def __init__(self, prefix: str, partitions: int, log_path: Path) -> None:
        self._broker = EmbeddedBroker(log_path=log_path)
        self._prefix = prefix
        self._partitions = partitions
        self.log_path: Path | None = log_path
        self.bootstrap = self._broker.bootstrap

    def start(self) -> None:
        """Start it and make the topics; raises `BrokerError`."""
        self._broker.start()
        make_topics(self.bootstrap, self._prefix, self._partitions)

    @property
    def alive(self) -> bool:
        """False once its process has ended."""
        return self._broker.running

    def stop(self) -> None:
        """End it, and all it holds."""
        self._broker.stop()


class GivenBroker:
    """A broker that somebody else runs: the run's topics are made there and removed again."""

    log_path = None

    def __init__(self, bootstrap: str, prefix: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self._prefix = prefix
        self._partitions = partitions
        self._made = False

    def start(self) -> None:
        """Make the topics; raises `BrokerError`."""
        wait_for_broker(self.bootstrap, 5.0)
        self._made = True
        make_topics(self.bootstrap, self._prefix, self._partitions)

    @property
    def alive(self) -> bool:
        """Its end shows at the parts that use it."""
        return True

    def stop(self) -> None:
        """Remove the run's topics; raises `BrokerError` when they stay."""
        if self._made:
            self._made = False
            delete_topics(self.bootstrap, self._prefix)


def delete_topics(bootstrap: str, prefix: str) -> None:
    """Delete all topics of this prefix; raises `BrokerError` when that is refused."""
    names = [topic.name(prefix) for topic in ALL_TOPICS]
    try:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap, bootstrap_timeout_ms=5000)
        try:
            admin.delete_topics(names)
        finally:
            admin.close()
    except (KafkaError, OSError) as error:
        msg = f"topics {prefix}.* are still on {bootstrap}; delete them by hand ({error!r})"
        raise BrokerError(msg) from error
