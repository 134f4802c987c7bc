"""Where this package keeps what it can make again."""

import json
import os
import zlib
from pathlib import Path
from typing import Any


def folder(*names: str) -> Path:
    """A folder of the user's cache, there or not."""
    home = Path(os.environ.get('XDG_CACHE_HOME', Path.home() / '.cache'))
    return home.joinpath('fedjax_links', *names)


def digest(values: Any) -> str:
    """A name for plain values."""
    return f'{zlib.crc32(json.dumps(values, sort_keys=True).encode()):08x}'
