// The chain of the audit on a real database: made under many writers, and tampered with by a superuser in
// every way of the cases audit.swap, audit.insert, audit.truncate_tail, audit.rechain, audit.app_update and
// audit.concurrent. Each is caught, and the place is named.
import { hashOfLink } from '@belfry/contract/audit-chain'
import type { AuditLink, AuditRecord } from '@belfry/contract'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { AuditSealer } from '../../packages/server/src/engine/audit-sealer.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { asRole } from '../support/as-role.ts'
import { judge, openCatalog, openSealer, putEntries, readRecords } from '../support/audit-rig.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { newId } from '../support/running.ts'

let database: TestDatabase
let db: Database
let sealer: AuditSealer
let tenantId: string
beforeAll(async () => {
  database = await createTestDatabase()
  db = database.open()
  sealer = openSealer(db)
})
afterAll(() => database.drop())
beforeEach(async () => {
  tenantId = await addTenant()
})

async function addTenant(): Promise<string> {
  const id = newId()
  await database.sql('INSERT INTO belfry.tenant (id, name) VALUES ($1, $2)', [id, id])
  return id
}

const put = (count: number, tenant = tenantId) => putEntries(openCatalog(db), tenant, count)
const records = (tenant = tenantId) => readRecords(db, tenant)
const linksOf = (all: readonly AuditRecord[]): AuditLink[] => all.filter((each) => each.type === 'entry')
const faultsNow = async (witnesses: readonly AuditRecord[] = []) =>
  judge(await records(), witnesses).faults.map(({ kind, seq }) => `${kind} ${seq}`)

async function sealed(count: number): Promise<readonly AuditRecord[]> {
  await put(count)
  await sealer.runOnce()
  return records()
}

describe('a chain', () => {
  test('holds every entry once, in order, and is attested', async () => {
    const all = await sealed(30)
    const verdict = judge(all)
    expect(verdict).toMatchObject({
      ok: true,
      tenants: [{ first: 1, last: 30, signedSize: 30, checkpoints: 1 }],
    })
    expect(linksOf(all).map(({ details }) => details['version'])).toEqual(
      Array.from({ length: 30 }, (_, n) => n),
    )
  })

  test('audit.concurrent: 200 parallel writers and three sealers make no fork', async () => {
    const others = [sealer, openSealer(database.open()), openSealer(database.open())]
    const writing = Promise.all(Array.from({ length: 200 }, () => put(2)))
    let written = false
    void writing.finally(() => (written = true))
    const seal = async (each: AuditSealer) => {
      while (!written) await each.runOnce()
      await each.runOnce()
    }
    await Promise.all([writing, ...others.map(seal)])
    await sealer.runOnce()
    const all = await records()
    const links = linksOf(all)
    expect(links.map(({ seq }) => seq)).toEqual(Array.from({ length: 400 }, (_, index) => index + 1))
    expect(new Set(links.map(({ previousHash }) => previousHash)).size).toBe(400)
    expect(judge(all)).toMatchObject({ ok: true })
  })

  test('where an entry cannot be stored, its transaction fails', async () => {
    const access = { tenantId, dryRun: false, readOnly: false }
    const work = openCatalog(db).within(access, async (tx) => {
      tx.audit.record({
        action: 'x'.repeat(70) as 'job.update',
        subject: { kind: 'job', id: null, name: null },
      })
    })
    await expect(work).rejects.toThrow(/audit_inbox_action_check/)
    expect(linksOf(await records())).toEqual([])
  })

  test('a dry run leaves nothing', async () => {
    await openCatalog(db).within({ tenantId, dryRun: true, readOnly: false }, async (tx) => {
      tx.audit.record({ action: 'job.update', subject: { kind: 'job', id: null, name: null } })
    })
    await sealer.runOnce()
    expect(await records()).toEqual([])
  })

  test('the database says when it was; who puts an entry in cannot', async () => {
    const words = `INSERT INTO belfry.audit_inbox
        (tenant_id, action, actor_kind, actor_name, subject_kind, at)
      VALUES ($1, 'job.update', 'key', 'k', 'job', '2001-01-01')`
    const attempt = asRole(database.adminConnection, 'belfry_app', tenantId, words, [tenantId])
    await expect(attempt).rejects.toMatchObject({ code: '42501' })
  })
})

describe('audit.app_update: no working role changes or takes away what is sealed', () => {
  const attempts = ['belfry_app', 'belfry_platform', 'belfry_engine'].flatMap((role) =>
    ['audit_log', 'audit_cut', 'audit_key'].flatMap((table) =>
      [
        `UPDATE belfry.${table} SET key_id = key_id`,
        `DELETE FROM belfry.${table}`,
        `TRUNCATE belfry.${table}`,
      ].map((words) => [role, words] as const),
    ),
  )
  test.each(attempts)('%s: %s', async (role, words) => {
    const attempt = asRole(database.adminConnection, role, tenantId, words)
    await expect(attempt).rejects.toMatchObject({ code: '42501' })
  })
  test.each(['UPDATE belfry.audit_inbox SET action = action', 'DELETE FROM belfry.audit_inbox'])(
    'belfry_app: %s',
    async (words) => {
      const attempt = asRole(database.adminConnection, 'belfry_app', tenantId, words)
      await expect(attempt).rejects.toMatchObject({ code: '42501' })
    },
  )
})

describe('tampering by a superuser', () => {
  let kept: readonly AuditRecord[]
  beforeEach(async () => {
    kept = await sealed(20)
  })
  const sql = (text: string, ...params: unknown[]) => database.sql(text, [tenantId, ...params])

  test('an entry is altered', async () => {
    await sql(`UPDATE belfry.audit_log SET actor_name = 'nobody' WHERE tenant_id = $1 AND seq = 7`)
    expect(await faultsNow()).toEqual(['altered 7'])
  })

  test.each(['action', 'address', 'subject_name', 'request_id', 'code'])(
    'its %s is altered',
    async (column) => {
      await sql(`UPDATE belfry.audit_log SET ${column} = 'x.y' WHERE tenant_id = $1 AND seq = 7`)
      expect(await faultsNow()).toEqual(['altered 7'])
    },
  )

  test('its details or its time are altered', async () => {
    await sql(`UPDATE belfry.audit_log SET details = '{"version": 99}' WHERE tenant_id = $1 AND seq = 7`)
    await sql(`UPDATE belfry.audit_log SET at = at + interval '1 ms' WHERE tenant_id = $1 AND seq = 9`)
    expect(await faultsNow()).toEqual(['altered 7', 'altered 9'])
  })

  test('audit.swap: two entries are swapped', async () => {
    await sql(`UPDATE belfry.audit_log SET seq = 21 WHERE tenant_id = $1 AND seq = 7`)
    await sql(`UPDATE belfry.audit_log SET seq = 7 WHERE tenant_id = $1 AND seq = 8`)
    await sql(`UPDATE belfry.audit_log SET seq = 8 WHERE tenant_id = $1 AND seq = 21`)
    expect(await faultsNow()).toEqual(
      expect.arrayContaining(['altered 7', 'broken 7', 'altered 8', 'broken 8']),
    )
  })

  test('audit.insert: an entry is put in', async () => {
    await sql(
      `INSERT INTO belfry.audit_log SELECT tenant_id, 21, sealed_at, $2, at, 'job.delete', outcome, code,
        actor_kind,
         actor_id, 'forged', key_id, address, request_id, claimed_at, subject_kind, subject_id,
           subject_name, details,
         hash, hash
       FROM belfry.audit_log WHERE tenant_id = $1 AND seq = 20`,
      newId(),
    )
    expect(await faultsNow()).toEqual(['altered 21'])
  })

  test('an entry that fits is put in behind the end: the next one meets it', async () => {
    const last = linksOf(kept).at(-1)
    const forged = {
      ...last,
      seq: 21,
      actor: { kind: 'key', id: null, name: 'forged' },
      previousHash: last?.hash,
    }
    const hash = hashOfLink(forged as AuditLink)
    await sql(
      `INSERT INTO belfry.audit_log SELECT tenant_id, 21, sealed_at, id, at, action, outcome, code, 'key',
         actor_id, 'forged', key_id, address, request_id, claimed_at, subject_kind, subject_id,
           subject_name, details,
         hash, decode($2, 'hex')
       FROM belfry.audit_log WHERE tenant_id = $1 AND seq = 20`,
      hash,
    )
    // fits the chain, and nothing attests it
    expect(judge(await records())).toMatchObject({ ok: true, tenants: [{ last: 21, signedSize: 20 }] })
    await put(1)
    await sealer.runOnce()
    expect(await faultsNow()).toEqual(expect.arrayContaining(['doubled 21']))
  })

  test('an entry in the middle is deleted', async () => {
    await sql(`DELETE FROM belfry.audit_log WHERE tenant_id = $1 AND seq BETWEEN 7 AND 8`)
    expect(await faultsNow()).toEqual(['missing 7'])
  })

  test('entries at the beginning are deleted', async () => {
    await sql(`DELETE FROM belfry.audit_log WHERE tenant_id = $1 AND seq < 5`)
    expect(await faultsNow()).toEqual(['missing 1'])
  })

  test('audit.truncate_tail: the last ten are deleted', async () => {
    await sql(`DELETE FROM belfry.audit_log WHERE tenant_id = $1 AND seq > 10`)
    expect(await faultsNow()).toEqual(['missing 11'])
  })

  test('audit.truncate_tail: the tail and its checkpoints are deleted, and a copy was kept', async () => {
    await sql(`DELETE FROM belfry.audit_log WHERE tenant_id = $1 AND seq > 10`)
    await sql(`DELETE FROM belfry.audit_checkpoint WHERE tenant_id = $1`)
    expect(await faultsNow()).toEqual([])
    expect(await faultsNow(kept.filter(({ type }) => type === 'checkpoint'))).toEqual(['missing 11'])
    expect(await faultsNow(kept.filter(({ type }) => type === 'entry'))).toEqual(['missing 11'])
  })

  test('all of it is deleted, and a copy of the checkpoint was kept', async () => {
    for (const table of ['log', 'checkpoint', 'head'])
      await sql(`DELETE FROM belfry.audit_${table} WHERE tenant_id = $1`)
    expect(await faultsNow(kept.filter(({ type }) => type === 'checkpoint'))).toEqual(['missing 1'])
  })

  test('audit.rechain: an entry is edited and every later hash is made anew', async () => {
    let previousHash = linksOf(kept)[5]?.hash ?? ''
    for (const link of linksOf(kept).slice(6)) {
      const name = link.seq === 7 ? 'nobody' : link.actor.name
      const remade = { ...link, actor: { ...link.actor, name }, previousHash }
      const hash = hashOfLink(remade)
      await sql(
        `UPDATE belfry.audit_log SET actor_name = $3, previous_hash = decode($4, 'hex'),
          hash = decode($5, 'hex')
         WHERE tenant_id = $1 AND seq = $2`,
        link.seq,
        name,
        previousHash,
        hash,
      )
      previousHash = hash
    }
    expect(await faultsNow()).toEqual(['rewritten 1'])
    // a copy of the entries names the very one
    expect((await faultsNow(kept.filter(({ type }) => type === 'entry'))).slice(0, 1)).toEqual([
      'rewritten 7',
    ])
  })

  test('a checkpoint is made up, changed, or signed by another key', async () => {
    await sql(
      `UPDATE belfry.audit_checkpoint SET head = decode(repeat('ab', 32), 'hex') WHERE tenant_id = $1`,
    )
    expect(await faultsNow()).toEqual(['signature 20'])
    await sql(`UPDATE belfry.audit_checkpoint SET key_id = '0123456789abcdef' WHERE tenant_id = $1`)
    expect(await faultsNow()).toEqual(['signature 20'])
  })

  test('entries of two tenants are swapped', async () => {
    const other = await addTenant()
    await put(20, other)
    await sealer.runOnce()
    await database.sql(
      `WITH mine AS (DELETE FROM belfry.audit_log WHERE tenant_id = $1 AND seq = 7 RETURNING *)
       UPDATE belfry.audit_log AS log SET actor_name = 'theirs' FROM mine WHERE false`,
      [tenantId],
    )
    await database.sql(`UPDATE belfry.audit_log SET tenant_id = $1 WHERE tenant_id = $2 AND seq = 7`, [
      tenantId,
      other,
    ])
    expect(await faultsNow()).toEqual(['altered 7', 'broken 7', 'broken 8'])
    expect(judge(await records(other)).faults.map(({ kind, seq }) => `${kind} ${seq}`)).toEqual(['missing 7'])
  })
})

describe('retention', () => {
  /** Chains whose entries were sealed at three times. */
  async function age(): Promise<void> {
    await database.sql(
      `SELECT belfry.make_audit_partition('2020-01-01'), belfry.make_audit_partition('2020-02-01')`,
    )
  }

  test('takes whole months from the beginning, and a signed cut says so', async () => {
    await age()
    const all = await sealed(20)
    // moved back as if they had been sealed then; their hashes are made anew with those times
    let previousHash = '0'.repeat(64)
    for (const link of linksOf(all)) {
      const sealedAt = link.seq <= 8 ? '2020-01-15T00:00:00.000Z' : '2020-02-15T00:00:00.000Z'
      const remade = { ...link, sealedAt, previousHash }
      const hash = hashOfLink(remade)
      await database.sql(
        `UPDATE belfry.audit_log SET sealed_at = $3, previous_hash = decode($4, 'hex'), hash = decode($5,
          'hex')
         WHERE tenant_id = $1 AND seq = $2`,
        [tenantId, link.seq, sealedAt, previousHash, hash],
      )
      previousHash = hash
    }
    await database.sql('DELETE FROM belfry.audit_checkpoint WHERE tenant_id = $1', [tenantId])
    await database.sql(
      `UPDATE belfry.audit_head SET hash = decode($2, 'hex'), signed_size = 0, signed_at = '-infinity'
       WHERE tenant_id = $1`,
      [tenantId, previousHash],
    )
    await put(5)
    await sealer.runOnce()
    expect(await faultsNow()).toEqual([])

    expect(await sealer.cutOnce()).toEqual(['2020-01-01', '2020-02-01'])
    const left = await records()
    expect(linksOf(left).map(({ seq }) => seq)).toEqual([21, 22, 23, 24, 25])
    expect(judge(left)).toMatchObject({ ok: true, tenants: [{ first: 21, last: 25, signedSize: 25 }] })
    expect(await sealer.cutOnce()).toEqual([])
    // without the cut it would be a hole
    expect(judge(left.filter(({ type }) => type !== 'cut')).faults).toMatchObject([
      { kind: 'missing', seq: 1 },
    ])
    // a cut that is made up is no excuse
    await database.sql(`UPDATE belfry.audit_cut SET first_seq = 23 WHERE tenant_id = $1 AND first_seq = 21`, [
      tenantId,
    ])
    await database.sql('DELETE FROM belfry.audit_log WHERE tenant_id = $1 AND seq < 23', [tenantId])
    expect(await faultsNow()).toEqual(expect.arrayContaining(['signature 23']))
  })

  test('a month of which no cut is on record is not dropped', async () => {
    await sealed(3)
    const month = new Date().toISOString().slice(0, 8)
    const drop = asRole(
      database.adminConnection,
      'belfry_engine',
      tenantId,
      `SELECT belfry.drop_audit_partition('${month}01')`,
    )
    await expect(drop).rejects.toThrow(/no cut attests/)
  })
})
