"""Each public type of the package has a name of its own."""

import ast
import collections
import pathlib
import re

import fedjax_links

FOLDER = pathlib.Path(fedjax_links.__file__).parent
_CAMEL_CASE = re.compile(r'[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*$')


def type_names(source):
    """Names of the public classes and type aliases that a module defines at its top."""
    for node in ast.parse(source).body:
        names = []
        if isinstance(node, ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [
                target.id for target in node.targets if isinstance(target, ast.Name)
            ]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names = [node.target.id]
        yield from filter(_CAMEL_CASE.match, names)


def test_no_two_public_types_share_a_name():
    homes = collections.defaultdict(list)
    for path in sorted(FOLDER.rglob('*.py')):
        for name in type_names(path.read_text()):
            homes[name].append(str(path.relative_to(FOLDER)))
    assert {'Algorithm', 'Results'} <= homes.keys()
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_classes_and_aliases_count_and_constants_do_not():
    source = 'class A1b: ...\nPair = tuple[int, int]\nT: TypeAlias = int\nLIMIT = 3\n'
    source += 'class _Private: ...\nnumber = 3\nOut: TypeAlias = int\n'
    assert list(type_names(source)) == ['A1b', 'Pair', 'Out']
