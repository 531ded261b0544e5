"""What ./dev bench queue measures: one row each."""
from dataclasses import dataclass
from typing import Callable, Optional

CLIENT_GO = 'client-go 0.20.2'


@dataclass(frozen=True)
class Side:
    command: tuple  # program and arguments; DIR is a folder on tmpfs; functions are sizes: size(quick)
    value: Callable  # of what it printed


@dataclass(frozen=True)
class Row:
    bench: str
    unit: str
    ours: Side
    peer: str = ''
    theirs: Optional[Side] = None
    goal: str = ''  # of the ratio, unless it says something else
    higher: bool = False  # is more better?


def size(n, quick):
    """A size, and the one with --quick. The same pair is the same function: commands are compared."""
    return SIZES.setdefault((n, quick), lambda small: quick if small else n)


SIZES: dict = {}
MILLION = size(1000000, 20000)


def metric(name):
    return lambda printed: printed[name]


def core(name, ours, theirs, value, goal, unit='ns/key', scale=1):
    def of(printed):
        return printed[value] * scale
    peer = Side(('peer', theirs, MILLION), of) if theirs else None
    return Row('core.' + name, unit, Side(('bench_core', ours, MILLION, 'DIR'), of), CLIENT_GO if theirs else '', peer, goal)


ROWS = [
    core('cycle', 'cycle', 'cycle', 'cycle', '2, better 4'),
    core('cycle.64', 'cycle.64', 'cycle', 'cycle', '3, better 6'),
    core('cycle.warm', 'cycle', 'cycle', 'warm-cycle', ''),
    core('cycle.64.warm', 'cycle.64', 'cycle', 'warm-cycle', ''),
    core('cycle.1', 'cycle.1', 'cycle.1', 'cycle', '1'),
    core('duplicate', 'duplicate', 'duplicate', 'add', '1'),
    core('delay', 'delay', 'delay', 'set', '3'),
    core('delay.due', 'delay', None, 'due', ''),
    core('bytes', 'bytes', 'bytes', 'bytes', 'ours at most 100', 'bytes/key'),
    core('bytes.waiting', 'bytes.waiting', 'bytes.waiting', 'bytes', '', 'bytes/key'),
    core('bytes.failing', 'bytes.failing', 'bytes.failing', 'bytes', '', 'bytes/key'),
    core('bytes.running', 'bytes.running', 'bytes.running', 'bytes', '', 'bytes/key'),
    core('recover', 'recover', None, 'recover', 'ours at most 50', 'ms', 1e-6),
]
