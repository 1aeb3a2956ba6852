"""A process that writes messages without end, for tests that kill it.

python writer.py DATABASE ROWS: commits messages of 1 to 7 times ROWS requests and says each
offset that the log is at on stdout, one a line.
"""

import sys

from handmade import request

from streams.runlog import RunLog


def main(database, rows):
    with RunLog(database) as log:
        offset = log.stored_offsets().get(("t", 0), 0)
        while True:
            for _ in range(5):
                batch = [
                    request(f"{offset}-{i}", 1, 1, "ok") for i in range((offset % 7 + 1) * rows)
                ]
                log.append(batch, topic="t", partition=0, offset=offset)
                offset += 1
            log.commit()
            sys.stdout.write(f"{offset}\n")
            sys.stdout.flush()


main(sys.argv[1], int(sys.argv[2]))
