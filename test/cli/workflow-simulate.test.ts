// `belfry workflow simulate --batch`: the public case file in full and one of our own in the same form,
// against what each case expects in Belfry's words. Where Belfry decides otherwise than the system of a case,
// the case is listed with the reason.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Result, runAlone } from './support/cli.ts'

type States = Readonly<Record<string, string | readonly string[]>>
interface Expected {
  readonly valid?: boolean
  readonly run?: string
  readonly run_if_any_failure_fails_run?: string
  readonly nodes?: States
  readonly attempts?: Readonly<Record<string, number>>
  readonly executed?: readonly string[]
  readonly runs?: Readonly<Record<string, string>>
  readonly nodes_by_range?: readonly { from?: number; to?: number; node?: string; state: string }[]
}
interface Case {
  readonly id: string
  readonly title: string
  readonly normative: boolean
  readonly any_of?: readonly string[]
  readonly expected?: Expected
  readonly phases?: readonly { readonly expected: Expected }[]
}
interface Line {
  readonly id: string | null
  readonly valid?: boolean
  readonly run?: string
  readonly tasks?: States
  readonly attempts?: Readonly<Record<string, number>>
  readonly executed?: readonly string[]
  readonly runs?: Readonly<Record<string, string>>
  readonly phases?: readonly Line[]
  readonly errors?: readonly { readonly code: string; readonly pointer: string; readonly message: string }[]
  readonly notApplicable?: string
}

const texts = ['dag.json', 'dag-more.json'].map((name) =>
  readFileSync(fileURLToPath(new URL(`../cases/${name}`, import.meta.url)), 'utf8'),
)
const cases = texts.flatMap((text) => (JSON.parse(text) as { readonly cases: readonly Case[] }).cases)

/** What Belfry decides otherwise, and why; the states that it gives instead. */
const deliberate: Readonly<Record<string, { reason: string; expected: Expected }>> = {
  'AF-83': {
    reason: 'what ran or waited when the time of a run was over did not choose to be skipped: it is canceled',
    expected: { run: 'failed', nodes: { a: 'success', b: 'cancelled', c: 'cancelled' } },
  },
  'AF-91': {
    reason: 'a task that could not run because of its parent comes back to life when the parent turns good',
    expected: {},
  },
  'EDGE-01': {
    reason: 'a workflow without tasks is a mistake: it is refused when it is saved',
    expected: { valid: false },
  },
  'MO-AF-67': {
    reason: 'who cannot expand fails: the task that gave the list did what it should',
    expected: { run: 'failed', nodes: { list: 'success', work: 'failed' } },
  },
  'MO-AF-70': {
    reason: 'what a failure elsewhere ended is canceled, what it kept from starting is not run',
    expected: { run: 'failed', nodes: { a: 'success', b: 'failed', c: 'cancelled', d: 'not_run' } },
  },
  'GH-04': {
    reason: 'rules look at direct parents only: a skip two levels above is not felt',
    expected: { run: 'success', nodes: { opt: 'skipped', mid: 'success', next: 'success' } },
  },
}
const phaseInstead: Readonly<Record<string, Expected>> = {
  'AF-91': { run: 'success', nodes: { a: 'success', b: 'success' } },
}

const words: Readonly<Record<string, string>> = {
  success: 'succeeded',
  cancelled: 'canceled',
  warning: 'succeeded',
}
const inOurs = (state: string): string => words[state] ?? state

const batch = (text: string): Promise<Result> =>
  runAlone(['workflow', 'simulate', '--batch', '-'], { stdin: text })

async function linesFor(text: string): Promise<readonly Line[]> {
  const result = await batch(text)
  expect(result).toMatchObject({ code: 0, err: '' })
  return result.out
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line)
}

/** What a line says otherwise than a case expects, in words. */
function differences(expected: Expected, line: Line, anyOf: readonly string[]): string[] {
  const found: string[] = []
  const same = (what: string, got: unknown, wanted: readonly unknown[]): void => {
    const text = JSON.stringify(got)
    if (!wanted.some((each) => JSON.stringify(each) === text))
      found.push(`${what}: ${text}, not ${JSON.stringify(wanted)}`)
  }
  const run = expected.run_if_any_failure_fails_run ?? expected.run
  if (run !== undefined) same('run', line.run, [inOurs(run)])
  for (const [node, states] of Object.entries(expected.nodes ?? {})) {
    const ours = typeof states === 'string' ? inOurs(states) : states.map(inOurs)
    same(node, line.tasks?.[node], anyOf.includes(node) ? [ours].flat() : [ours])
  }
  for (const { from = 1, to = 0, node, state } of expected.nodes_by_range ?? []) {
    const numbered = Array.from(
      { length: to - from + 1 },
      (_, at) => `n${String(from + at).padStart(4, '0')}`,
    )
    for (const id of node === undefined ? numbered : [node]) same(id, line.tasks?.[id], [inOurs(state)])
  }
  for (const [node, made] of Object.entries(expected.attempts ?? {}))
    same(`attempts of ${node}`, line.attempts?.[node], [made])
  if (expected.executed !== undefined) same('executed', line.executed, [expected.executed])
  for (const [name, state] of Object.entries(expected.runs ?? {}))
    same(name, line.runs?.[name], [inOurs(state)])
  return found
}

/** What is said of a case against what is expected of it, phase by phase. */
function differencesOf(each: Case, line: Line): string[] {
  const expected = deliberate[each.id]?.expected ?? each.expected ?? {}
  const valid = expected.valid ?? true
  if (line.valid !== valid) return [`valid: ${line.valid}, not ${valid}`]
  if (!valid) return line.errors === undefined || line.errors.length === 0 ? ['no errors are named'] : []
  const phases = each.phases ?? []
  const byPhase = phases.flatMap((phase, at) => {
    const instead = at === phases.length - 1 ? phaseInstead[each.id] : undefined
    return differences(instead ?? phase.expected, line.phases?.[at] ?? { id: each.id }, each.any_of ?? [])
  })
  return [...differences(expected, line, each.any_of ?? []), ...byPhase]
}

describe('belfry workflow simulate --batch', async () => {
  const answers = await Promise.all(texts.map(linesFor))
  const lines = new Map(answers.flat().map((line) => [line.id, line]))

  it('answers every case, in a line each', () => {
    expect([...lines.keys()]).toEqual(cases.map(({ id }) => id))
    expect([...lines.values()].filter((line) => line.notApplicable !== undefined)).toEqual([])
  })

  it('decides otherwise than a case only where that is contested', () => {
    const contested = cases.filter((each) => !each.normative).map(({ id }) => id)
    for (const id of Object.keys(deliberate)) expect(contested).toContain(id)
  })

  it('has each of them in the reviewed list of the reference page', () => {
    const page = readFileSync(new URL('../../docs/reference/workflows.md', import.meta.url), 'utf8')
    const list = page.slice(page.indexOf('## Where Belfry decides otherwise'))
    for (const id of Object.keys(deliberate)) expect(list).toContain(id)
    const byLeaves = cases.filter(({ id, expected }) => {
      return !id.startsWith('MO-') && expected?.run_if_any_failure_fails_run !== undefined
    })
    for (const { id } of byLeaves) expect(list).toContain(id)
  })

  it.each(cases.map((each) => [each.id, each.title, each] as const))('%s: %s', (id, _, each) => {
    expect(differencesOf(each, lines.get(id) ?? { id })).toEqual([])
  })

  it('plays the example of the reference page', async () => {
    const page = readFileSync(new URL('../../docs/reference/workflows.md', import.meta.url), 'utf8')
    const [, file = '', line = ''] = /```json\n(\{.*?)```\n\n```json\n(.*?)```/s.exec(page) ?? []
    expect((await batch(file)).out).toBe(line)
  })

  it('has a line for whatever stands in a case, and never plays what it does not know', async () => {
    const strange = [null, true, -1, 1e308, '', 'x', '__proto__', [], [[]], {}, ['a'], { a: null }]
    const small = cases.filter((each) => !('generate' in each))
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...small),
        fc.infiniteStream(fc.nat()),
        fc.constantFrom(...strange),
        async (each, draws, value) => {
          const changed = structuredClone(each) as unknown as Record<string, unknown>
          let at = changed
          let field = ''
          do {
            const fields = Object.keys(at)
            field = fields[(draws.next().value ?? 0) % fields.length] ?? ''
            const inner = at[field]
            if (typeof inner !== 'object' || inner === null || Object.keys(inner).length === 0) break
            at = inner as Record<string, unknown>
          } while ((draws.next().value ?? 0) % 3 > 0)
          at[field] = value
          const [line] = await linesFor(JSON.stringify({ cases: [changed] }))
          expect(line?.notApplicable ?? line?.valid).toBeDefined()
          expect(line?.run).not.toBe('running')
        },
      ),
      { numRuns: 300 },
    )
  })

  it('names what is wrong with a graph and where', async () => {
    const graph = (id: string, nodes: object[], edges: string[][]) => ({ id, nodes, edges })
    const [cycle, self, unknown, twice, rule, never] = await linesFor(
      JSON.stringify({
        cases: [
          graph(
            'cycle',
            [{ id: 'a' }, { id: 'b' }, { id: 'c' }],
            [
              ['a', 'b'],
              ['b', 'c'],
              ['c', 'a'],
            ],
          ),
          graph('self', [{ id: 'a' }], [['a', 'a']]),
          graph('unknown', [{ id: 'a' }, { id: 'b' }], [['ghost', 'b']]),
          graph('twice', [{ id: 'a' }, { id: 'a' }], []),
          graph('rule', [{ id: 'a' }, { id: 'b', rule: 'most_done' }], [['a', 'b']]),
          graph('never', [{ id: 'a', rule: 'one_failed' }], []),
        ],
      }),
    )
    expect(cycle?.errors).toMatchObject([{ code: 'cycle', pointer: '/tasks/0/needs' }])
    expect(cycle?.errors?.[0]?.message).toContain('a → b → c → a')
    expect(self?.errors).toMatchObject([{ code: 'self_dependency', pointer: '/tasks/0/needs/0' }])
    expect(unknown?.errors).toMatchObject([{ code: 'unknown_task', pointer: '/tasks/1/needs/0' }])
    expect(unknown?.errors?.[0]?.message).toContain('ghost')
    expect(twice?.errors).toMatchObject([{ code: 'duplicate_task', pointer: '/tasks/1/id' }])
    expect(rule?.errors).toMatchObject([{ code: 'unknown_rule', pointer: '/tasks/1/rule' }])
    expect(never?.errors).toMatchObject([{ code: 'rule_never_holds', pointer: '/tasks/0/rule' }])
  })

  it('says what it does not know, case by case, and refuses only a file without a list', async () => {
    const [odd, none] = await linesFor(
      JSON.stringify({ cases: [{ id: 'odd', nodes: [{ id: 'a', kind: 'oracle' }], edges: [] }, 7] }),
    )
    expect(odd?.notApplicable).toContain('oracle')
    expect(none).toMatchObject({ id: null, notApplicable: 'a case is an object' })
    for (const text of ['', '[]', '{"cases": 1}']) expect((await batch(text)).code).toBe(2)
  })
})
