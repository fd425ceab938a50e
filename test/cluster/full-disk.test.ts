/**
 * The disk of the database is full: first there is no room for rows, which Postgres refuses one by one; then
 * none for its log either, upon which it stops and cannot start. Belfry says which, leaves nothing half-done,
 * and goes on by itself when there is room again; nobody restarts it.
 */
import { expect, it } from 'vitest'
import { pidExists } from '../../packages/server/src/postgres/embedded/process-identity.ts'
import { arenaHarness } from './support/arena.ts'
import type { Answer, Arena } from './support/arena.ts'
import { findFaults } from './support/checker.ts'
import type { NodeProcess } from './support/node-process.ts'
import { nextSecond, planEachSecond, untilQuiet } from './support/quiet.ts'
import { mountSmallDisk } from './support/small-disk.ts'
import type { SmallDisk } from './support/small-disk.ts'

const harness = arenaHarness()
const patient = { timeout: 90_000, interval: 50 }
const megabytes = 256

/** Jobs that were asked for, by what the answer said: made, surely not made, or nobody knows. */
interface Asked {
  readonly made: Set<string>
  readonly refused: Set<string>
  readonly doubtful: Set<string>
}

let number = 0

/** Asks for a job with a large body until the answer is one of these codes. */
async function askUntil(
  arena: Arena,
  node: NodeProcess,
  asked: Asked,
  codes: readonly string[],
): Promise<Answer> {
  const body = 'x'.repeat(2_000)
  for (;;) {
    const name = `job-${number++}`
    const job = { name, handler: { kind: 'http', url: `${arena.ledger.url}/work`, body } }
    const answer = await arena.call(node, 'POST', '/v1/jobs', job)
    const code = String(answer.body['code'])
    if (answer.status === 201) asked.made.add(name)
    else if (code === 'database_full') asked.refused.add(name)
    else asked.doubtful.add(name)
    expect([201, 503], code).toContain(answer.status)
    expect(answer.body['retryable'], code).toBe(answer.status === 201 ? undefined : true)
    if (codes.includes(code)) return answer
  }
}

/** Every job that was promised is there and whole, none that was refused, and no part of any other. */
async function expectWhole(arena: Arena, asked: Asked): Promise<void> {
  const jobs = await arena.rows<{ name: string }>("SELECT name FROM belfry.job WHERE name LIKE 'job-%'")
  const names = new Set(jobs.map((job) => job.name))
  expect(
    [...asked.made].filter((name) => !names.has(name)),
    'promised, and not there',
  ).toEqual([])
  expect(
    [...asked.refused].filter((name) => names.has(name)),
    'refused, and there',
  ).toEqual([])
  const [halves] = await arena.rows<{ n: number }>(`
    SELECT count(*)::int AS n FROM belfry.job FULL JOIN belfry.job_version ON job_version.job_id = job.id
    WHERE job.id IS NULL OR job_version.job_id IS NULL`)
  expect(halves?.n, 'half a job').toBe(0)
}

/** Makes Postgres want new files of its log, until it has no room for one, panics, and cannot start. */
async function exhaustLog(arena: Arena): Promise<void> {
  const { pid } = arena.postgres
  await expect
    .poll(async () => {
      await arena
        .rows("SELECT pg_logical_emit_message(true, 'full', 'disk'), pg_switch_wal()")
        .catch(() => undefined)
      return pidExists(pid)
    }, patient)
    .toBe(false)
}

async function untilTaken(arena: Arena, node: NodeProcess, asked: Asked, what: string): Promise<void> {
  const freedMs = performance.now()
  await expect
    .poll(async () => {
      const name = `job-${number++}`
      const job = { name, handler: { kind: 'http', url: `${arena.ledger.url}/work` } }
      const answer = await arena.call(node, 'POST', '/v1/jobs', job)
      if (answer.status === 201) asked.made.add(name)
      return answer.status
    }, patient)
    .toBe(201)
  process.stdout.write(
    `${what}: writes again ${Math.round(performance.now() - freedMs)} ms after there was room\n`,
  )
}

async function expectRefusals(arena: Arena, node: NodeProcess, disk: SmallDisk, asked: Asked): Promise<void> {
  disk.fill()
  const full = await askUntil(arena, node, asked, ['database_full'])
  expect(full.body['detail']).toContain('disk')
  expect((await arena.call(node, 'GET', '/v1/jobs')).status, 'reading goes on').toBe(200)
  expect((await fetch(`${node.opsUrl}/livez`)).status).toBe(200)
  await expectWhole(arena, asked)
}

it('a full disk refuses writes clearly and is got over without a restart', async (context) => {
  const disk = mountSmallDisk(megabytes)
  if (typeof disk === 'string') {
    if (process.env['CI'] === 'true') throw new Error(disk)
    process.stdout.write(`left out: ${disk}\n`)
    context.skip(disk)
    return
  }
  harness.defer(disk.unmount)
  const arena = await harness.open({ dataDir: `${disk.path}/data` })
  const node = await arena.start('a')
  await arena.client().jobs.create({
    name: 'each',
    handler: { kind: 'http', url: `${arena.ledger.url}/work` },
    retry: { maxAttempts: 10, baseMs: 200, capMs: 2_000 },
  })
  const plan = { job: 'each', count: 3, firstMs: nextSecond(1_000), seconds: 20 }
  const expected = await planEachSecond(arena.client(), plan)
  await expect.poll(() => arena.ledger.calls.length, patient).toBeGreaterThanOrEqual(3)
  const asked: Asked = { made: new Set(), refused: new Set(), doubtful: new Set() }

  await expectRefusals(arena, node, disk, asked)
  disk.free()
  await untilTaken(arena, node, asked, 'no room for rows')

  await expectRefusals(arena, node, disk, asked)
  await exhaustLog(arena)
  const away = await askUntil(arena, node, asked, ['database_unavailable'])
  expect(away.status).toBe(503)
  expect((await fetch(`${node.opsUrl}/livez`)).status).toBe(200)
  disk.free()
  await untilTaken(arena, node, asked, 'no room for the log')

  const sql = await untilQuiet(arena, Date.now() + 60_000)
  harness.defer(() => sql.end())
  await expectWhole(arena, asked)
  const faults = await findFaults({
    sql,
    expected,
    calls: arena.ledger.calls,
    atMostOnceScheduleIds: new Set(),
  })
  expect(faults.slice(0, 20), node.log.slice(-5).join('\n')).toEqual([])
  const { made, refused, doubtful } = asked
  process.stdout.write(`full disk: ${made.size} made, ${refused.size} refused, ${doubtful.size} in doubt\n`)
})
