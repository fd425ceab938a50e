// Every name by which Belfry says that something is not as it should be has a section in the runbooks, and no
// section is about a name that is not there any more. The names are read where they are given.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { clusterProblemCodes } from '@belfry/contract'
import { expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const read = (path: string): string => readFileSync(`${root}/${path}`, 'utf8')
const all = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([, name = '']) => name)

/** Facts that are never amiss by themselves. */
const onlyFacts = new Set(['database_server', 'schema_version'])

function eventsThatWarn(): string[] {
  const [, rows = ''] =
    /^const rows:.*?= \{$(.*?)^\}$/ms.exec(read('packages/server/src/telemetry/event-log.ts')) ?? []
  const each = rows.split(/^ {2}(?=\w+: \{)/m)
  return each.filter((row) => /'(warn|error)'/.test(row)).map((row) => row.slice(0, row.indexOf(':')))
}

const names = (): ReadonlySet<string> => {
  const events = read('packages/contract/src/events.ts')
  const [parts = ''] = all(events, /part_changed: \{\s*part: ((?:'\w+'(?: \| )?)+)/g)
  const found = [
    ...clusterProblemCodes,
    ...all(parts, /'(\w+)'/g),
    ...eventsThatWarn(),
    ...['parts', 'status-reports', 'server'].flatMap((file) =>
      all(read(`packages/server/src/compose/${file}.ts`), /\bname: '([a-z_]+)'/g),
    ),
    ...all(read('packages/server/src/telemetry/ops-server.ts'), /\bname: '([a-z_]+)'/g),
  ]
  return new Set(found.filter((name) => !onlyFacts.has(name)))
}

test('each state has its runbook', () => {
  const wanted = names()
  for (const sample of [
    'no_scheduler',
    'kafka',
    'lease_lost',
    'role_failed',
    'schema',
    'replans',
    'not_draining',
  ])
    expect(wanted, 'the names are found').toContain(sample)
  const sections = all(read('docs/how-to/runbooks.md'), /^### `(\w+)`$/gm)
  expect(sections.filter((name, index) => sections.indexOf(name) !== index)).toEqual([])
  expect([...wanted].filter((name) => !sections.includes(name))).toEqual([])
  const told = new Set([...wanted, ...all(read('packages/contract/src/events.ts'), /^ {2}(\w+): /gm)])
  expect(sections.filter((name) => !told.has(name))).toEqual([])
})
