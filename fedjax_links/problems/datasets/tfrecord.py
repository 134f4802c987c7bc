"""TFRecord files: length, its checksum, bytes, their checksum, and so on to the end."""

import pathlib
import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedjax_links import errors

_POLYNOMIAL = 0x82F63B78  # CRC-32C (Castagnoli), bits reversed


def read_records(path: pathlib.Path, *, chunk_size: int) -> Iterator[list[bytes]]:
    """Reads the records of a file and verifies both checksums of each.

    Args:
      path: a TFRecord file without compression.
      chunk_size: records that are read and verified together.

    Yields:
      The next ``chunk_size`` records, in the last chunk what is left of them.

    Raises:
      ValueError: if the file is cut short or a checksum differs.
    """
    number = 0
    with open(path, 'rb') as file:
        while True:
            records: list[bytes] = []
            sums: list[int] = []
            while len(records) < chunk_size:
                header = file.read(12)
                if not header:
                    break
                records.append(_payload(file, header, path, number + len(records)))
                sums.append(_uint32(file.read(4), path, number + len(records) - 1))
            if not records:
                return
            wrong = masked_crc32c(records) != np.asarray(sums, np.uint32)
            if wrong.any():
                raise _broken(path, number + int(np.argmax(wrong)))
            yield records
            number += len(records)


def masked_crc32c(rows: Sequence[bytes]) -> NDArray[np.uint32]:
    """The rotated and shifted CRC-32C of each row, computed side by side, one byte at a time."""
    lengths = np.array([len(row) for row in rows])
    order = np.argsort(-lengths, kind='stable')  # longest first: the rows still running are a slice
    padded = np.zeros((int(lengths.max(initial=0)), len(rows)), np.uint8)
    for column, row in enumerate(order):
        padded[: lengths[row], column] = np.frombuffer(rows[row], np.uint8)
    running = np.searchsorted(-lengths[order], -np.arange(len(padded)), side='left')
    state = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for position, count in enumerate(running):
        part = state[:count]
        state[:count] = _TABLE[(part ^ padded[position, :count]) & 0xFF] ^ (part >> 8)
    crc = np.empty_like(state)
    crc[order] = ~state
    rotated = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)


def _payload(file: BinaryIO, header: bytes, path: pathlib.Path, number: int) -> bytes:
    if len(header) < 12 or _masked_scalar(header[:8]) != struct.unpack('<I', header[8:])[0]:
        raise _broken(path, number)
    (length,) = struct.unpack('<Q', header[:8])
    data: bytes = file.read(length)
    if len(data) < length:
        raise _broken(path, number)
    return data


def _uint32(data: bytes, path: pathlib.Path, number: int) -> int:
    if len(data) < 4:
        raise _broken(path, number)
    number_read: int = struct.unpack('<I', data)[0]
    return number_read


def _masked_scalar(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = _SCALAR_TABLE[(state ^ byte) & 0xFF] ^ (state >> 8)
    crc = state ^ 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _broken(path: pathlib.Path, number: int) -> ValueError:
    return errors.invalid('data_dir', 'hold intact files', f'a damaged record {number} in {path}')


def _table() -> NDArray[np.uint32]:
    values = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        values = np.where(values & 1, (values >> 1) ^ np.uint32(_POLYNOMIAL), values >> 1)
    return values.astype(np.uint32)


_TABLE = _table()
_SCALAR_TABLE = _TABLE.tolist()
