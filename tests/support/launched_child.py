"""Runs a command as `rightsizer run` does, without any lease.

As a program: with `shell` first, as a job of a shell that prints its stops and resumes it.
"""

import os
import signal
import sys

from rightsizer.broker.child_process import ChildProcess


def main(command: list[str]) -> int:
    """The command's status, printed and returned as this program's."""
    child = ChildProcess(command, os.environ)
    child.start(lambda: None)
    ended = child.wait(lambda status: print(f"left behind by {status}", flush=True))
    print(f"ended with {ended.status}, {'all' if ended.is_all else 'not all'} of it", flush=True)
    return ended.status


def as_a_job(command: list[str]) -> int:
    """A shell's job control: a foreground group of its own, and again after each stop."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os._exit(main(command))
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        print("the job has stopped", flush=True)
        os.tcsetpgrp(0, pid)
        os.killpg(pid, signal.SIGCONT)


if __name__ == "__main__":
    is_shell = sys.argv[1] == "shell"
    status = as_a_job(sys.argv[2:]) if is_shell else main(sys.argv[1:])
    if sys.stdin.isatty():
        # A terminal discards unread output when its first process ends.
        sys.stdin.read()
    sys.exit(status)
