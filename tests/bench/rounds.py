"""What the scripts of ./dev bench share: measurements in interleaved rounds, and their table.

Each measurement is a fresh process that prints "NAME VALUE" lines (bench.h). A round runs every measurement once, ours and the
peers' in turn, so that what disturbs the machine disturbs all. The ratio of a row says how many times better ours is (1 = equal);
it is taken within a round; what is printed are medians, and the least and the greatest ratio of all rounds."""
import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from typing import Callable, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT_GO = 'client-go 0.20.2'


@dataclass(frozen=True)
class Side:
    command: tuple  # program and arguments; functions are sizes: size(options); in texts DIR is a folder on tmpfs, others see run()
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
    return SIZES.setdefault((n, quick), lambda options: quick if options.quick else n)


SIZES: dict = {}


def metric(name):
    return lambda printed: printed[name]


def say(text):
    print(text, file=sys.stderr, flush=True)


class Failed(Exception):
    pass


class Runner:
    """Runs measurements, each in a folder of its own that is removed with all that is in it."""

    def __init__(self, options, folder, places):
        self.options, self.folder, self.places, self.runs = options, folder, places, 0
        self.bin = os.path.abspath(options.bin)

    def words(self, command, places):
        def word(w):
            w = str(w(self.options)) if callable(w) else w
            for name, value in places.items():
                w = w.replace(name, value)
            return w
        return [word(w) for w in command]

    def text(self, command):
        return ' '.join(self.words(command, {}))

    def run(self, command):
        self.runs += 1
        folder = os.path.join(self.folder, str(self.runs))
        os.mkdir(folder)
        words = self.words(command, {'DIR': folder, **self.places})
        words[0] = os.path.join(self.bin, words[0])  # the peer's is absolute
        child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=folder)
        try:
            out, _ = child.communicate(timeout=3600)
        finally:
            child.kill()
            child.wait()
            shutil.rmtree(folder, ignore_errors=True)
        if child.returncode:
            raise Failed(f'{self.text(command)}: status {child.returncode}')
        values = {name: float(value) for name, value in (line.split() for line in out.splitlines())}
        if getattr(self.options, 'cpu', False):
            values.update({name: values[name + '/cpu'] for name in values if name + '/cpu' in values})
        return values


def machine():
    """What it was measured on, in one line."""
    with open('/proc/cpuinfo', encoding='utf-8') as f:
        models = [line.split(':', 1)[1].strip() for line in f if line.startswith('model name')]
    load = os.getloadavg()[0]
    return f'{len(models)} processors ({models[0] if models else "?"}), Linux {os.uname().release}, load {load:.1f} at the start'


def rows_of(all_rows, names):
    """A name stands for itself and for all below it: core is core.cycle, core.cycle.64, ..."""
    for name in names:
        if not any(r.bench == name or r.bench.startswith(name + '.') for r in all_rows):
            raise Failed(f'no benchmark is named {name}; there are: {" ".join(r.bench for r in all_rows)}')
    return [r for r in all_rows if not names or any(r.bench == n or r.bench.startswith(n + '.') for n in names)]


def measure(rows, rounds, runner):
    commands = []
    for row in rows:
        for side in filter(None, (row.ours, row.theirs)):
            if side.command not in commands:
                commands.append(side.command)
    values = [{} for _ in range(rounds)]
    for n in range(rounds):
        # every other round backwards: nobody always runs after the same neighbour
        for command in commands if n % 2 == 0 else reversed(commands):
            say(f'round {n + 1} of {rounds}: {runner.text(command)}')
            values[n][command] = runner.run(command)
    return values


def result(row, values):
    def of(side):
        return [side.value(v[side.command]) for v in values]

    ours = of(row.ours)
    r = {'bench': row.bench, 'unit': row.unit, 'ours': statistics.median(ours), 'peer': None, 'theirs': None,
         'ratio': None, 'min': None, 'max': None, 'rounds': len(values)}
    if row.theirs:
        theirs = of(row.theirs)
        r.update(peer=row.peer, theirs=statistics.median(theirs))
        if min(ours + theirs) > 0:  # nothing, and an answer before the question, have no ratio
            ratios = [(o / t if row.higher else t / o) for o, t in zip(ours, theirs)]
            r.update(ratio=statistics.median(ratios), min=min(ratios), max=max(ratios))
    return {k: (float(f'{v:.4g}') if isinstance(v, float) else v) for k, v in r.items()}


def number(v, digits=4):
    return '' if v is None else f'{v:,.0f}' if abs(v) >= 1000 else f'{v:.{digits}g}'


def table(rows, results, markdown):
    head = ['bench', 'unit', 'ours', 'peer', 'theirs', 'ratio', 'min', 'max', 'goal']
    lines = [head] + [[r['bench'], r['unit'], number(r['ours']), r['peer'] or '', number(r['theirs']), number(r['ratio'], 3),
                       number(r['min'], 3), number(r['max'], 3), row.goal] for row, r in zip(rows, results)]
    if markdown:
        lines.insert(1, ['---'] * len(head))
        return '\n'.join('| ' + ' | '.join(l) + ' |' for l in lines)
    wide = [max(len(l[i]) for l in lines) for i in range(len(head))]
    right = {2, 4, 5, 6, 7}
    return '\n'.join('  '.join(c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(l, wide))).rstrip() for l in lines)


def parse(name, description, add_options):
    p = argparse.ArgumentParser(prog=f'./dev bench {name}', description=description)
    p.add_argument('-o', '--output', choices=['table', 'json', 'markdown'], default='table')
    p.add_argument('--quick', action='store_true', help='small sizes, two rounds: to see that it works, not how fast')
    p.add_argument('--rounds', type=int, help='5 unless given')
    p.add_argument('--ours', action='store_true', help='leave the peers out, and what they need')
    p.add_argument('--bin', default=os.environ.get('BIN'), help=argparse.SUPPRESS)
    p.add_argument('--cache', default='/nonexistent', help=argparse.SUPPRESS)
    p.add_argument('names', metavar='NAME', nargs='*', help='a row, or the beginning of several: core.cycle, core; all unless given')
    add_options(p)
    return p.parse_args()


def print_results(options, rows, results, rounds):
    for r in results if getattr(options, 'cpu', False) else []:
        if r['bench'].startswith('core.') and 'bytes' not in r['unit'] and 'CPU' not in r['unit']:
            r['unit'] = 'CPU ' + r['unit']
    if options.output == 'json':
        for r in results:
            print(json.dumps(r))
        return
    if options.output == 'markdown':
        print(f'{machine()}; {rounds} rounds.\n')
    print(table(rows, results, options.output == 'markdown'))


def bench(options, all_rows, peer, around):
    rows = rows_of(all_rows, options.names)
    rounds = options.rounds or (2 if options.quick else 5)
    if options.ours:
        named = {r.bench for r in rows if not r.external}
        rows = list({r.bench: r.alone() for r in rows if r.external and r.bench not in named}.values()) + [r for r in rows if not r.external]
        rows.sort(key=lambda r: [x.bench for x in all_rows].index(r.bench))
    places = {}
    if any(r.peer == CLIENT_GO for r in rows):
        build = [os.path.join(HERE, '../kube/go-build'), options.cache, os.path.join(HERE, peer)]
        places['PEER'] = subprocess.run(build, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    say(machine())
    for s in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(s, lambda number, frame: sys.exit(128 + number))
    folder = tempfile.mkdtemp(prefix=f'reconciled-bench.{os.getpid()}.', dir='/dev/shm')
    try:
        with around(options, rows, folder) as more:
            values = measure(rows, rounds, Runner(options, folder, {**places, **more}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print_results(options, rows, [result(r, values) for r in rows], rounds)


def run(name, description, rows, peer, add_options=lambda parser: None, around=lambda options, rows, folder: contextlib.nullcontext({})):
    """The script's main: its rows; the Go program PEER in their commands; what is there around all rounds, as a context manager whose
    value says what other texts in commands are."""
    try:
        bench(parse(name, description, add_options), rows, peer, around)
    except (Failed, subprocess.SubprocessError) as e:
        sys.exit(f'bench: {e}')
    except KeyboardInterrupt:
        sys.exit(130)
