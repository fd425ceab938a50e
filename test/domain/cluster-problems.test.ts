// What is wrong with an installation: each problem by itself, in words that say what to do, and none where
// nothing is wrong.
import { clusterProblemCodes } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import {
  clusterProblems,
  clusterState,
  type ObservedCluster,
  type ObservedNode,
} from '../../packages/server/src/domain/cluster-problems.ts'

const node = (more: Partial<ObservedNode> = {}): ObservedNode => ({
  id: 'a',
  host: 'alpha',
  version: '1.0.0',
  roles: ['api', 'scheduler', 'worker', 'resolver'],
  alive: true,
  seenAgoMs: 1_000,
  skew: { ms: 3, errorMs: 1 },
  worker: {},
  parts: [],
  ...more,
})
const cluster = (more: Partial<ObservedCluster> = {}): ObservedCluster => ({
  nodes: [node()],
  shards: [{ nodeId: 'a' }, { nodeId: 'a' }],
  lag: { timersMs: 40, delayedMs: 0 },
  callsWait: true,
  ...more,
})

type Row = readonly [
  code: string,
  state: string,
  nodeId: string | null,
  words: RegExp,
  cluster: ObservedCluster,
]
const rows: readonly Row[] = [
  ['no_scheduler', 'failing', null, /start one/, cluster({ nodes: [node({ roles: ['worker'] })] })],
  ['no_worker', 'failing', null, /wait/, cluster({ nodes: [node({ worker: null })] })],
  ['shards_unheld', 'degraded', null, /1 of 2/, cluster({ shards: [{ nodeId: null }, { nodeId: 'a' }] })],
  [
    'timers_late',
    'degraded',
    null,
    /^A schedule .* 6 s/,
    cluster({ lag: { timersMs: 6_000, delayedMs: 0 } }),
  ],
  ['timers_late', 'failing', null, /^A delayed run/, cluster({ lag: { timersMs: 0, delayedMs: 61_000 } })],
  [
    'part_away',
    'degraded',
    'a',
    /alpha does without redis \(refused\)/,
    cluster({ nodes: [node({ parts: [{ part: 'redis', fault: 'refused' }] })] }),
  ],
  [
    'clock_skew',
    'degraded',
    'a',
    /alpha is 3600000 ms behind/,
    cluster({ nodes: [node({ skew: { ms: -3_600_000, errorMs: 2 } })] }),
  ],
  [
    'node_silent',
    'degraded',
    'b',
    /beta \(worker\) was last heard of 31 s ago/,
    cluster({
      nodes: [node(), node({ id: 'b', host: 'beta', roles: ['worker'], alive: false, seenAgoMs: 31_200 })],
    }),
  ],
  [
    'mixed_versions',
    'degraded',
    null,
    /1\.0\.0, 1\.1\.0/,
    cluster({ nodes: [node({ version: '1.1.0' }), node({ id: 'b' })] }),
  ],
]

describe('an installation', () => {
  it('in which all is well has no problem', () => {
    expect(clusterProblems(cluster())).toEqual([])
    expect(clusterState([])).toBe('ok')
  })

  it.each(rows)('%s: %s', (code, state, nodeId, words, observed) => {
    const problems = clusterProblems(observed)
    expect(problems).toMatchObject([{ code, nodeId, message: expect.stringMatching(words) as string }])
    expect(clusterState(problems)).toBe(state)
  })

  it('has a row above for each code of the contract', () => {
    expect(new Set(rows.map(([code]) => code))).toEqual(new Set(clusterProblemCodes))
  })

  it('is not blamed for a skew that may be the length of the way to the database', () => {
    const slow = node({ skew: { ms: 1_800, errorMs: 1_000 } })
    expect(clusterProblems(cluster({ nodes: [slow] }))).toEqual([])
    expect(clusterProblems(cluster({ nodes: [node({ skew: null })] }))).toEqual([])
  })

  it('without a worker is well as long as nothing waits for one', () => {
    expect(clusterProblems(cluster({ nodes: [node({ worker: null })], callsWait: false }))).toEqual([])
  })

  it('does not count the dead among the living', () => {
    const dead = node({ alive: false, version: '0.9.0', skew: { ms: 9_000, errorMs: 1 } })
    expect(clusterProblems(cluster({ nodes: [dead], shards: [] })).map(({ code }) => code)).toEqual([
      'no_scheduler',
      'no_worker',
      'node_silent',
    ])
  })
})
