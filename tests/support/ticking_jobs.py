"""A program that runs one job a second, supervised, and prints a line for each run."""

import time

from rightsizer.io.clock import SystemClock
from rightsizer.io.jobs import Job, Jobs


def main() -> None:
    """Until it is killed."""
    jobs = Jobs([Job("tick", lambda: print(int(time.time()), flush=True), 1.0)], SystemClock())
    jobs.start()
    while True:
        time.sleep(0.2)
        jobs.supervise()


if __name__ == "__main__":
    main()
