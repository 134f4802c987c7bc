"""Prepared image data in the real formats, written by the tests themselves."""

import json
import struct

import numpy as np

TRAIN, TEST = 23, 7


def draw(number, shape, num_classes, seed, *, first_label=0):
    """Random pixels and labels."""
    rng = np.random.default_rng([seed, number])
    images = rng.integers(0, 256, (number, *shape), dtype=np.uint8)
    return images, rng.integers(first_label, num_classes, number)


def crc32c(data):
    """CRC-32C bit by bit, from its polynomial."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def masked(data):
    """The checksum as TFRecord files store it: rotated right by 15, plus a constant."""
    crc = crc32c(data)
    return struct.pack('<I', ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32)


def frame(records):
    """The bytes of a TFRecord file."""
    framed = b''
    for record in records:
        length = struct.pack('<Q', len(record))
        framed += length + masked(length) + record + masked(record)
    return framed


def described_features(shape, num_classes):
    """What the stock data sets hold; those in colour carry an ``id`` besides."""
    import tensorflow_datasets as tfds

    features = {
        'image': tfds.features.Image(shape=shape),
        'label': tfds.features.ClassLabel(num_classes=num_classes),
    }
    return tfds.features.FeaturesDict(
        features | ({'id': tfds.features.Text()} if shape[-1] == 3 else {})
    )


def write_array_record(root, name, shape, num_classes, *, extra_splits=(), first_label=0):
    """Prepares data as TensorFlow Datasets does, in shards in its own order.

    Returns:
      By split, images and labels, each image once, in an order of its own.
    """
    import PIL.Image
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    parts = {
        split: draw(number, shape, num_classes, seed, first_label=first_label)
        for seed, (split, number) in enumerate(
            [('train', TRAIN), ('test', TEST), *((split, TEST) for split in extra_splits)]
        )
    }
    stem, *configs = name.split('/')

    def examples(images, labels):
        for i, (image, label) in enumerate(zip(images, labels, strict=True)):
            pixels = PIL.Image.fromarray(image[..., 0] if shape[-1] == 1 else image)
            colour = {'id': f'x_{i}'} if shape[-1] == 3 else {}
            yield i, {'image': pixels, 'label': int(label), **colour}

    class Builder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        VERSION = tfds.core.Version('3.0.1')
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=config) for config in configs]  # noqa: RUF012

        def _info(self):
            return tfds.core.DatasetInfo(
                builder=self,
                features=described_features(shape, num_classes),
            )

        def _split_generators(self, dl_manager):
            return {split: examples(*part) for split, part in parts.items()}

        def _generate_examples(self):
            raise NotImplementedError

    Builder.name = stem
    options = {'config': configs[0]} if configs else {}
    Builder(data_dir=root, file_format='array_record', **options).download_and_prepare()
    return parts


def write_tfrecord(root, name, shape, num_classes, *, shards=2, version='3.0.1'):
    """Writes a prepared folder by hand: two descriptions in JSON and framed examples.

    Returns:
      By split, images and labels in the order of the files.
    """
    features = described_features(shape, num_classes)
    folder = root / name / version
    folder.mkdir(parents=True)
    features.save_config(folder)
    parts, described = {}, []
    for seed, (split, number) in enumerate([('train', TRAIN), ('test', TEST)]):
        images, labels = parts[split] = draw(number, shape, num_classes, seed)
        records = [example(*pair) for pair in zip(images, labels, strict=True)]
        cuts = np.linspace(0, number, shards + 1).astype(int)
        for k in range(shards):
            file = folder / f'{name}-{split}.tfrecord-{k:05}-of-{shards:05}'
            file.write_bytes(frame(records[cuts[k] : cuts[k + 1]]))
        described.append(
            {
                'filepathTemplate': '{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}',
                'name': split,
                'numBytes': str(sum(map(len, records))),
                'shardLengths': [str(n) for n in np.diff(cuts)],
            }
        )
    info = {'fileFormat': 'tfrecord', 'name': name, 'splits': described, 'version': version}
    (folder / 'dataset_info.json').write_text(json.dumps(info))
    return parts


def example(image, label):
    """A ``tf.train.Example`` with a PNG and a class, in the wire format of protocol buffers."""
    import io

    import PIL.Image

    png = io.BytesIO()
    PIL.Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(png, 'PNG')
    features = [
        (b'image', _field(1, _field(1, png.getvalue()))),  # Feature.bytes_list.value
        (b'label', _field(3, _field(1, _varint(int(label))))),  # Feature.int64_list.value, packed
    ]
    if image.shape[-1] == 3:
        features.append((b'id', _field(1, _field(1, b'some name'))))
    entries = b''.join(_field(1, _field(1, key) + _field(2, value)) for key, value in features)
    return _field(1, entries)  # Example.features


def _field(number, payload):
    return bytes([number << 3 | 2]) + _varint(len(payload)) + payload


def _varint(value):
    encoded = b''
    while value > 127:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])
