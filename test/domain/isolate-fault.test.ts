// One bad part does not hold up the others; a failure that is none of the parts' stops at once.
import { BelfryError } from '@belfry/contract'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isFaultOfRows, isolateFault } from '../../packages/server/src/engine/isolate-fault.ts'

const withCode = (code: string) => Object.assign(new Error(code), { code })

test('sets aside the bad ones and does the others once each, wherever they stand', async () => {
  const parts = fc.uniqueArray(fc.nat(200), { maxLength: 60 })
  await fc.assert(
    fc.asyncProperty(parts, fc.func(fc.boolean()), async (all, isBad) => {
      const done: number[] = []
      const aside: number[] = []
      await isolateFault(
        all,
        async (some) => {
          if (some.some((part) => isBad(part))) throw withCode('22P02')
          done.push(...some)
        },
        (part) => void aside.push(part),
      )
      expect(done).toEqual(all.filter((part) => !isBad(part)))
      expect(aside).toEqual(all.filter((part) => isBad(part)))
    }),
  )
})

test('one bad part among 500 costs some twenty tries', async () => {
  let tries = 0
  const all = Array.from({ length: 500 }, (_, part) => part)
  await isolateFault(
    all,
    async (some) => {
      tries++
      if (some.includes(77)) throw new Error('bad')
    },
    () => undefined,
  )
  expect(tries).toBeLessThanOrEqual(20)
})

test("an error that is none of the parts' ends it at once and sets nothing aside", async () => {
  const tried: number[][] = []
  const work = async (some: readonly number[]) => {
    tried.push([...some])
    throw some.length === 4 ? new Error('bad') : new BelfryError('database_unavailable', 'away')
  }
  const setAside = (part: number) => {
    throw new Error(`set aside: ${part}`)
  }
  await expect(isolateFault([1, 2, 3, 4], work, setAside)).rejects.toMatchObject({
    code: 'database_unavailable',
  })
  expect(tried).toEqual([
    [1, 2, 3, 4],
    [1, 2],
  ])
})

describe('what is a fault of the rows', () => {
  test.each([
    ['data', withCode('22P05')],
    ['a constraint', withCode('23514')],
    ['a limit', withCode('54000')],
    ['a broken row', withCode('XX001')],
    ['an error of our own', new RangeError('does not fit')],
    ['what Belfry calls internal', new BelfryError('internal', 'x')],
    ['what is no error at all', 'text'],
  ])('%s', (_, error) => {
    expect(isFaultOfRows(error)).toBe(true)
  })

  test.each([
    ['a database that is away', new BelfryError('database_unavailable', 'x')],
    ['a full disk', new BelfryError('database_full', 'x')],
    ['a timeout', new BelfryError('database_timeout', 'x')],
    ['a deadlock', new BelfryError('serialization_conflict', 'x')],
    ['another schema', new BelfryError('schema_mismatch', 'x')],
    ['a column that is not there', withCode('42703')],
    ['a role that may not', withCode('42501')],
    ['a plan that is out of date', withCode('0A000')],
    ['a prepared statement that is gone', withCode('26000')],
    ['a broken connection', withCode('ECONNRESET')],
    ['a broken pipe', withCode('EPIPE')],
  ])('not %s', (_, error) => {
    expect(isFaultOfRows(error)).toBe(false)
  })
})
