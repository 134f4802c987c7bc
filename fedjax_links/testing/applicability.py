"""Checks say so where they have nothing to check."""


class DoesNotApply(Exception):  # noqa: N818  (no error: the suites go on with the next check)
    """Raised by a check on what makes no promise it could check; the message is the reason."""
