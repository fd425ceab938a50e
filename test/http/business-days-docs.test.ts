// docs/how-to/business-days.md is run: each console block, in order, against the real API and a scheduler in
// time that the test moves, and what the terminal shows is compared with the page. A comment `<!-- meanwhile:
// it is … -->` lets time pass, `the replan` computes next times again. Ids are matched by where they first
// appear; each row of the table of other rules is worked out.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openZoneSource } from '../../packages/server/src/adapters/zones/zone-source.ts'
import { runAlone } from '../cli/support/cli.ts'
import { playWorker } from '../support/played-worker.ts'
import { makeReplanner } from '../support/replanning.ts'
import { startScheduledApi, type ScheduledApi } from '../support/scheduled-api.ts'

const page = readFileSync(
  fileURLToPath(new URL('../../docs/how-to/business-days.md', import.meta.url)),
  'utf8',
)
const idPattern = /[0-9a-f]{8}-[0-9a-f]{4}-[47][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g
const files = new Map(
  [...page.matchAll(/^`(\S+)`:\n\n```\w+\n([\s\S]*?)^```$/gm)].map(([, name = '', text = '']) => [
    name,
    text,
  ]),
)

const startMs = Date.parse('2026-12-01T09:00:00Z')
let nowMs = startMs
let t: ScheduledApi
let home = ''
let env: Record<string, string>
/** From an id of the page to the one that it stands for here. */
const known = new Map<string, string>()

beforeAll(async () => {
  t = await startScheduledApi(startMs)
  home = mkdtempSync(join(tmpdir(), 'belfry-docs-'))
  mkdirSync(join(home, 'files'))
  for (const [name, text] of files) writeFileSync(join(home, 'files', name), text)
  writeFileSync(join(home, 'files', 'weekend.yaml'), 'weekdays: [sat, sun]')
  env = {
    XDG_CONFIG_HOME: home,
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'Europe/Berlin',
  }
})
afterAll(async () => {
  rmSync(home, { recursive: true, force: true })
  await t.close()
})

/** The scheduler works meanwhile, and runs that it starts succeed. */
async function passUntil(instant: string): Promise<void> {
  const worker = playWorker(t.database)
  const endMs = Date.parse(instant)
  while (nowMs < endMs) {
    const stepMs = Math.min(3_600_000, endMs - nowMs)
    await t.go(stepMs)
    nowMs += stepMs
    for (const { run_id: id } of await t.database.sql<{ run_id: string }>(
      'SELECT run_id FROM belfry.ready',
    )) {
      await worker.claim(id)
      await worker.end(id, { outcome: 'succeeded', state: 'succeeded' })
    }
  }
}

async function happen(what: string): Promise<void> {
  const [, instant] = /^it is (.+)$/.exec(what) ?? []
  if (instant !== undefined) return passUntil(instant)
  if (what !== 'the replan') throw new Error(`the page says "${what}", which nobody can do`)
  await makeReplanner(t.db, openZoneSource()).replanner.runOnce()
}

/** What a terminal shows: data, then words. */
async function terminal(line: string): Promise<string> {
  const here = line.replace(idPattern, (id) => known.get(id) ?? id)
  const words = [...here.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
  const argv = words.slice(1).map((word) => (files.has(word) ? join(home, 'files', word) : word))
  const { out, err } = await runAlone(argv, { env, now: () => nowMs })
  return `${out}${err}`.replace(/ +$/gm, '').trimEnd()
}

/** The text with each new id noted as the one that stands there on the page. */
function withIdsOfPage(actual: string, expected: string): string {
  const onPage = expected.match(idPattern) ?? []
  for (const [index, id] of (actual.match(idPattern) ?? []).entries()) {
    const meant = onPage[index]
    if (meant !== undefined && !known.has(meant)) known.set(meant, id)
  }
  const back = new Map([...known].map(([meant, id]) => [id, meant]))
  return actual.replace(idPattern, (id) => back.get(id) ?? id)
}

describe('docs/how-to/business-days.md', () => {
  it('shows what a terminal shows', async () => {
    const parts = [...page.matchAll(/^<!-- meanwhile: (.+) -->$|^```console\n([\s\S]*?)^```$/gm)]
    expect(parts.length).toBeGreaterThan(6)
    for (const [, meanwhile, text = ''] of parts) {
      if (meanwhile !== undefined) {
        await happen(meanwhile)
        continue
      }
      const [command = '', ...rest] = text.trimEnd().split('\n')
      const expected = rest.join('\n')
      const shown = await terminal(command.replace(/^\$ /, ''))
      expect(withIdsOfPage(shown, expected), command).toBe(expected)
    }
  })

  it.each(
    [...page.matchAll(/^\| (.+) \| `(.+)` \| (.+) \| `(.+)` \| (.+) \|$/gm)].map(([, ...cells]) => cells),
  )('%s', async (_, cron = '', calendars = '', onExcluded = '', days = '') => {
    const used = calendars
      .split(', ')
      .flatMap((name) => [
        '--calendar',
        join(home, 'files', name === 'holidays' ? 'holidays.ics' : 'weekend.yaml'),
      ])
    const argv = [
      'schedule',
      'next',
      '--cron',
      cron,
      '--tz',
      'Europe/Berlin',
      ...used,
      '--on-excluded',
      onExcluded,
    ]
    const { out } = await runAlone([...argv, '--from', '2026-12-24T00:00:00Z', '--count', '3', '-o', 'json'])
    const { next } = JSON.parse(out) as { next: string[] }
    expect(next.map((instant) => instant.slice(0, 10)).join(' ')).toBe(days)
  })
})
