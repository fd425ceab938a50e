// docs/explanation/chaos.md: what survives what, from the results of the chaos matrix. The newest result of
// each cell is kept in test/cluster/chaos/results.json; test/domain/chaos-page.test.ts holds that the page
// shows them, that none failed and none is missing.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { allowanceMs, type Cell, cells } from '../../test/cluster/chaos/cells.ts'
import {
  type Configuration,
  configurations,
  configurationTitles,
} from '../../test/cluster/chaos/configurations.ts'
import type { CellResult } from '../../test/cluster/chaos/run-cell.ts'

const pathOf = (file: string): string => fileURLToPath(new URL(`../../${file}`, import.meta.url))
const resultsFile = pathOf('test/cluster/chaos/results.json')
const pageFile = pathOf('docs/explanation/chaos.md')

/** What is kept of a result. */
export type KeptResult = Pick<
  CellResult,
  | 'cell'
  | 'configuration'
  | 'seed'
  | 'startedAt'
  | 'seconds'
  | 'passed'
  | 'faults'
  | 'worstLateMs'
  | 'runs'
  | 'calls'
  | 'lost'
>

function toKeep(result: CellResult): KeptResult {
  const { cell, configuration, seed, startedAt, seconds: took, passed, faults } = result
  const { worstLateMs, runs, calls, lost } = result
  return {
    cell,
    configuration,
    seed,
    startedAt,
    seconds: took,
    passed,
    faults,
    worstLateMs,
    runs,
    calls,
    lost,
  }
}

const keyOf = ({ cell, configuration }: { cell: string; configuration: string }) => `${cell} ${configuration}`

export function readResults(): readonly KeptResult[] {
  return existsSync(resultsFile) ? (JSON.parse(readFileSync(resultsFile, 'utf8')) as KeptResult[]) : []
}

/** Puts a result in the place of an old one, and writes the page. */
export function saveReport(result: CellResult): void {
  const kept = new Map(readResults().map((each) => [keyOf(each), each]))
  kept.set(keyOf(result), toKeep(result))
  const places = cells.flatMap((cell) =>
    cell.configurations.map((configuration) => ({ cell, configuration })),
  )
  const ordered = places.flatMap(({ cell, configuration }) => {
    const found = kept.get(keyOf({ cell: cell.name, configuration }))
    return found === undefined ? [] : [found]
  })
  writeFileSync(resultsFile, `${JSON.stringify(ordered, null, 2)}\n`)
  savePage()
}

/** Writes the page anew from the results that are kept. */
export function savePage(): void {
  writeFileSync(pageFile, renderChaosPage(readResults()))
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

const whatIsChecked = `## What is under way meanwhile

Six processes, each with one role: an API, two schedulers, two workers, a resolver. Over 14 s: one-time,
rate and cron schedules, some of them at most once; schedules of workflows that are drawn by the seed, with
failing tasks; and four runs a second that are asked for, now, later, or after others, each with an
idempotency key under which it is asked for again until there is an answer. Every job calls a target over
HTTP, which writes down each call before it answers.

## What is checked

By [a checker](../../test/cluster/chaos/chaos-checker.ts) with SQL of its own, which shares nothing with the
engine but how states of workflows are packed, from the tables and from what the target wrote down:

- every planned time has exactly one occurrence, and nothing else has one
- every run that was accepted is there, once, and ended once; at-least-once runs succeeded
- an at-most-once run was called once at most
- every call beyond the first is explained by an attempt on record that was lost, released or failed
- no result was applied under an older lease epoch than the newest one given out, and no two attempts share
  one
- whatever depends on others was called after they had ended, and started once; workflow runs ended as a
  simulation of them says
- every call belongs to an attempt on record; every success was seen by the target
- no call was early, none was later than promised
- afterwards nothing waits, is due, or is held by nobody
- the fault hit: a lease was lost, shards were taken over, a store was noticed to be away

[Its tests](../../test/cluster/chaos-checker.test.ts) put each kind of fault into the tables by hand and see
that it is named.

## Run it yourself

\`\`\`sh
npm run chaos -- --list
npm run chaos -- --cell kill-roles --configuration redis --seed 7
npm run chaos -- --all
\`\`\`

A seed draws the same victims, instants and workflows again; how processes interleave is the machine's.
\`--window 600\` lets the load run for ten minutes, and \`held-transaction\` hold its transaction for as
long. Cutting a network and filling a disk need root on Linux (network namespaces, a small tmpfs); wrong
clocks are made by libfaketime, which leaves the monotonic clock right, as a clock that was set wrong does.
`

export function renderChaosPage(results: readonly KeptResult[]): string {
  const byKey = new Map(results.map((each) => [keyOf(each), each]))
  const show = (cell: Cell, configuration: Configuration): string => {
    if (!cell.configurations.includes(configuration)) return ''
    const result = byKey.get(keyOf({ cell: cell.name, configuration }))
    if (result === undefined) return 'not run'
    return result.passed ? seconds(result.worstLateMs ?? 0) : '**failed**'
  }
  const rows = cells.map((cell) => {
    const shown = configurations.map((configuration) => show(cell, configuration))
    return `| ${cell.title} | ${shown.join(' | ')} | ${seconds(cell.lateMs)}: ${cell.why} |`
  })
  const details = results.map((each) => {
    const day = each.startedAt.slice(0, 16).replace('T', ' ')
    const facts = [each.seed, day, each.runs, each.calls, each.lost, each.seconds].join(' | ')
    return `| \`${each.cell}\` | ${configurationTitles[each.configuration]} | ${facts} |`
  })
  const heads = configurations.map((each) => configurationTitles[each])
  return `<!-- Generated by \`npm run chaos -- --all\` from test/cluster/chaos; change that, not this. -->

# What survives what

Each row is something that goes wrong while Belfry works; each column, which stores it works with. A figure
means that nothing was lost, nothing was done twice without a reason on record, and nothing was early; it is
how late the latest run was first called. The last column is what is promised of that, and why. Leases and
terms are 4 s in here, so that a lost process is missed soon; by default a lease is 30 s and a term 15 s, and
"a lease" or "a term" takes that much longer.

| what happens | ${heads.join(' | ')} | late by at most |
|---|${'---|'.repeat(heads.length + 1)}
${rows.join('\n')}

A cell that **failed** did so in its newest run, for the reasons in \`test/cluster/chaos/results.json\`.

A cell fails beyond its promise and ${seconds(allowanceMs)}, which are for the machine: two cores for six
Belfry processes, the stores, the target and the checker, and often a second cell beside it.

${whatIsChecked}
## When these figures were made

| cell | configuration | seed | when (UTC) | runs | calls | attempts lost | seconds |
|---|---|---|---|---|---|---|---|
${details.join('\n')}
`
}
