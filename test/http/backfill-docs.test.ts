// docs/how-to/backfill.md is run: each console block, in order, against the real API, and what the terminal
// shows is compared with the page. A comment `<!-- meanwhile: … -->` says what happens between two blocks:
// `step` (the backfiller works), `N succeed`, `N fail` (the oldest runs that are alive end). Ids are matched
// by where they first appear.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runAlone } from '../cli/support/cli.ts'
import { httpJob, startTestApi, type TestApi } from '../support/api.ts'
import { makeBackfiller, noonMs, type TestBackfiller } from '../support/backfilling.ts'
import { playWorker, type PlayedWorker } from '../support/played-worker.ts'

const page = readFileSync(fileURLToPath(new URL('../../docs/how-to/backfill.md', import.meta.url)), 'utf8')
const idPattern = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g

type Part = { readonly kind: 'meanwhile' | 'console'; readonly text: string }
const parts: readonly Part[] = [
  ...page.matchAll(/^<!-- meanwhile: (.*) -->$|^```console\n([\s\S]*?)^```$/gm),
].map(([, meanwhile, block = '']) =>
  meanwhile === undefined ? { kind: 'console', text: block } : { kind: 'meanwhile', text: meanwhile },
)

let t: TestApi
let worker: PlayedWorker
let backfiller: TestBackfiller
let env: Record<string, string>
/** From an id of the page to the one that it stands for here. */
const known = new Map<string, string>()

beforeAll(async () => {
  t = await startTestApi()
  await t.database.useVirtualNow(new Date(noonMs))
  worker = playWorker(t.database)
  backfiller = makeBackfiller(t.db)
  env = {
    XDG_CONFIG_HOME: mkdtempSync(join(tmpdir(), 'belfry-docs-')),
    BELFRY_URL: await t.api.listen({ host: '127.0.0.1', port: 0 }),
    BELFRY_API_KEY: t.adminKey,
    TZ: 'UTC',
  }
  await arrangeHistory()
})
afterAll(async () => {
  rmSync(env['XDG_CONFIG_HOME'] ?? '', { recursive: true, force: true })
  await t.close()
})

/** The week that the page tells of: two nights were missed, and the run of one failed. */
async function arrangeHistory(): Promise<void> {
  await t.call('POST', '/v1/jobs', { body: httpJob('report') })
  const body = { name: 'nightly', cron: '0 2 * * *', job: 'report', startAt: '2026-01-01T00:00:00Z' }
  const { body: schedule } = await t.call('POST', '/v1/schedules', { body })
  const ends = {
    4: 'succeeded',
    5: null,
    6: null,
    7: 'failed',
    8: 'succeeded',
    9: 'succeeded',
    10: 'succeeded',
  }
  for (const [day, end] of Object.entries(ends)) {
    const at = new Date(Date.UTC(2026, 2, Number(day), 2))
    if (end === null) {
      await t.database.sql(
        `INSERT INTO belfry.occurrence
           (schedule_id, scheduled_for, tenant_id, outcome, reason, due_at, fired_at)
         VALUES ($1, $2, $3, 'missed', 'catch_up_latest', $2, '2026-03-07T02:00:00Z')`,
        [schedule.id, at, t.tenantId],
      )
      continue
    }
    const { body: run } = await t.call('POST', '/v1/runs', { body: { job: 'report' } })
    await t.database.sql(
      `WITH its AS (
         UPDATE belfry.run SET schedule_id = $1, scheduled_for = $2, source = 'schedule' WHERE id = $4)
       INSERT INTO belfry.occurrence
         (schedule_id, scheduled_for, tenant_id, outcome, run_id, due_at, fired_at)
       VALUES ($1, $2, $3, 'ran', $4, $2, $2)`,
      [schedule.id, at, t.tenantId, run.id],
    )
    await worker.claim(run.id)
    await worker.end(run.id, { outcome: end, state: end })
  }
}

async function happen(what: string): Promise<void> {
  for (const act of what.split(', ')) {
    const [, count, end] = /^(\d+) (succeed|fail)$/.exec(act) ?? []
    if (act !== 'step' && count === undefined) throw new Error(`the page says "${act}", which nobody can do`)
    if (act === 'step') await backfiller.runOnce()
    const alive = await t.database.sql<{ run_id: string }>(
      'SELECT run_id FROM belfry.ready ORDER BY run_id LIMIT $1',
      [Number(count ?? 0)],
    )
    const state = end === 'fail' ? 'failed' : 'succeeded'
    for (const { run_id: runId } of alive) {
      await worker.claim(runId)
      await worker.end(runId, { outcome: state, state })
    }
  }
}

/** What a terminal shows: data, then words. */
async function terminal(line: string): Promise<string> {
  const here = line.replace(idPattern, (id) => known.get(id) ?? id)
  const words = [...here.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
  const { out, err } = await runAlone(words.slice(1), { env, now: () => noonMs })
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

describe('docs/how-to/backfill.md', () => {
  it('shows what a terminal shows', async () => {
    expect(parts.filter(({ kind }) => kind === 'console').length).toBeGreaterThan(6)
    for (const { kind, text } of parts) {
      if (kind === 'meanwhile') {
        await happen(text)
        continue
      }
      const [command = '', ...rest] = text.trimEnd().split('\n')
      const expected = rest.join('\n')
      const shown = await terminal(command.replace(/^\$ /, ''))
      expect(withIdsOfPage(shown, expected), command).toBe(expected)
    }
  })
})
