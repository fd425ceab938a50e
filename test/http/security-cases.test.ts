// Every case of test/cases/security.json: judged by the code that a server judges by (what
// `belfry security check-target` prints), or shown by a test that names it, or skipped with a reason.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  openSecurityJudge,
  type SecurityJudge,
} from '../../packages/server/src/compose/security-check/check-cases.ts'
import file from '../cases/security.json' with { type: 'json' }

interface Case {
  readonly id: string
  readonly area: string
  readonly input: unknown
  readonly expect: string
}
const cases: readonly Case[] = file.cases

/** Where a case leaves a choice, what of it is taken here. */
const chosen: Readonly<Record<string, readonly string[]>> = {
  refuse_connect_or_use_checked_address: ['refuse_connect'],
  '400_or_404_never_file_content': ['400', '404'],
  refuse_400_or_403: ['refuse_400'],
  refuse_400_or_left_as_literal_text: ['left_as_literal_text'],
  'refuse_403_or_400 unless the plan allows sub-minute schedules': ['refuse_400'],
  'refuse_400, no stack overflow': ['refuse_400'],
  'works as an ordinary id or refuse_400; never breaks lookups': ['refuse_400'],
  'refuse_400 or floor applied': ['floor applied'],
  'refuse_400 or needs timeZone': ['refuse_400'],
  '400 not 500': ['400'],
  '400, or last wins everywhere': ['400'],
  '400 (schema applied)': ['400'],
  '415 or 400': ['400'],
  '413 or 400': ['400'],
}

/** What Belfry does not have. */
const skipped: Readonly<Record<string, string>> = {
  'archive.tar_dotdot': 'Belfry takes no archives',
  'archive.tar_many': 'Belfry takes no archives',
  'archive.zip_ratio': 'Belfry takes no archives',
  'archive.zip_dup': 'Belfry takes no archives',
  'limit.regex_redos': 'Belfry takes no regular expressions to look for things',
  'tenant.redis_key_cross':
    'keys of Redis are made of the installation and the number of a shard, never of names',
  'ui.link_data': 'jobs have no field for a link',
}

const here = fileURLToPath(import.meta.url)
const root = join(here, '..', '..')
const texts = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && join(root, name) !== here)
  .map((name) => ({ name, text: readFileSync(join(root, name), 'utf8') }))
/** Tests that name a case, or go over all of an area. */
const namedIn = (words: string): readonly string[] =>
  texts
    .filter(({ text }) =>
      new RegExp(`(?<!\\w)${words.replaceAll(/[.*+?()[\]$^|]/g, '\\$&')}(?!\\w)`).test(text),
    )
    .map(({ name }) => name)

let judge: SecurityJudge
beforeAll(async () => {
  const nowMs = Date.parse('2026-11-30T12:00:00Z')
  const classes = { internet: false, lists: new Map() }
  judge = await openSecurityJudge({ allowCidrs: [], quotas: [], nowMs, classes })
})
afterAll(() => judge.close())

describe('each case', () => {
  it.for(cases)('$id', async (each, context) => {
    const { id, area } = each
    const judged = await judge.judge(each)
    const reason = skipped[id]
    if ('notApplicable' in judged && reason !== undefined) return context.skip(`${id}: ${reason}`)
    // a test that goes over all of an area, or one that names the case
    const shown = 'outcome' in judged || namedIn(`casesOf('${area}')`).length > 0 || namedIn(id).length > 0
    expect(shown, `no test names ${id}; write its id beside what shows it`).toBe(true)
    const outcome = 'outcome' in judged ? judged.outcome : each.expect
    expect([...(chosen[each.expect] ?? []), each.expect], JSON.stringify(judged)).toContain(outcome)
  })
})

describe('what cannot be judged', () => {
  it.each([
    [{ id: 'x', area: 'nowhere', input: {} }],
    [{ id: 'x', area: 'ssrf', input: {} }],
    [{ id: 'x', area: 'limit', input: { note: 'something else' } }],
    [{ id: 'x', area: 'ssrf', input: 'http://127.0.0.1/' }],
    [{ id: 'x', area: 'constructor', input: {} }],
  ])('says why: %j', async (each) => {
    const judged = await judge.judge(each)
    expect('notApplicable' in judged ? judged.notApplicable : '').toMatch(/\w/)
  })
})

describe('whatever a case says', () => {
  const fields = [...new Set(cases.flatMap(({ input }) => Object.keys(input as object)))]
  const areas = [...new Set(cases.map(({ area }) => area))]
  const odd = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 30 }),
    fc.constantFrom(
      '(200 headers)',
      '(1 MiB)',
      'a->b->',
      '__proto__',
      'Bearer x\r\ny',
      '\u0000',
      '->',
      'ids "\u0000"',
    ),
    fc.jsonValue({ maxDepth: 2 }),
    fc.double(),
  )
  const input = fc.dictionary(fc.oneof(fc.constantFrom(...fields), fc.string({ maxLength: 8 })), odd, {
    maxKeys: 4,
  })

  it('is judged, and ends nothing', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...areas), input, async (area, said) => {
        const judged = await judge.judge({ id: 'odd', area, input: said })
        expect('outcome' in judged ? judged.outcome : judged.notApplicable).toMatch(/\w/)
      }),
      { numRuns: 1_500 },
    )
  })
})
