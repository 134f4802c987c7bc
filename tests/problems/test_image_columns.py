"""Columns of images: their depth, colours and damage."""

import io
import struct
import zlib

import numpy as np
import pytest
from flax import linen as nn

from fedjax_links import problems
from fedjax_links.problems import adapters
from tests import refusals

RNG = np.random.default_rng(0)


class Flat(nn.Module):
    """Two scores of all pixels."""

    @nn.compact
    def __call__(self, x):
        """Scores [B, 2]."""
        return nn.Dense(2)(x.reshape(len(x), -1))


def picture(pixels, form='PNG'):
    """An encoded image, as parquet files and Hugging Face hold it."""
    stream = io.BytesIO()
    pytest.importorskip('PIL.Image').fromarray(pixels).save(stream, form)
    return {'bytes': stream.getvalue(), 'path': None}


def deep_png(pixels):
    """A PNG of 16 bits a channel, by the PNG specification (Pillow writes none in colour)."""
    height, width, channels = pixels.shape
    kind = {1: 0, 3: 2, 4: 6}[channels]

    def chunk(name, data):
        check = zlib.crc32(name + data)
        return struct.pack('>I', len(data)) + name + data + struct.pack('>I', check)

    header = struct.pack('>IIBBBBB', width, height, 16, kind, 0, 0, 0)
    lines = b''.join(b'\0' + line.astype('>u2').tobytes() for line in pixels)
    chunks = (
        chunk(b'IHDR', header),
        chunk(b'IDAT', zlib.compress(lines)),
        chunk(b'IEND', b''),
    )
    return {'bytes': b'\x89PNG\r\n\x1a\n' + b''.join(chunks), 'path': 'deep.png'}


@pytest.mark.parametrize(
    'dtype, values, form',
    [
        (np.uint16, [[0, 300], [2000, 65535]], 'PNG'),
        (np.uint16, [[0, 300], [2000, 65535]], 'TIFF'),
        (np.int32, [[0, -5], [70000, 2**31 - 1]], 'TIFF'),
        (np.float32, [[0.0, 0.3], [-7.5, 4e9]], 'TIFF'),
    ],
)
def test_images_of_many_bits_keep_their_numbers(dtype, values, form):
    image = pytest.importorskip('PIL.Image')
    pixels = np.array(values, dtype)
    for row in (image.fromarray(pixels), picture(pixels, form)):
        result = adapters.from_columns([row], [0], ['ann']).features
        assert result.dtype == dtype
        np.testing.assert_array_equal(result[0, :, :, 0], pixels)


def test_images_of_big_endian_shorts_keep_their_numbers():
    image = pytest.importorskip('PIL.Image')
    pixels = np.array([[0, 300], [2000, 65535]], '>u2')
    row = image.frombytes('I;16B', (2, 2), pixels.tobytes())
    result = adapters.from_columns([row], [0], ['ann'])
    np.testing.assert_array_equal(result.features[0, :, :, 0], pixels)
    scale = {'preprocess': lambda rows: rows / 65535.0}
    assert problems.from_flax(*result[:3], module=Flat(), **scale).num_clients == 1


def test_colours_of_16_bits_are_refused_and_grey_is_read():
    pixels = np.arange(12, dtype=np.uint16).reshape(2, 2, 3) * 5000
    grey = deep_png(pixels[..., :1])
    result = adapters.from_columns([grey], [0], ['ann']).features
    np.testing.assert_array_equal(result[0], pixels[..., :1])
    with refusals.names('features', '8 bits a channel', '16 bits in row 1'):
        rows = [picture(np.zeros((2, 2, 3), np.uint8)), deep_png(pixels)]
        adapters.from_columns(rows, [0, 0], ['a', 'a'])


@pytest.mark.parametrize(
    'row, words',
    [
        (
            {'bytes': None, 'path': 'a.png'},
            ['`bytes` of every image', "'a.png'", 'in row 1'],
        ),
        ({'bytes': b'no image', 'path': None}, ['that Pillow reads', 'in row 1']),
        (None, ['hold numbers', 'None in row 1']),
    ],
)
def test_a_row_that_is_no_image_is_named(row, words):
    full = picture(np.zeros((4, 4), np.uint8))
    with refusals.names('features', *words):
        adapters.from_columns([full, row], [0, 1], ['a', 'b'])


def test_a_truncated_image_is_named_with_its_row():
    noise = RNG.integers(0, 256, (64, 64), dtype=np.uint8)
    full = picture(noise)
    cut = {'bytes': full['bytes'][:2000], 'path': None}
    with refusals.names('features', 'truncated', 'in row 2'):
        adapters.from_columns([full, full, cut], [0, 1, 0], ['a', 'b', 'a'])
