// How the processes keep the virtual time of queues in common: what is read and noted, and when.
import { describe, expect, test } from 'vitest'
import { maxQueues } from '../../packages/server/src/domain/fair-queue.ts'
import { createFairTags } from '../../packages/server/src/engine/fair-tags.ts'
import type { QueueProgress } from '../../packages/server/src/ports/queue-progress.ts'
import { createVirtualClock } from '../support/virtual-clock.ts'

const run = (queue = 'default', tenantId = 'a') => ({ queue, tenantId, weight: 1, priority: 0 })

/** A table of progress in memory, and processes that share it. */
function rig() {
  const clock = createVirtualClock(0)
  const table = new Map<string, number>()
  const calls = { read: 0, note: 0, forget: 0 }
  let broken = false
  const guard = <T>(answer: T): Promise<T> =>
    broken ? Promise.reject(new Error('no database')) : Promise.resolve(answer)
  const progress: QueueProgress = {
    read: (queues) => {
      calls.read++
      return guard(queues.map((queue) => ({ queue, tag: table.get(queue) ?? 0 })))
    },
    note: async (claimed) => {
      calls.note++
      await guard(undefined)
      for (const { queue, tag } of claimed) table.set(queue, Math.max(tag, table.get(queue) ?? 0))
    },
    forgetIdle: () => guard(void calls.forget++),
  }
  const process = () => createFairTags({ clock, progress })
  return { clock, table, calls, process, break: (value: boolean) => void (broken = value) }
}

describe('a process that enqueues and does not claim', () => {
  test('starts where the service stands', async () => {
    const { table, process } = rig()
    table.set('default', 5_000)
    const tags = process()
    expect(() => tags.next(run())).toThrow('default')
    await tags.ready(['default'])
    expect(tags.next(run())).toBe(5_001)
  })

  test('stays with it closely, at four reads a second however many enqueue', async () => {
    const { clock, table, calls, process } = rig()
    const tags = process()
    for (let ms = 0; ms < 10_000; ms += 10) {
      table.set('default', ms)
      await Promise.all([tags.ready(['default']), tags.ready(['default', 'default'])])
      expect(ms - (tags.virtualTime('default') ?? 0)).toBeLessThan(250)
      await clock.advance(10)
    }
    expect(calls.read).toBe(40)
    await clock.advance(60_000)
    expect(calls.read).toBe(40)
  })

  test('reads again what was forgotten for other queues, and one in use is not forgotten', async () => {
    const { table, process } = rig()
    const tags = process()
    table.set('default', 5_000).set('idle', 7_000)
    await tags.ready(['idle', 'default'])
    for (let n = 0; n < maxQueues - 1; n++) {
      await tags.ready([`evil-${n}`])
      tags.next(run(`evil-${n}`, 'evil'))
      if (n % 100 === 0) tags.next(run())
    }
    expect(tags.virtualTime('idle')).toBeUndefined()
    expect(tags.virtualTime('default')).toBe(5_000)
    await tags.ready(['idle'])
    expect(tags.next(run('idle'))).toBe(7_001)
  })

  test('a database that fails matters only where nothing is known', async () => {
    const { clock, table, process, ...it } = rig()
    const tags = process()
    table.set('default', 9)
    await tags.ready(['default'])
    it.break(true)
    await clock.advance(5_000)
    await tags.ready(['default'])
    expect(tags.next(run())).toBe(10)
    await expect(tags.ready(['other'])).rejects.toThrow('no database')
    it.break(false)
    await tags.ready(['other'])
    expect(tags.next(run('other'))).toBe(1)
  })
})

describe('a process that claims', () => {
  test('notes it at once after a pause, then four times a second at most; the greatest wins', async () => {
    const { clock, table, calls, process } = rig()
    const [first, second] = [process(), process()]
    first.observeClaimed('default', 100)
    await clock.advance(0)
    expect(table.get('default')).toBe(100)
    for (let ms = 0; ms < 5_000; ms += 10) {
      first.observeClaimed('default', 100 + ms)
      second.observeClaimed('default', 50 + ms)
      await clock.advance(10)
    }
    expect(calls.note).toBeLessThanOrEqual(44)
    await clock.advance(1_000)
    expect(table.get('default')).toBe(5_090)
    const before = calls.note
    first.observeClaimed('default', 3)
    await clock.advance(10_000)
    expect(calls.note).toBe(before)
  })

  test('tries again what could not be noted, and notes the last of it when it closes', async () => {
    const { clock, table, process, ...it } = rig()
    const tags = process()
    it.break(true)
    tags.observeClaimed('default', 7)
    await clock.advance(3_000)
    expect(table.size).toBe(0)
    it.break(false)
    await clock.advance(1_000)
    expect(table.get('default')).toBe(7)
    tags.observeClaimed('default', 8)
    await tags.close()
    expect(table.get('default')).toBe(8)
    expect(clock.waiting()).toBe(0)
  })

  test('keeps a queue known that stands still, and has idle ones forgotten now and then', async () => {
    const { clock, table, calls, process } = rig()
    const tags = process()
    for (let hours = 0; hours < 5; hours++) {
      table.clear()
      tags.observeClaimed('default', 7)
      await clock.advance(3_600_000)
      expect(table.get('default')).toBe(7)
    }
    expect(calls).toEqual({ read: 0, note: 5, forget: 4 })
  })
})
