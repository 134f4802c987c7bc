"""Pickles of plain containers, read without running what they say.

A pickle is a program for a small machine. Here that machine knows numbers, texts, None, lists,
tuples and dictionaries; an instruction that would import, call or build anything else is refused
before anything behind it is read. The module ``pickle`` is not used.
"""

import os
import pickletools
from collections.abc import Callable
from typing import Any

from fedjax_links import errors

_VALUES = {
    *('INT', 'BININT', 'BININT1', 'BININT2', 'LONG', 'LONG1', 'LONG4', 'FLOAT', 'BINFLOAT'),
    *('STRING', 'BINSTRING', 'SHORT_BINSTRING'),
    *('UNICODE', 'BINUNICODE', 'SHORT_BINUNICODE', 'BINUNICODE8'),
}
"""Instructions whose argument is pushed."""

_CONSTANTS: dict[str, Callable[[], Any]] = {
    'NONE': lambda: None,
    'NEWTRUE': lambda: True,
    'NEWFALSE': lambda: False,
    'EMPTY_DICT': dict,
    'EMPTY_LIST': list,
    'EMPTY_TUPLE': tuple,
}
_TUPLES = {'TUPLE1': 1, 'TUPLE2': 2, 'TUPLE3': 3}
_PUT, _GET = ('PUT', 'BINPUT', 'LONG_BINPUT'), ('GET', 'BINGET', 'LONG_BINGET')


def load(path: str | os.PathLike[str]) -> Any:
    """The plain containers in a pickle.

    Args:
      path: the file, in any protocol.

    Returns:
      Numbers, texts, None, and lists, tuples and dictionaries of these.

    Raises:
      ValueError: for an instruction that is not needed for these, by name and byte, or a damaged
        file.
    """
    with errors.reading(path), open(path, 'rb') as file:
        data = file.read()
    position = 0
    machine = _Machine()
    try:
        for opcode, argument, at in pickletools.genops(data):
            position = at or 0
            if not machine.step(opcode.name, argument):
                what = f'{opcode.name} at byte {position}'
                raise errors.invalid('path', 'be a pickle of plain containers', what)
        return machine.result()
    except errors.InvalidError:
        raise
    except (AssertionError, LookupError, TypeError, AttributeError, ValueError) as error:
        said = f'{errors.described(error)} at byte {position}'
        raise errors.invalid('path', 'be an intact pickle', said) from error


class _Machine:
    """A stack cut by marks, and a memory."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memory: dict[int, Any] = {}

    def result(self) -> Any:
        """The one object that is left."""
        if len(self._stack) != 1 or self._marks:
            raise LookupError('no single result')
        return self._stack[0]

    def step(self, name: str, argument: Any) -> bool:
        """Does one instruction; false, with nothing done, if it is none for plain containers."""
        if name in _VALUES:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in ('PROTO', 'FRAME', 'STOP'):
            pass
        elif name == 'MARK':
            self._marks.append(len(self._stack))
        elif name in _PUT or name == 'MEMOIZE':
            self._memory[len(self._memory) if name == 'MEMOIZE' else int(argument)] = self._top()
        elif name in _GET:
            self._stack.append(self._memory[int(argument)])
        elif name in _TUPLES:
            self._stack.append(tuple(self._take(len(self._stack) - _TUPLES[name])))
        elif name in ('TUPLE', 'LIST'):
            items = self._take(self._marks.pop())
            self._stack.append(tuple(items) if name == 'TUPLE' else items)
        elif name == 'DICT':
            self._stack.append(_pairs(self._take(self._marks.pop())))
        elif name in ('APPEND', 'APPENDS'):
            items = self._take(self._marks.pop() if name == 'APPENDS' else len(self._stack) - 1)
            self._into(list).extend(items)
        elif name in ('SETITEM', 'SETITEMS'):
            items = self._take(self._marks.pop() if name == 'SETITEMS' else len(self._stack) - 2)
            self._into(dict).update(_pairs(items))
        else:
            return False
        return True

    def _top(self) -> Any:
        return self._stack[-1]

    def _into(self, kind: type) -> Any:
        if not isinstance(self._top(), kind):
            raise TypeError('no container to fill')
        return self._top()

    def _take(self, start: int) -> list[Any]:
        """Removes what lies from ``start`` on."""
        if start < (self._marks[-1] if self._marks else 0):
            raise LookupError('too little on the stack')
        items = self._stack[start:]
        del self._stack[start:]
        return items


def _pairs(items: list[Any]) -> dict[Any, Any]:
    return dict(zip(items[::2], items[1::2], strict=True))
