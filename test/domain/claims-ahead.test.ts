// What a worker holds beyond its slots: how much, what becomes of it, and which claims are over by it.
import { describe, expect, test } from 'vitest'
import { createClaimBook } from '../../packages/server/src/engine/claim-book.ts'
import {
  createIntake,
  type IntakeOptions,
  type IntakeParts,
} from '../../packages/server/src/engine/intake.ts'
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
    const acknowledged = Promise.withResolvers<boolean>()
    const waiting = createWaitingRuns({
      clock,
      slots,
      giveBack(sessionId, runs) {
        given.push([sessionId, runs.map((run) => run.runId)])
        return acknowledged.promise
      },
    })
    const overs: (() => void)[] = []
    const add = (runId: string, sessionId = 's', claim = 1): void =>
      waiting.add({
        sessionId,
        run: runOf(runId, claim),
        begin() {
          begun.push(runId)
          overs.push(slots.begin())
        },
      })
    const acknowledge = async (back: boolean): Promise<void> => {
      acknowledged.resolve(back)
      await Promise.resolve()
      await Promise.resolve()
    }
    return { clock, book, slots, begun, given, waiting, add, acknowledge, over: () => overs.shift()?.() }
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

  test.each(['timeout', 'cancel'])('of a claim that is over only when a %s gave them back', async (why) => {
    const { clock, book, slots, given, add, acknowledge } = rig(0)
    const { number } = book.open('s')
    add('a', 's', number)
    book.started(number)
    if (why === 'timeout') clock.move(1_000)
    else for (const held of slots.held()) held.abort('cancel')
    await Promise.resolve()
    expect(given).toEqual([['s', ['a']]])
    expect(book.open('s').overNumbers).toEqual([])
    await acknowledge(true)
    expect(book.open('s').overNumbers).toEqual([number])
  })

  test('of a claim that is never over when giving back failed', async () => {
    const { clock, book, add, acknowledge } = rig(0)
    const { number } = book.open('s')
    add('a', 's', number)
    book.started(number)
    clock.move(1_000)
    await acknowledge(false)
    expect(book.open('s').overNumbers).toEqual([])
    expect(book.open('s').overNumbers).toEqual([])
  })

  test('of a claim that is not over while one that waited begins', () => {
    const { book, slots, waiting } = rig(1)
    const { number } = book.open('s')
    const run = runOf('a', number)
    const held = { sessionId: 's', run, abort: () => false }
    waiting.add({ sessionId: 's', run, begin: () => slots.take(held) })
    book.started(number)
    waiting.next()
    expect(book.open('s').overNumbers).toEqual([])
    slots.release(held)
    expect(book.open('s').overNumbers).toEqual([number])
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

  test('one that is forgotten is never told', () => {
    const book = createClaimBook()
    const { number } = book.open('s')
    book.forget(number)
    book.started(number)
    expect(book.open('s').overNumbers).toEqual([])
  })

  test('a new session knows nothing of the claims of the one before', () => {
    const book = createClaimBook()
    const { number } = book.open('s')
    book.started(number)
    expect(book.open('t').overNumbers).toEqual([])
  })
})

describe('claims that take nothing', () => {
  test.each(['are empty', 'fail'])('are not kept in the book when they %s', async (how) => {
    const book = createClaimBook()
    const forgotten: number[] = []
    const nobody = { emit() {}, observe() {}, observeClaimed() {}, lapsed() {}, suspect() {}, report() {} }
    const options = {
      queue: {
        claim: async () => {
          if (how === 'fail') throw new Error('The connection broke.')
          return { runs: [], alive: true, nowMs: 0 }
        },
      },
      clock: handClock(),
      databaseClock: nobody,
      events: nobody,
      tags: nobody,
      routes: ['http'],
      session: { ...nobody, current: () => 's' },
      slots: { free: () => 10 },
      start() {},
      deadlineMarginMs: 1,
      overlaps: true,
      book: { ...book, forget: (number: number) => void forgotten.push(number) },
    }
    let left = 2
    const parts = {
      shares: { beginPass() {}, gave() {}, spread: () => (left-- > 0 ? [{ queue: 'q', limit: 1 }] : []) },
      marks: { ...nobody, range: () => ({ minTag: 0, maxTag: Infinity }) },
      definitions: {},
      strays: nobody,
    }
    const intake = createIntake(options as unknown as IntakeOptions, parts as unknown as IntakeParts)
    await intake('s', new AbortController().signal).catch(() => undefined)
    expect(forgotten).toEqual(how === 'fail' ? [1] : [1, 2])
  })
})
