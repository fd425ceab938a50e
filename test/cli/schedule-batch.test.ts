// `belfry schedule next --batch`: the public case file in full, the form of each line, files that are no
// batch, and thousands of cases in one process.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Result, runAlone } from './support/cli.ts'

type Case = {
  readonly id: string
  readonly next?: readonly string[]
  readonly recommended?: readonly string[] | null
  readonly answers?: readonly { readonly next?: readonly string[] }[]
  readonly invalid?: boolean
}
type Line = {
  readonly id: string | number | null
  readonly next?: readonly string[]
  readonly error?: { readonly code: string; readonly pointer: string; readonly message: string }
}

const path = fileURLToPath(new URL('../cases/cron.json', import.meta.url))
const { cases } = JSON.parse(readFileSync(path, 'utf8')) as { readonly cases: readonly Case[] }

const batch = (text: string, ...more: readonly string[]): Promise<Result> =>
  runAlone(['schedule', 'next', '--batch', '-', ...more], { stdin: text })

function linesOf(result: Result): readonly Line[] {
  expect(result).toMatchObject({ code: 0, err: '' })
  expect(result.out.endsWith('\n') || result.out === '').toBe(true)
  return result.out
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line)
}

const answers = async (...entries: readonly object[]): Promise<readonly Line[]> =>
  linesOf(await batch(JSON.stringify({ cases: entries })))

const pointers = /^\/(?:zone|rate|cron(?:\/(?:second|minute|hour|dayOfMonth|month|dayOfWeek|year))?)$/

/** Cases with H have no answer that all agree on: there the draws that Jenkins published are wanted. */
function wanted({ id, invalid, next, recommended, answers }: Case): unknown {
  if (invalid === true) return { id, code: 'invalid_schedule', pointed: true, said: true }
  return { id, next: next ?? recommended ?? answers?.[0]?.next ?? [] }
}

function shown(line: Line | undefined, { next, recommended, answers }: Case): unknown {
  if (line?.error !== undefined) {
    const { code, pointer, message } = line.error
    return { id: line.id, code, pointed: pointers.test(pointer), said: /\w/.test(message) }
  }
  // Where the case names no count there are five.
  const drawn = next === undefined && !Array.isArray(recommended) && line?.next?.length === 5
  return drawn ? { ...line, next: line.next?.slice(0, answers?.[0]?.next?.length ?? 0) } : line
}

describe('the public cases', async () => {
  const lines = linesOf(await runAlone(['schedule', 'next', '--batch', path]))

  it('are answered one line a case, in order', () => {
    expect(lines.map(({ id }) => id)).toEqual(cases.map(({ id }) => id))
    expect(lines.length).toBe(280)
  })

  it.each(cases.map((entry, i) => [entry.id, entry, lines[i]] as const))('%s', (_id, entry, line) => {
    expect(shown(line, entry)).toEqual(wanted(entry))
  })
})

describe('the cases of our own', () => {
  it('are answered as they say', async () => {
    const own = fileURLToPath(new URL('../cases/cron-more.json', import.meta.url))
    const { cases: wanted } = JSON.parse(readFileSync(own, 'utf8')) as { readonly cases: readonly Case[] }
    const lines = linesOf(await runAlone(['schedule', 'next', '--batch', own]))
    expect(lines).toEqual(wanted.map(({ id, next }) => ({ id, next })))
  })
})

describe('a line', () => {
  const base = { dialect: 'unix', expr: '0 0 * * *', from: '2026-01-01T00:00:00Z' }

  it('has as many instants as asked by next, else 5', async () => {
    const [two, five] = await answers({ id: 1, ...base, next: ['x', 'y'] }, { id: 'b', ...base })
    expect(two).toEqual({ id: 1, next: ['2026-01-02T00:00:00Z', '2026-01-03T00:00:00Z'] })
    expect(five?.next?.length).toBe(5)
  })

  it('looks from any year of four digits, and lists no other', async () => {
    const [early, late] = await answers(
      { id: 'early', ...base, expr: '0 0 1 1 *', from: '1900-02-20T16:46:00Z', next: ['x'] },
      { id: 'late', ...base, expr: '0 0 1 1 *', from: '9998-12-31T00:00:00Z' },
    )
    expect([early?.next, late?.next]).toEqual([['1901-01-01T00:00:00Z'], ['9999-01-01T00:00:00Z']])
  })

  it('of a date that never comes is empty, as is one that asks for none', async () => {
    const [never, none] = await answers(
      { id: 'never', ...base, expr: '0 0 31 4 *' },
      { id: 'none', ...base, next: [] },
    )
    expect(never).toEqual({ id: 'never', next: [] })
    expect(none).toEqual({ id: 'none', next: [] })
  })

  it('honours start and seed, takes now for a missing from, unix and UTC if left out', async () => {
    const [rate, cron, seeded, other, bare] = await answers(
      { id: 'r', dialect: 'rate', expr: '90s', start: '2026-01-01T00:00:10Z', from: base.from, next: ['x'] },
      { id: 'c', ...base, start: '2026-02-01T00:00:00Z', next: ['x'] },
      { id: 's', ...base, dialect: 'jenkins', expr: 'H H * * *', seed: 'a' },
      { id: 'o', ...base, dialect: 'jenkins', expr: 'H H * * *', seed: 'b' },
      { id: 'n', expr: '0 * * * *', tz: null, next: ['x'] },
    )
    expect(rate?.next).toEqual(['2026-01-01T00:00:10Z'])
    expect(cron?.next).toEqual(['2026-02-01T00:00:00Z'])
    expect(seeded?.next).not.toEqual(other?.next)
    expect(bare?.next).toEqual(['2026-11-29T13:00:00Z'])
  })

  it('is an error with a pointer for what a case has wrong', async () => {
    const lines = await answers(
      { id: 'dialect', ...base, dialect: 'cronie' },
      { id: 'proto', ...base, dialect: '__proto__' },
      { id: 'zone', ...base, tz: 'Mars/Olympus' },
      { id: 'from', ...base, from: 'yesterday' },
      { id: 'start', ...base, start: '2026-02-30T00:00:00Z' },
      { id: 'text', ...base, expr: 5 },
      { id: 'none', dialect: 'unix' },
      { id: 'rate', ...base, dialect: 'rate', expr: 'rate(1 minutes)' },
    )
    expect(lines.map(({ id, error }) => [id, error?.code, error?.pointer])).toEqual(
      [
        ['dialect', '/dialect'],
        ['proto', '/dialect'],
        ['zone', '/zone'],
        ['from', '/from'],
        ['start', '/start'],
        ['text', '/expr'],
        ['none', '/expr'],
        ['rate', '/rate'],
      ].map(([id, pointer]) => [id, 'invalid_schedule', pointer]),
    )
  })

  it('without an id, or of no case at all, is an error in its place, and the others go on', async () => {
    const text = JSON.stringify({ cases: [null, { id: 'a', ...base, next: ['x'] }, { expr: 'x' }, [], 1] })
    const lines = linesOf(await batch(text))
    expect(lines.map(({ id, next, error }) => [id, next?.length, error?.pointer])).toEqual([
      [null, undefined, ''],
      ['a', 1, undefined],
      [null, undefined, '/id'],
      [null, undefined, ''],
      [null, undefined, ''],
    ])
  })

  it('is JSON whatever -o says', async () => {
    const text = JSON.stringify({ cases: [{ id: 'a', ...base, next: ['x'] }] })
    for (const format of ['table', 'yaml', 'json']) {
      expect((await batch(text, '-o', format)).out).toBe('{"id":"a","next":["2026-01-02T00:00:00Z"]}\n')
    }
  })
})

describe('a file', () => {
  it.each(['', 'nonsense', '[]', 'null', '{"cases":{}}'])('that is no batch is refused: %s', async (text) => {
    const result = await batch(text, '-o', 'json')
    expect(result.code).toBe(2)
    expect(JSON.parse(result.out)).toMatchObject({
      code: 'invalid_request',
      detail: expect.stringMatching(/^--batch .*the file is \{"cases"/) as string,
    })
  })

  it('without cases has no answers; other flags do not go with it; an absent one is told', async () => {
    expect(await answers()).toEqual([])
    expect((await batch('{"cases":[]}', '--count', '3')).err).toContain('leave out --count')
    const absent = await runAlone(['schedule', 'next', '--batch', 'no-such-file.json'])
    expect(absent).toMatchObject({ code: 2, err: expect.stringContaining('ENOENT') as string })
  })

  it('of thousands of cases is answered whole', async () => {
    const many = Array.from({ length: 18 }, () => cases).flat()
    const lines = linesOf(await batch(JSON.stringify({ cases: many })))
    expect(lines.length).toBe(5_040)
    expect(lines.slice(-280)).toEqual(lines.slice(0, 280))
  })

  it('of any JSON ends with 0 or 2', async () => {
    const entry = fc.record(
      { id: fc.string(), dialect: fc.jsonValue(), expr: fc.jsonValue(), tz: fc.jsonValue() },
      { requiredKeys: [] },
    )
    const cased = fc.array(entry, { maxLength: 5 }).map((list) => JSON.stringify({ cases: list }))
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.json(), cased), async (value) => {
        expect([0, 2]).toContain((await batch(value)).code)
      }),
      { numRuns: 200 },
    )
  })
})
