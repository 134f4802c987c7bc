"""Sections of configs with some fields."""


def links(name, **options):
    return {'links': {'name': name, **options}}


def bernoulli(**options):
    return links('bernoulli', probs={'name': 'equal', 'value': 0.5}, **options)


def client(**options):
    return {'client': {'learning_rate': 0.1, 'local_steps': 1, **options}}
