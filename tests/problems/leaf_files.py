"""Makes the contents of LEAF's JSON files."""


def leaf(rows, labels, users):
    """Returns what LEAF's JSON holds of examples, in the order of their users' first ones."""
    data = {}
    for user, row, label in zip(users, rows, labels, strict=True):
        user_data = data.setdefault(user, {'x': [], 'y': []})
        user_data['x'].append(row)
        user_data['y'].append(label)
    return leaf_of(data)


def leaf_of(data):
    """Returns what LEAF's JSON holds of users, given entries ``x`` and ``y`` by user."""
    counts = [len(user_data['y']) for user_data in data.values()]
    return {'users': list(data), 'num_samples': counts, 'user_data': data}
