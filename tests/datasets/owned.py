"""Small data with owners in the publishers' true formats, written by Hugging Face's own library."""

import csv

import numpy as np

CLASSES = [*'0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz']


def feature_of(name, column):
    """Returns the type of a column: a class label, a truth value, text or an integer."""
    import datasets

    if name == 'character':
        return datasets.ClassLabel(names=CLASSES)
    if name == 'Smiling':
        return datasets.Value('bool')
    return datasets.Value('string' if isinstance(column[0], str) else 'int64')


def write_parquet(path, image, **columns):
    """Writes a file of images, as PNG with their paths, and of further columns."""
    import datasets
    from PIL import Image

    pictures = [Image.fromarray(np.squeeze(pixels)) for pixels in image]
    features = {'image': datasets.Image()}
    for name, column in columns.items():
        features[name] = feature_of(name, column)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {'image': pictures, **columns}
    datasets.Dataset.from_dict(rows, features=datasets.Features(features)).to_parquet(
        path
    )


def write_femnist(folder, *, writers, examples, seed=0):
    """Writes FEMNIST in one file: ten of its classes, in strokes as dark as the writer's.

    Returns:
      Pixels, classes and names of the writers, in the order of the file.
    """
    from fedjax_links.datasets import synthetic_images

    samples = synthetic_images(
        num_train=writers * examples, num_test=1, difficulty=0.3, seed=seed
    )
    rng = np.random.default_rng(seed)
    strokes = rng.uniform(0.6, 1, writers).repeat(examples)[:, None, None, None]
    pixels = np.rint(255 * (1 - strokes * samples.train_features)).astype(np.uint8)
    names = [
        f'f{writer:04}_{writer % 50:02}'
        for writer in range(writers)
        for _ in range(examples)
    ]
    write_parquet(
        folder / 'train-00000-of-00001.parquet',
        pixels,
        writer_id=names,
        hsf_id=[0] * len(names),
        character=samples.train_labels.tolist(),
    )
    return pixels, samples.train_labels, names


LINES = (
    'That time of year thou mayst in me behold, when yellow leaves, or none, or few, do hang\n',
    'Upon those boughs which shake against the cold: "bare ruin\'d choirs" & [late] sweet birds\n',
)


def write_shakespeare(folder, *, characters, examples, seed=0):
    """Writes windows of 80 characters of two repeated lines, and the next character, as CSV.

    Returns:
      Texts, the characters after them and the names of the speakers, in the order of the file.
    """
    rng = np.random.default_rng(seed)
    texts = []
    after = []
    names = []
    for character in range(characters):
        speech = LINES[character % 2] * 4
        for start in rng.integers(0, len(speech) - 81, examples):
            texts.append(speech[start : start + 80])
            after.append(speech[start + 80])
            names.append(f'THE_SONNETS_SPEAKER {character}')
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / 'shakespeare.csv', 'w', encoding='utf-8', newline='') as file:
        rows = csv.writer(file)
        rows.writerow(['character_id', 'x', 'y'])
        rows.writerows(zip(names, texts, after, strict=True))
    return texts, after, names
