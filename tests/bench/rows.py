"""What ./dev bench queue measures: one row each."""
from dataclasses import dataclass, replace
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

    @property
    def external(self):
        """Is the peer a program that is not ours?"""
        return self.peer in (CLIENT_GO, 'beanstalkd', 'Redis')

    def alone(self):
        return replace(self, peer='', theirs=None)


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


def dispatch(hosts, peer, command, goal=''):
    keys = size(*{1: (20000, 1000), 4: (40000, 2000), 16: (60000, 4000)}[hosts])
    return Row(f'dispatch.product.{hosts}', 'keys/s', Side(('bench_dispatch', 'product', str(hosts), keys, 'DIR'), metric('rate')), peer,
               Side((*command, str(hosts), keys, *(['DIR'] if command[0] == 'bench_peers' else [])), metric('rate')), goal, True)


def dispatches(hosts):
    return [dispatch(hosts, 'beanstalkd', ('bench_peers', 'beanstalkd'), '1'), dispatch(hosts, 'Redis', ('bench_peers', 'redis'), '1'),
            dispatch(hosts, 'SEQPACKET', ('bench_floor', 'seqpacket')), dispatch(hosts, 'shared memory', ('bench_floor', 'shm'))]


def latency(name, goal):
    def us(printed):
        return printed[name] / 1000
    times = size(1000, 50)
    return Row('latency.idle.' + name, 'us', Side(('bench_dispatch', 'latency', times, 'DIR'), us), 'SEQPACKET',
               Side(('bench_floor', 'latency', times), us), goal)


def scale(kind, n, quick, base, unit):
    """Beside the same with few others: 1 is a cost that does not grow."""
    def side(others, small):
        return Side(('bench_scale', kind, size(others, small), 'DIR'), metric('cycle'))
    return Row(f'scale.{kind}.{n}', 'CPU ns/key', side(n, quick), f'{base:,} {unit}', side(base, min(base, 100)), '1')


def workers(hosts):
    keys = size(20000, 500)

    def side(n):
        return Side(('bench_dispatch', 'workers', size(n, min(n, 8)), keys, 'DIR'), metric('broker-cpu'))
    return Row(f'scale.workers.{hosts}', 'CPU ns/key', side(hosts), '1 worker', side(1), '1')


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
    core('growth', 'growth', None, 'growth', 'ours at most 5', 'CPU ms', 1e-6),
    core('recover', 'recover', None, 'recover', 'ours at most 50', 'ms', 1e-6),
    *dispatches(1), *dispatches(4), *dispatches(16),
    latency('p50', '0.67'),
    latency('p99', '0.33'),
    *[scale(kind, n, quick, 1000, 'keys') for kind in ('ready', 'waiting', 'other') for n, quick in
      ((10000, 200), (100000, 500), (1000000, 2000))],
    *[scale('running', n, n, 1, 'lease') for n in (16, 256)],
    *[workers(n) for n in (16, 64, 256)],
]
