/**
 * The chaos matrix as data: each row is a fault, the configurations that it is tried with, and what is
 * promised of lateness. Times are those of a cell: leases and terms of four seconds, a rescuer that looks
 * each second. `npm run chaos -- --list` shows it; docs/explanation/chaos.md has what came of it.
 */
import { deleteTopics, emptySqs, killKafka, rebalance, troubleSqs } from './carrier-faults.ts'
import { type Configuration, configurations } from './configurations.ts'
import type { Fault } from './fault.ts'
import type { GroundKind } from './grounds.ts'
import { cutLane, wrongClock } from './node-faults.ts'
import {
  cutConnections,
  exhaustConnections,
  fillDisk,
  holdTransaction,
  promoteStandby,
  restartPostgres,
} from './postgres-faults.ts'
import { killEachRole, nothing, stopHolder, stopWorker } from './process-faults.ts'
import { failOverRedis, fillRedis, flushRedis, killRedis } from './redis-faults.ts'

export interface Cell {
  readonly name: string
  /** What happens, in words; a row of the page. */
  readonly title: string
  readonly configurations: readonly Configuration[]
  readonly ground: GroundKind
  readonly fault: Fault
  /** The most that something may be late because of the fault, and why. */
  readonly lateMs: number
  readonly why: string
  /** Tried in each CI run with these. */
  readonly ci: readonly Configuration[]
}

/** For two busy cores: a process that gets no turn is late by no fault of the protocol. */
export const allowanceMs = 2_500

const lease = 4_000
const term = 4_000
const rescue = 1_000
const withRedis: readonly Configuration[] = ['redis', 'redis+kafka']
const withKafka: readonly Configuration[] = ['redis+kafka']
const withSqs: readonly Configuration[] = ['sqs']

const cell = (
  name: string,
  title: string,
  fault: Fault,
  promise: readonly [lateMs: number, why: string],
  more: Partial<Pick<Cell, 'configurations' | 'ground' | 'ci'>> = {},
): Cell => ({
  name,
  title,
  fault,
  lateMs: promise[0],
  why: promise[1],
  configurations: configurations,
  ground: 'plain',
  ci: [],
  ...more,
})

const aLease = [
  lease + rescue + 1_000,
  'a lease, the rescuer, and the pause before the next attempt',
] as const
const direct = [1_500, 'until runs are claimed directly'] as const
const aTerm = [term + 500, 'a term'] as const

export const cells: readonly Cell[] = [
  cell('calm', 'nothing', nothing, [500, 'nothing']),
  cell('kill-roles', '`kill -9` of each role in turn', killEachRole, aLease, { ci: ['postgres'] }),
  cell('stop-scheduler', 'a scheduler is stopped past its term, and wakes', stopHolder, aTerm),
  cell('stop-worker', 'a worker is stopped past its lease, and wakes', stopWorker, aLease),
  cell('restart-postgres', 'Postgres is killed, and stopped for 3 s', restartPostgres, [
    3_000 + 3_000,
    'the stop, and reconnecting with pauses',
  ]),
  cell(
    'promote-standby',
    'Postgres dies, its synchronous standby is promoted',
    promoteStandby,
    [1_000 + 6_000, 'until the standby is promoted, and reconnecting with pauses'],
    { ground: 'standby' },
  ),
  cell('cut-connections', 'connections to Postgres are cut at random', cutConnections, aLease),
  cell('no-connections', 'all connections of Postgres are taken for 4 s', exhaustConnections, [
    4_000 + lease + rescue + 1_000,
    'the 4 s, and a lease that could not be renewed',
  ]),
  cell('held-transaction', 'a transaction is held open all the while', holdTransaction, [500, 'nothing']),
  cell(
    'full-disk',
    'the disk of Postgres is full for 4 s',
    fillDisk,
    [4_000 + lease + rescue + 1_000, 'the 4 s, and a lease that could not be renewed'],
    { ground: 'small disk' },
  ),
  cell(
    'flush-redis',
    'Redis is emptied (`FLUSHALL`), three times',
    flushRedis,
    [1_000, 'until it is noticed'],
    { configurations: withRedis, ci: ['redis'] },
  ),
  cell(
    'kill-redis',
    'Redis is killed, away for 6 s, and back empty',
    killRedis,
    [1_000, 'until it is noticed'],
    { configurations: withRedis },
  ),
  cell('full-redis', 'Redis is full (`noeviction`) for 6 s', fillRedis, [1_000, 'until it is noticed'], {
    configurations: withRedis,
  }),
  cell(
    'replace-redis',
    'Redis fails over to a node that is empty',
    failOverRedis,
    [1_000, 'until it is noticed'],
    { configurations: withRedis, ground: 'spare redis' },
  ),
  cell('kill-kafka', 'the Kafka broker is killed, and away for 6 s', killKafka, direct, {
    configurations: withKafka,
    ci: withKafka,
  }),
  cell('delete-topics', 'topics of Kafka are deleted, twice', deleteTopics, direct, {
    configurations: withKafka,
  }),
  cell('rebalance', 'a stranger joins and leaves the group of the workers in a loop', rebalance, direct, {
    configurations: withKafka,
  }),
  cell('trouble-sqs', 'SQS is away, silent, throttled, broken, denied, 2 s each', troubleSqs, direct, {
    configurations: withSqs,
    ci: withSqs,
  }),
  cell('purge-sqs', 'the SQS queue is purged, four times', emptySqs, direct, { configurations: withSqs }),
  cell('clock-ahead', 'the wall clock of one node is an hour ahead', wrongClock, aLease, {
    ground: 'clock ahead',
  }),
  cell('clock-behind', 'the wall clock of one node is an hour behind', wrongClock, aLease, {
    ground: 'clock behind',
  }),
  cell('cut-from-postgres', 'a node is cut off from Postgres for 6.5 s', cutLane('postgres'), aLease, {
    ground: 'other host',
    ci: ['redis'],
  }),
  cell('cut-from-kafka', 'a node is cut off from Kafka for 6.5 s', cutLane('kafka'), direct, {
    ground: 'other host',
    configurations: withKafka,
  }),
  cell('cut-from-sqs', 'a node is cut off from SQS for 6.5 s', cutLane('sqs'), direct, {
    ground: 'other host',
    configurations: withSqs,
  }),
  cell('cut-from-redis', 'a node is cut off from Redis for 6.5 s', cutLane('redis'), aTerm, {
    ground: 'other host',
    configurations: withRedis,
  }),
]
