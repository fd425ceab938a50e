// The audit on a database of its own: entries put on record by transactions of the catalog, chains made and
// signed as the sealer does, read and judged as anybody may.
import { generateKeyPairSync } from 'node:crypto'
import type { AuditRecord } from '@belfry/contract'
import { readPublicKey } from '@belfry/contract/audit-chain'
import { type AuditVerdict, createAuditVerifier } from '@belfry/contract/audit-verifier'
import { type AuditSealer, createAuditSealer } from '../../packages/server/src/engine/audit-sealer.ts'
import type { AuditEntry } from '../../packages/server/src/ports/audit.ts'
import type { Catalog } from '../../packages/server/src/ports/catalog.ts'
import {
  createPostgresAuditExports,
  createPostgresAuditSealing,
} from '../../packages/server/src/postgres/audit-sealing.ts'
import { createPostgresCatalog } from '../../packages/server/src/postgres/catalog/catalog.ts'
import type { Database } from '../../packages/server/src/postgres/database.ts'
import { readAuditSigner } from '../../packages/server/src/security/audit-signer.ts'
import { realClock, realRandom } from './real-clock.ts'
import { recordEvents } from './running.ts'

export const allShards = {
  heldShards: () => Array.from({ length: 64 }, (_, shard) => ({ shard, term: 1 })),
}

const pem = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
export const testSigner = readAuditSigner(pem)

export const openSealer = (db: Database, retentionDays = 400): AuditSealer =>
  createAuditSealer({
    sealing: createPostgresAuditSealing(db),
    signer: testSigner,
    elector: allShards,
    clock: realClock,
    random: realRandom,
    events: recordEvents(),
    retentionDays,
  })

/** Entries of a tenant, each in a transaction of its own. */
export async function putEntries(
  catalog: Catalog,
  tenantId: string,
  count: number,
  entry: Partial<AuditEntry> = {},
): Promise<void> {
  for (let index = 0; index < count; index++) {
    await catalog.within({ tenantId, dryRun: false, readOnly: false }, async (tx) => {
      const subject = { kind: 'job', id: null, name: `job-${index}` } as const
      tx.audit.record({ action: 'job.update', subject, details: { version: index }, ...entry })
    })
  }
}

export const openCatalog = (db: Database): Catalog => createPostgresCatalog({ db })

/** All that there is of a tenant, as it is exported. */
export async function readRecords(db: Database, tenantId: string): Promise<readonly AuditRecord[]> {
  const { links, checkpoints, cuts } = await openCatalog(db).within(
    { tenantId, dryRun: false, readOnly: true },
    async (tx) => ({
      links: await tx.auditLog.chain(0, 10_000),
      checkpoints: await tx.auditLog.checkpoints(0, Number.MAX_SAFE_INTEGER),
      cuts: await tx.auditLog.cuts(),
    }),
  )
  return [...cuts, ...links, ...checkpoints]
}

export function judge(records: readonly AuditRecord[], witnesses: readonly AuditRecord[] = []): AuditVerdict {
  const key = readPublicKey(Buffer.from(testSigner.publicKey).toString('base64'))
  const verifier = createAuditVerifier(key === undefined ? [] : [key], Date.now())
  for (const record of records) verifier.add(record)
  for (const record of witnesses) verifier.witness(record)
  return verifier.finish()
}

export const openExports = createPostgresAuditExports
