#!/usr/bin/env python3
"""simulate_cluster.py -- a plan of 100,000 runs on 1,000 nodes that fail: how many shards, files and bytes, how much work is lost?

Follows the rules of `lab work`: task i of K does the runs i, i+K, ... with as many workers as its node has cores; a checkpoint a
minute; a shard published after each run and at most every half minute for checkpoints; a task that is stopped goes on from its
checkpoints, one whose node dies from the last that was published.  Lengths of runs are recorded ones, scaled.  Constants below
are measured (results/cluster.md says how).  Needs nothing but Python; the same seed gives the same numbers.
"""
import argparse
import heapq
import random

# Seconds of 30 runs of experiments/extrapolate.ini on one machine with other work: only their spread matters.
RECORDED = {'none': 26.22, 'sinusoidal': 23.11, 'learned': 27.93, 't5': 26.98, 'rope': 19.56}
PLAN_BYTES_PER_RUN = 665             # runs.jsonl
SHARD_BYTES_PER_RUN = 15_400         # 337 rows
SHARD_BYTES_EMPTY = 131_072
WEIGHT_BYTES, CHECKPOINT_BYTES = 408_000, 1_225_000      # 102,000 parameters
START_S = 5                          # of a task: reads the plan of 100,000 runs
MERGE_S_PER_RUN = 0.00040            # one core, rows already in the page cache
CHECKPOINT_S, PUBLISH_S, GRACE_S = 60, 30, 10

def parse():
    p = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    p.add_argument('--runs', type=int, default=100_000)
    p.add_argument('--nodes', type=int, default=1000)
    p.add_argument('--cores', type=int, default=16)
    p.add_argument('--tasks', type=int, default=1000)
    p.add_argument('--minutes', type=float, default=20, help='mean length of a run')
    p.add_argument('--limit-h', type=float, default=4, help='time limit of a task; then it is requeued')
    p.add_argument('--death-h', type=float, default=720, help='mean time until a node dies')
    p.add_argument('--preempt-h', type=float, default=24, help='mean time until a task is preempted')
    p.add_argument('--queue-min', type=float, default=10, help='mean wait of a requeued task')
    p.add_argument('--seed', type=int, default=0)
    return p.parse_args()

class Task:
    def __init__(self, lengths):
        self.left = [[s, 0.0] for s in lengths]          # seconds to do, seconds already kept in a checkpoint
        self.done, self.starts = 0, 0

def session(task, until, dies, o, total):
    """One start of a task that ends at `until` seconds at the latest; returns when it ended."""
    task.starts += 1
    workers, queue, ended, finished = [], list(task.left), START_S, []
    for _ in range(min(o.cores, len(queue))):
        run = queue.pop(0)
        heapq.heappush(workers, (START_S + run[0] - run[1], id(run), START_S, run))
    while workers and workers[0][0] <= until:
        ended, _, began, run = heapq.heappop(workers)
        finished.append(run)
        total['published'] += SHARD_BYTES_EMPTY + SHARD_BYTES_PER_RUN * (len(finished) + len(workers))
        total['publications'] += 1
        total['checkpoints'] += int((ended - began) / CHECKPOINT_S)
        if queue:
            run = queue.pop(0)
            heapq.heappush(workers, (ended + run[0] - run[1], id(run), ended, run))
    if not workers:
        until = ended
    for _, _, began, run in workers:                     # still open: kept up to a checkpoint
        ran = until - began
        total['checkpoints'] += int(ran / CHECKPOINT_S)
        kept = max(0.0, ran - random.uniform(0, CHECKPOINT_S + PUBLISH_S)) if dies else ran
        total['lost_s'] += ran - kept
        run[1] += kept
    quiet = int(until / PUBLISH_S)
    total['published'] += quiet * (SHARD_BYTES_EMPTY + SHARD_BYTES_PER_RUN * (len(finished) + len(workers)) // 2)
    total['publications'] += quiet
    gone = set(map(id, finished))
    task.left = [r for r in task.left if id(r) not in gone]
    task.done += len(finished)
    wrote = finished or workers
    total['shards'] += bool(wrote)
    total['shard_bytes'] += SHARD_BYTES_EMPTY + SHARD_BYTES_PER_RUN * (len(finished) + len(workers)) if wrote else 0
    total['open_files'].append(len(workers))
    return until

def simulate(o):
    random.seed(o.seed)
    spread = [s / (sum(RECORDED.values()) / len(RECORDED)) for s in RECORDED.values()]
    lengths = [o.minutes * 60 * random.choice(spread) * random.lognormvariate(0, 0.2) for _ in range(o.runs)]
    tasks = [Task(lengths[i::o.tasks]) for i in range(o.tasks)]
    total = dict(published=0, publications=0, checkpoints=0, lost_s=0.0, shards=0, shard_bytes=0, open_files=[], deaths=0, stops=0, limits=0)
    free, waiting, makespan = [0.0] * min(o.nodes, o.tasks), [(0.0, i) for i in range(o.tasks)], 0.0
    heapq.heapify(free)
    heapq.heapify(waiting)
    while waiting:
        ready, i = heapq.heappop(waiting)
        start = max(ready, heapq.heappop(free))
        ends = {'limits': o.limit_h * 3600 - 180, 'deaths': random.expovariate(1 / (o.death_h * 3600)), 'stops': random.expovariate(1 / (o.preempt_h * 3600))}
        why = min(ends, key=ends.get)
        took = session(tasks[i], ends[why], why == 'deaths', o, total)
        heapq.heappush(free, start + took)
        makespan = max(makespan, start + took)
        if tasks[i].left:
            total[why] += 1
            heapq.heappush(waiting, (start + took + GRACE_S + random.expovariate(1 / (o.queue_min * 60)), i))
    assert sum(t.done for t in tasks) == o.runs
    return total, makespan, sum(lengths), max(t.starts for t in tasks)

def main():
    o = parse()
    t, makespan, work, starts = simulate(o)
    mb = 1e6
    rows = [
        ('runs, nodes, cores, tasks', f'{o.runs:,}, {o.nodes:,}, {o.cores}, {o.tasks:,}'),
        ('mean run', f'{o.minutes:g} min'),
        ('time until all is done (no failures, no queue: %.1f h)' % (work / 3600 / min(o.nodes, o.tasks) / o.cores), f'{makespan / 3600:.1f} h'),
        ('nodes that died, tasks preempted, time limits', f"{t['deaths']}, {t['stops']}, {t['limits']}"),
        ('most starts of one task', f'{starts}'),
        ('work lost', f"{t['lost_s'] / 3600:.1f} core-hours of {work / 3600:,.0f} ({100 * t['lost_s'] / work:.3f} %)"),
        ('plan', f'{o.runs * PLAN_BYTES_PER_RUN / mb:,.0f} MB'),
        ('shards', f"{t['shards']:,}, {t['shard_bytes'] / mb:,.0f} MB"),
        ('weights', f'{o.runs:,} files, {o.runs * WEIGHT_BYTES / mb:,.0f} MB'),
        ('checkpoints at most at once', f'{2 * sum(sorted(t["open_files"])[-o.nodes:]):,} to {2 * o.nodes * o.cores:,} files, '
                                        f'{2 * o.nodes * o.cores * CHECKPOINT_BYTES / mb:,.0f} MB'),
        ('files on the shared disk at the end', f"{t['shards'] + o.runs + 3:,}"),
        ('written to it: checkpoints, shards', f"{t['checkpoints'] * CHECKPOINT_BYTES / makespan / mb:,.0f} MB/s, {t['published'] / makespan / mb:,.0f} MB/s"),
        ('publications', f"{t['publications']:,}, {t['publications'] / makespan:.0f} a second"),
        ('merge of all shards', f"{o.runs * MERGE_S_PER_RUN + t['shards'] * 0.002:.0f} s"),
        ('merged database', f'{o.runs * SHARD_BYTES_PER_RUN / mb:,.0f} MB'),
    ]
    for name, value in rows:
        print(f'| {name} | {value} |')

main()
