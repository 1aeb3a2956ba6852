"""A call that runs behind the training loop."""

import threading
from collections.abc import Callable


class Behind:
    """Runs `call` in a thread at once; `wait` returns when it is done, and raises what it raised.

    The thread ends with the process: a call that hangs does not keep it alive.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="exchange", daemon=True)
        self._thread.start()

    @property
    def done(self) -> bool:
        """True when `wait` would not wait."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Until the call has ended."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._call()
        except Exception as failure:  # It is raised again by `wait`.
            self._failure = failure
