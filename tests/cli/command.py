"""Commands as a user types them: in this process, or in one of their own."""

import contextlib
import dataclasses
import io
import os
import subprocess
import sys
import warnings

from absl import app as absl_app
from absl import flags
from absl import logging as absl_logging

import fedjax_links.__main__ as front
from tests import ROOT

COMMAND = [sys.executable, '-m', 'fedjax_links']


@dataclasses.dataclass(frozen=True)
class Done:
    """What a command leaves: its exit status and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments, cwd=ROOT):
    """Runs ``python -m fedjax_links ARGUMENTS`` in this process, and leaves no flag behind."""
    out = io.StringIO()
    err = io.StringIO()
    with (
        contextlib.chdir(cwd),
        _untouched(),
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            status = front.main(list(arguments))
        except SystemExit as end:
            status = end.code or 0
    return Done(status, out.getvalue(), err.getvalue())


def refused(*arguments, cwd=ROOT):
    """Runs a command that must fail, and returns its one-line error."""
    done = run(*arguments, cwd=cwd)
    line = one_line(done)
    assert done.stdout == ''
    assert line.startswith('error: ')
    return line


def one_line(done):
    """Returns the one line with which a command ended, as at a user's mistake."""
    assert done.returncode == 2, done.stderr
    assert done.stderr.count('\n') == 1, done.stderr
    return done.stderr


def in_a_process(*arguments, program=COMMAND, cwd=ROOT, env=None):
    """Runs the same, or another program, in a process of its own."""
    return subprocess.run(
        [*program, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@contextlib.contextmanager
def _untouched():
    """Takes back what a command does to the process: arguments, flags, path and environment."""
    absl_app.define_help_flags()
    known = set(flags.FLAGS)
    verbosity = absl_logging.get_verbosity()
    argv = sys.argv
    path = list(sys.path)
    environment = dict(os.environ)
    try:
        yield
    finally:
        for name in set(flags.FLAGS) - known:
            delattr(flags.FLAGS, name)
        for name in known:
            flags.FLAGS[name].unparse()
        flags.FLAGS.unparse_flags()
        sys.argv = argv
        sys.path[:] = path
        absl_logging.set_verbosity(verbosity)
        os.environ.clear()
        os.environ.update(environment)
