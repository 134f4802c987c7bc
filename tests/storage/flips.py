"""Damages files as a failing disk may do."""


def flip_bit(path, index=None):
    """Flips the lowest bit of a byte of a file, by default of the middle one."""
    content = bytearray(path.read_bytes())
    if index is None:
        index = len(content) // 2
    content[index] ^= 1
    path.write_bytes(content)
