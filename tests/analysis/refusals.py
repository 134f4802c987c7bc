"""One way to test a refusal: the whole message, nothing less."""

import re

import pytest


def refuses(message):
    """Expects a ValueError with exactly this message."""
    return pytest.raises(ValueError, match=f'^{re.escape(message)}$')
