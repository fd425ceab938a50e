// Following runs: how few questions are asked for however many who follow, what wakes whom, and what it costs
// where nobody follows. By a virtual clock, with a store that says what it was asked.
import { describe, expect, test } from 'vitest'
import { createLocalHints } from '../../packages/server/src/engine/local-hints.ts'
import { createRunWatcher } from '../../packages/server/src/engine/run-watcher.ts'
import { createWatchedRuns } from '../../packages/server/src/engine/watched-runs.ts'
import { followLog } from '../../packages/server/src/http/event-stream.ts'
import type { Hint } from '../../packages/server/src/ports/hints.ts'
import type { RunNews, WatchedPlace } from '../../packages/server/src/ports/run-watch.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const ended: RunNews = { chunks: [], more: false, end: { state: 'succeeded', reason: null } }
const never = new AbortController().signal

function rig() {
  const clock = createVirtualClock(0)
  const hints = createLocalHints()
  const published: Hint[] = []
  hints.subscribe((hint) => void published.push(hint))
  const looks: (readonly WatchedPlace[])[] = []
  const news = new Map<string, RunNews>()
  let failures = 0
  const emitted: string[] = []
  const watcher = createRunWatcher({
    clock,
    hints,
    random: { next: () => 0 },
    events: { emit: (name) => void emitted.push(name) },
    store: {
      standing: () => Promise.resolve(undefined),
      look(places) {
        looks.push(places)
        if (failures-- > 0) return Promise.reject(new Error('away'))
        return Promise.resolve(places.map(({ runId }) => news.get(runId)))
      },
    },
  })
  const wait = (runId: string, waitMs = 60_000, signal = never) =>
    watcher.next({ runId, after: null, waitMs, signal })
  const fail = (times: number): void => {
    failures = times
  }
  return { clock, hints, published, looks, news, watcher, wait, fail, emitted }
}

describe('a watcher', () => {
  test('asks nothing while nobody follows', async () => {
    const { clock, looks } = rig()
    await clock.advance(60_000)
    expect([looks.length, clock.waiting()]).toEqual([0, 0])
  })

  test('asks once for all who follow, each place once, at once and each second', async () => {
    const { clock, looks, news, wait } = rig()
    const all = ['a', 'a', 'b', 'c'].map((runId) => wait(runId))
    await clock.advance(10)
    expect(looks.map((places) => places.map(({ runId }) => runId))).toEqual([['a', 'b', 'c']])
    await clock.advance(5_000)
    expect(looks.length).toBe(6)
    for (const runId of ['a', 'b', 'c']) news.set(runId, ended)
    await clock.advance(1_000)
    expect(await Promise.all(all)).toEqual([ended, ended, ended, ended])
    await clock.advance(60_000)
    expect(looks.length).toBe(7)
  })

  test('is woken by a hint, and looks for that run alone', async () => {
    const { clock, looks, news, wait, hints } = rig()
    const [a] = [wait('a'), wait('b')]
    await clock.advance(100)
    news.set('a', ended)
    hints.publish({ topic: 'run', key: 'a' })
    hints.publish({ topic: 'run', key: 'unknown' })
    await clock.advance(20)
    expect(await a).toBe(ended)
    expect(looks.at(-1)?.map(({ runId }) => runId)).toEqual(['a'])
  })

  test('ends a wait in time, at a signal, and when it closes; then nothing waits any more', async () => {
    const { clock, wait, watcher } = rig()
    const gone = new AbortController()
    const waits = [wait('a', 500), wait('b', 60_000, gone.signal), wait('c')]
    await clock.advance(500)
    expect(await waits[0]).toBeUndefined()
    gone.abort()
    expect(await waits[1]).toBeUndefined()
    expect(watcher.waiting()).toBe(1)
    watcher.close()
    expect(await waits[2]).toBeUndefined()
    expect(await wait('d')).toBeUndefined()
    expect([watcher.waiting(), clock.waiting()]).toEqual([0, 0])
  })

  test('goes on after a look that failed', async () => {
    const { clock, news, wait, fail, emitted } = rig()
    fail(2)
    news.set('a', ended)
    const waiting = wait('a')
    await clock.advance(3_000)
    expect(await waiting).toBe(ended)
    expect(emitted).toEqual(['role_failed', 'role_failed'])
  })

  test('says that a run is followed, seldom', async () => {
    const { clock, published, wait } = rig()
    for (let count = 0; count < 30; count++) {
      void wait('a', 1_000)
      await clock.advance(1_000)
    }
    expect(published.filter(({ topic }) => topic === 'watch')).toHaveLength(3)
  })
})

describe('what is written', () => {
  test('is told of where somebody follows it, and no longer', async () => {
    const { clock, hints, published } = rig()
    const watched = createWatchedRuns({ hints, clock })
    const told = () => published.filter(({ topic }) => topic === 'run').map(({ key }) => key)
    watched.note([{ runId: 'a' }])
    hints.publish({ topic: 'watch', key: 'a' })
    watched.note([{ runId: 'a' }, { runId: 'b' }])
    expect(told()).toEqual(['a'])
    await clock.advance(31_000)
    watched.note([{ runId: 'a' }])
    expect(told()).toEqual(['a'])
  })
})

describe('a stream', () => {
  const line = { at: '2026-12-01T00:00:00Z', level: 'info', message: 'x' } as const
  const stream = { signal: never, closedBy: () => undefined, release: () => undefined }

  test('asks for the next page only when the one before was taken', async () => {
    const { clock, looks, news, watcher } = rig()
    const chunk = { attempt: 1, firstLine: 0, lastLine: 0, lines: [line], fullAfter: false }
    news.set('a', { chunks: [chunk], more: true, end: null })
    const events = followLog(watcher, stream, 'a', { attempt: 0, line: -1 }, 15_000)
    await events.next()
    await clock.advance(10_000)
    expect(looks).toEqual([])
    const first = events.next()
    await clock.advance(100)
    expect((await first).value).toContain('id: 1/0\n')
    await clock.advance(10_000)
    expect(looks).toHaveLength(1)
    news.set('a', { chunks: [{ ...chunk, firstLine: 1, lastLine: 1 }], more: false, end: null })
    const second = events.next()
    await clock.advance(100)
    await second
    expect(looks.map(([place]) => place?.after)).toEqual([
      { attempt: 0, line: -1 },
      { attempt: 1, line: 0 },
    ])
  })
})
