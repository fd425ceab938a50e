// What a worker holds beyond its slots: how much, what becomes of it, and which claims are over by it.
import { describe, expect, test } from 'vitest'
import { createClaimBook } from '../../packages/server/src/engine/claim-book.ts'
import { createSlots } from '../../packages/server/src/engine/slots.ts'
import { createTurnover } from '../../packages/server/src/engine/turnover.ts'
import { createWaitingRuns } from '../../packages/server/src/engine/waiting-runs.ts'
import type { ClaimedRun } from '../../packages/server/src/ports/run-queue.ts'

const runOf = (runId: string, claim = 1): ClaimedRun => ({ runId, claim }) as unknown as ClaimedRun

/** Time that the test moves. */
function handClock() {
  let nowMs = 0
  const timers: { readonly atMs: number; readonly fn: () => void; canceled: boolean }[] = []
  return {
    monotonicMs: () => nowMs,
    nowMs: () => nowMs,
    sleep: () => Promise.resolve(),
    setTimer(delayMs: number, fn: () => void) {
      const timer = { atMs: nowMs + delayMs, fn, canceled: false }
      timers.push(timer)
      return { cancel: () => void (timer.canceled = true) }
    },
    move(ms: number) {
      nowMs += ms
      for (const timer of timers.splice(0)) {
        if (timer.canceled) continue
        if (timer.atMs <= nowMs) timer.fn()
        else timers.push(timer)
      }
    },
  }
}

describe('turnover', () => {
  test('a worker of long runs holds nothing ahead', () => {
    const clock = handClock()
    const turnover = createTurnover(clock)
    for (let n = 0; n < 20; n++) {
      turnover.released()
      clock.move(100)
    }
    expect(turnover.ahead()).toBe(0)
  })

  test('one of short runs holds what becomes free in 25 ms, up to a limit', () => {
    const clock = handClock()
    const turnover = createTurnover(clock)
    const release = (perMs: number, forMs: number): void => {
      for (let ms = 0; ms < forMs; ms++) {
        for (let n = 0; n < perMs; n++) turnover.released()
        clock.move(1)
      }
    }
    release(10, 1_000)
    expect(turnover.ahead()).toBeGreaterThan(200)
    expect(turnover.ahead()).toBeLessThan(300)
    release(1_000, 300)
    expect(turnover.ahead()).toBe(2_000)
    clock.move(200)
    expect(turnover.ahead()).toBe(0)
  })
})

describe('runs that wait for a handler', () => {
  function rig(count: number) {
    const clock = handClock()
    const book = createClaimBook()
    const slots = createSlots(count, clock, book)
    const begun: string[] = []
    const given: (readonly [string, readonly string[]])[] = []
    const waiting = createWaitingRuns({
      clock,
      slots,
      giveBack: (sessionId, runs) => void given.push([sessionId, runs.map((run) => run.runId)]),
    })
    const overs: (() => void)[] = []
    const add = (runId: string, sessionId = 's'): void =>
      waiting.add({
        sessionId,
        run: runOf(runId),
        begin() {
          begun.push(runId)
          overs.push(slots.begin())
        },
      })
    return { clock, slots, begun, given, waiting, add, over: () => overs.shift()?.() }
  }

  test('begin in their order, as many as there are slots', () => {
    const { begun, waiting, add, over } = rig(2)
    for (const runId of ['a', 'b', 'c', 'd']) add(runId)
    waiting.next()
    expect(begun).toEqual(['a', 'b'])
    over()
    waiting.next()
    expect(begun).toEqual(['a', 'b', 'c'])
  })

  test('go back to the queue when they have waited for a second', () => {
    const { clock, slots, given, add } = rig(0)
    add('a')
    clock.move(999)
    expect(given).toEqual([])
    clock.move(1)
    expect(given).toEqual([['s', ['a']]])
    expect(slots.busy()).toBe(0)
  })

  test('are given back together when they are canceled, and never begin', async () => {
    const { slots, begun, given, waiting, add } = rig(1)
    for (const runId of ['a', 'b', 'c']) add(runId)
    for (const held of slots.held().slice(1)) expect(held.abort('cancel')).toBe(true)
    await Promise.resolve()
    expect(given).toEqual([['s', ['b', 'c']]])
    waiting.next()
    expect(begun).toEqual(['a'])
  })

  test('of a lost session are let go, and not written about', async () => {
    const { slots, given, add } = rig(1)
    add('a')
    for (const held of slots.held()) expect(held.abort('lease_lost')).toBe(true)
    await Promise.resolve()
    expect(given).toEqual([])
    expect(slots.busy()).toBe(0)
  })

  test('are given back at a stop, session by session', () => {
    const { given, waiting, add } = rig(0)
    add('a', 'one')
    add('b', 'two')
    waiting.giveBack()
    expect(given).toEqual([
      ['one', ['a']],
      ['two', ['b']],
    ])
  })
})

describe('the book of claims', () => {
  test('a claim is over when all was started and nothing of it is held', () => {
    const book = createClaimBook()
    const { number } = book.open('s')
    const [a, b] = [runOf('a', number), runOf('b', number)]
    for (const run of [a, b]) book.take(run)
    book.started(number)
    book.leave(a)
    expect(book.open('s').overNumbers).toEqual([])
    book.leave(b)
    expect(book.open('s').overNumbers).toEqual([number])
    expect(book.open('s').overNumbers).toEqual([])
  })

  test('one whose answer is not there yet is not over, nor one with a run that was dropped', () => {
    const book = createClaimBook()
    const first = book.open('s').number
    expect(book.open('s').overNumbers).toEqual([])
    const run = runOf('a', first)
    book.take(run)
    book.started(first)
    book.drop(run)
    book.leave(run)
    expect(book.open('s').overNumbers).toEqual([])
  })

  test('a new session knows nothing of the claims of the one before', () => {
    const book = createClaimBook()
    const { number } = book.open('s')
    book.started(number)
    expect(book.open('t').overNumbers).toEqual([])
  })
})
