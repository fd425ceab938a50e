// The audit outside of the database: in a topic of a real broker and in a file that is only appended to. What
// is read there is whole by itself, and it judges a chain whose end was cut off in the database.
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { type AuditRecord, auditRecordSchema } from '@belfry/contract'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createAuditFile } from '../../packages/server/src/adapters/audit/audit-file.ts'
import { createKafkaAudit } from '../../packages/server/src/adapters/kafka/kafka-audit.ts'
import { openKafkaInbox } from '../../packages/server/src/adapters/kafka/kafka-inbox.ts'
import { createKafkaLink, type KafkaLink } from '../../packages/server/src/adapters/kafka/kafka-link.ts'
import { createAuditExporter } from '../../packages/server/src/engine/audit-exporter.ts'
import type { AuditSink } from '../../packages/server/src/ports/audit-log.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import {
  allShards,
  judge,
  openCatalog,
  openExports,
  openSealer,
  putEntries,
  readRecords,
} from '../support/audit-rig.ts'
import { type KafkaServer, kafkaStartMs, startKafkaServer } from '../support/kafka-server.ts'
import { describeNeeding } from '../support/needs.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { eventually, newId, recordEvents } from '../support/running.ts'

const parts = { clock: realClock, random: realRandom, events: recordEvents() }
let database: TestDatabase
let db: Database
const tenantIds = [newId(), newId()]
const [tenantId = ''] = tenantIds
beforeEach(async () => {
  database = await createTestDatabase()
  db = database.open()
  for (const id of tenantIds)
    await database.sql('INSERT INTO belfry.tenant (id, name) VALUES ($1, $2)', [id, id])
})
afterEach(() => database.drop())

const exporterTo = (sink: AuditSink) =>
  createAuditExporter({ ...parts, exports: openExports(db), sink, signedOnly: true, elector: allShards })

async function sealed(count: number): Promise<void> {
  for (const id of tenantIds) await putEntries(openCatalog(db), id, count)
  await openSealer(db).runOnce()
}

const recordsIn = (lines: readonly string[]): AuditRecord[] =>
  lines.filter((line) => line !== '').map((line) => auditRecordSchema.parse(JSON.parse(line)))

describe('a file', () => {
  const folder = mkdtempSync(join(tmpdir(), 'belfry-audit-'))
  const path = join(folder, 'audit.jsonl')
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const read = () => recordsIn(readFileSync(path, 'utf8').split('\n'))

  it('takes what is signed, in order, and shows what was cut off in the database', async () => {
    const exporter = exporterTo(createAuditFile(path))
    await putEntries(openCatalog(db), tenantId, 3)
    expect(await exporter.runOnce()).toBe(0)
    expect(existsSync(path)).toBe(false)
    await sealed(10)
    await exporter.runOnce()
    await sealed(10)
    await exporter.runOnce()
    expect(await exporter.runOnce()).toBe(0)
    const { ok, tenants } = judge(read())
    const lasts = new Map(tenants.map((each) => [each.tenantId, [each.last, each.signedSize]]))
    expect([ok, ...tenantIds.map((id) => lasts.get(id))]).toEqual([true, [23, 23], [20, 20]])
    for (const table of ['log', 'checkpoint'])
      await database.sql(
        `DELETE FROM belfry.audit_${table} WHERE tenant_id = $1 AND ${table === 'log' ? 'seq' : 'size'} > 15`,
        [tenantId],
      )
    const verdict = judge(
      await readRecords(db, tenantId),
      read().filter((record) => record.tenantId === tenantId),
    )
    expect(verdict.faults).toMatchObject([{ kind: 'missing', seq: 16 }])
  })

  it('goes on behind a line that a crash cut short, and may say things twice', async () => {
    rmSync(path, { force: true })
    await sealed(5)
    await exporterTo(createAuditFile(path)).runOnce()
    appendFileSync(path, '{"type":"entry","tenantId":"')
    await database.sql('DELETE FROM belfry.audit_export')
    await sealed(1)
    await exporterTo(createAuditFile(path)).runOnce()
    const lines = readFileSync(path, 'utf8').split('\n')
    expect(
      lines.filter((line) => line.startsWith('{"type":"entry","tenantId":"') && !line.endsWith('}')),
    ).toHaveLength(1)
    expect(judge(recordsIn(lines.filter((line) => line.endsWith('}'))))).toMatchObject({ ok: true })
  })

  it('gets what stands behind hundreds of chains of which retention has left nothing', async () => {
    const none = '00000000-0000-4000-8000-'
    await database.sql(
      `INSERT INTO belfry.audit_head (tenant_id, size, signed_size, sealed_at, signed_at)
       SELECT ('${none}' || lpad(n::text, 12, '0'))::uuid, 7, 7, now(), now()
       FROM generate_series(1, 250) AS n`,
    )
    await sealed(3)
    const exporter = exporterTo(createAuditFile(path))
    expect(await exporter.runOnce()).toBeGreaterThanOrEqual(6)
    const behind = await openExports(db).behind(`file:${path}`, true, { after: null, limit: 500 })
    expect(behind).toEqual([])
    expect(await exporter.runOnce()).toBe(0)
  })

  it('is gone on with by another host that has the same path', () => {
    expect(createAuditFile(path).name).toBe(`file:${path}`)
    expect(createAuditFile(relative(process.cwd(), path)).name).toBe(`file:${path}`)
  })

  it('that cannot be written to is named, and nothing counts as sent', async () => {
    await sealed(2)
    const exporter = exporterTo(createAuditFile(join(folder, 'nowhere', 'audit.jsonl')))
    await expect(exporter.runOnce()).rejects.toThrow(/auditCopy: .*nowhere.*cannot be written/)
    expect(await database.sql('SELECT FROM belfry.audit_export')).toEqual([])
  })
})

describeNeeding('kafka', 'a topic', (jars) => {
  let server: KafkaServer
  let link: KafkaLink
  beforeAll(async () => {
    server = await startKafkaServer(jars)
    link = createKafkaLink({
      ...parts,
      settings: { brokers: [server.brokers], prefix: 'belfry', partitions: 4 },
    })
    await link.start()
  }, kafkaStartMs)
  afterAll(async () => {
    await link.close()
    await server.close()
  })

  it('holds the chain of each tenant in order, whole by itself', async () => {
    const exporter = exporterTo(createKafkaAudit(link))
    await sealed(30)
    await exporter.runOnce()
    await sealed(30)
    await exporter.runOnce()
    const inbox = openKafkaInbox({
      ...parts,
      link,
      name: 'reader',
      groupId: 'belfry.reader',
      wants: (topic) => topic === 'belfry.audit',
      from: 'earliest',
      capacity: 1_000,
    })
    await inbox.start()
    const read: string[] = []
    await eventually(
      async () => {
        const messages = await inbox.take(1_000, 500, new AbortController().signal)
        read.push(...messages.map(({ value }) => String(value ?? '')))
        return read.length >= 2 * (60 + 2)
      },
      'all records',
      30_000,
    )
    await inbox.close()
    const records = recordsIn(read)
    for (const id of tenantIds) {
      const own = records.filter((record) => record.tenantId === id)
      expect(
        own.filter(({ type }) => type === 'entry').map((each) => ('seq' in each ? each.seq : 0)),
      ).toEqual(Array.from({ length: 60 }, (_, index) => index + 1))
    }
    expect(judge(records)).toMatchObject({ ok: true, tenants: [{ signedSize: 60 }, { signedSize: 60 }] })
  })
})
