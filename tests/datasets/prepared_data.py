"""Prepared image data in the real format, written by the tests themselves."""

import numpy as np

TRAIN = 23
TEST = 7


def draw(number, shape, num_classes, seed, *, first_label=0):
    """Draws pixels and labels."""
    rng = np.random.default_rng([seed, number])
    images = rng.integers(0, 256, (number, *shape), dtype=np.uint8)
    return images, rng.integers(first_label, num_classes, number)


def described_features(shape, num_classes):
    """Returns the features of a data set: image and label, and for colour images an ``id``."""
    import tensorflow_datasets as tfds

    features = {
        'image': tfds.features.Image(shape=shape),
        'label': tfds.features.ClassLabel(num_classes=num_classes),
    }
    return tfds.features.FeaturesDict(
        features | ({'id': tfds.features.Text()} if shape[-1] == 3 else {})
    )


def write_array_record(
    root, name, shape, num_classes, *, extra_splits=(), first_label=0
):
    """Prepares data as TensorFlow Datasets does, in shards in its own order.

    Returns:
      By split, images and labels, in the order in which they were drawn.
    """
    import PIL.Image
    import tensorflow_datasets as tfds

    tfds.disable_progress_bar()
    parts = {
        split: draw(number, shape, num_classes, seed, first_label=first_label)
        for seed, (split, number) in enumerate(
            [
                ('train', TRAIN),
                ('test', TEST),
                *((split, TEST) for split in extra_splits),
            ]
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
