"""The peak memory of a program that a test runs in a process of its own, on Linux."""

import subprocess
import sys

from tests import ROOT

# The kernel's own figure: what `getrusage` reports includes the process that forked.
_PRINT_PEAK = """
import pathlib
status = pathlib.Path('/proc/self/status').read_text()
print('peak', status.split('VmHWM:')[1].split()[0])
"""


def run(program, *arguments):
    """Runs a program, and returns what it wrote and its peak memory in GiB.

    Args:
      program: text of Python; it must end without an error.
      *arguments: of its command line.
    """
    done = subprocess.run(
        [sys.executable, '-c', program + _PRINT_PEAK, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    output, _, kibibytes = done.stdout.rpartition('peak ')
    return output + done.stderr, int(kibibytes) / 2**20
